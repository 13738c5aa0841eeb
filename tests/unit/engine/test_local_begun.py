"""Which runs the next one of their command line begins like."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from envbuild.engine.local.images import FoundImage, StoredImage
from envbuild.engine.local.program import _GATE, _GUARD, _guard_waits, _makes_places
from envbuild.engine.local.trees import Tree
from envbuild.engine.protocol import ContainerRun, Mount
from envbuild.runtime.guard import gate


def image(folder: Path, layers: Sequence[str | None], entrypoint: Sequence[str]) -> FoundImage:
    """An image whose layers, bottom first, have these texts as the guard's gate."""
    trees = []
    for number, text in enumerate(layers):
        path = folder / str(number)
        path.mkdir()
        if text is not None:
            (path / _GATE.lstrip("/")).parent.mkdir(parents=True)
            (path / _GATE.lstrip("/")).write_text(text)
        trees.append(Tree(path=path, writable=()))
    stored = StoredImage(
        config="0" * 64, manifest="0" * 64, tag="t", layers=(), architecture="amd64", environment={},
        entrypoint=tuple(entrypoint), command=(), directory="", user="",
    )  # fmt: skip
    return FoundImage(image=stored, trees=tuple(trees))


OWN = Path(str(gate.__file__)).read_text()


@pytest.mark.parametrize(
    ("layers", "entrypoint", "mount", "waits"),
    [
        ([None, OWN, None], ("python3", "-I", _GUARD), "/data", True),
        (["old", OWN], ("python3", _GUARD), "/data", True),
        ([OWN, "old"], ("python3", _GUARD), "/data", False),
        ([None], ("python3", _GUARD), "/data", False),
        ([OWN], ("python3",), "/data", False),
        ([OWN], (), "/data", False),
        ([OWN], ("python3", _GUARD), "/opt/envbuild", False),
    ],
    ids=["own", "covered", "older", "none", "another entry point", "no entry point", "mounted over"],
)
def test_only_a_guard_that_waits_is_started_early(
    layers: Sequence[str | None], entrypoint: Sequence[str], mount: str, waits: bool, tmp_path: Path
) -> None:
    """An older envbuild's guard would start the program at once, before anything is proved."""
    request = ContainerRun(image="i", command=("x",), mounts=(Mount(source=tmp_path, target=mount),))
    assert _guard_waits(request, image(tmp_path, layers, entrypoint)) is waits


@pytest.mark.parametrize(
    ("source", "target", "makes"),
    [
        ("project/data", "/workspace/data", False),
        ("project/.envbuild/empty", "/workspace/.envbuild", False),
        ("data", "/workspace/data", True),
        ("project/data", "/workspace/other", True),
        ("data", "/data", False),
    ],
)
def test_places_that_are_made_in_the_project(source: str, target: str, makes: bool, tmp_path: Path) -> None:
    """A run that looks at the project first would report them: so it does not begin before that."""
    mounts = (
        Mount(source=tmp_path / "project", target="/workspace"),
        Mount(source=tmp_path / source, target=target),
    )
    assert _makes_places(ContainerRun(image="i", command=("x",), mounts=mounts)) is makes
