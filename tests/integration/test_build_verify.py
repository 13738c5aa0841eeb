"""``envbuild build --verify`` as users run it: from nothing, compared with what is recorded, kept and loaded."""

from __future__ import annotations

import json
import os
import re
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from envbuild.core.digest import canonical_json, sha256_file
from tests.support.cli import Project
from tests.support.images import forget_images
from tests.support.locks import sealed

pytestmark = [pytest.mark.engine, pytest.mark.network]


CUT = ("unshare", "--net") if os.geteuid() == 0 else ("unshare", "--map-root-user", "--net")
"""Runs a command without network; the engine is reached by its socket in the file system."""


@pytest.fixture(name="own")
def _own(made: Project, tmp_path: Path) -> Iterator[Project]:
    """A copy of the built project with a separate store and an image of a separate name."""
    project = made.copy(tmp_path, own_store=True)
    name = f"verify{os.getpid()}"
    text = (project.folder / "pylock.clitest.toml").read_text()
    (project.folder / "pylock.clitest.toml").unlink()
    project.write(f"pylock.{name}.toml", sealed(text.replace('name = "clitest"', f'name = "{name}"')))
    (project.folder / "pylock.clitest.image.json").unlink()
    (project.folder / "spec.yaml").unlink()
    yield project
    forget_images(f"envbuild/{name}")


def bases_made_anew() -> set[str]:
    """Names of the bases in the engine that steps of ``build --verify`` imported for themselves."""
    client: Any = docker.from_env().api
    images = client.images(name="envbuild-step")
    client.close()
    return {tag for image in images for tag in image.get("RepoTags") or () if ":fresh-" in tag}


def test_a_rebuild_from_nothing_is_the_same(own: Project) -> None:
    """One line reports it; OS and layers were made again, without a network, and nothing of that is kept."""
    own.must("build")
    done = own.must("build", "--verify", "--verbose", prefix=CUT)
    lines = done.out.splitlines()
    made = [line for line in done.err.splitlines() if line.endswith(("  built", "  reused"))]
    assert (len(made), [line for line in made if line.endswith("  reused")]) == (4, [])
    assert re.fullmatch(r"verified  verify\d+  sha256:[0-9a-f]{12}…  the same 4 layers +\d+\.\d s", lines[-1])
    assert list((own.store / "derived" / "rebuilt").iterdir()) == []
    kept = bases_made_anew()
    deadline = time.monotonic() + 300
    while kept & bases_made_anew():  # those of others that verify an image just now go with their steps
        assert time.monotonic() < deadline, kept
        time.sleep(0.5)


def test_what_differs_is_reported_by_layer_path_and_field(own: Project) -> None:
    """A kept layer that is not what the code makes: exit 16, and the place in it."""
    own.must("build", "--output", "oci:one")
    _alter_kept_layer(own, "opt/env/lib/python3.11/site-packages/part.py")
    for path in own.folder.glob("*.image.json"):
        path.unlink()
    own.must("build")
    (record,) = own.folder.glob("*.image.json")
    done = own("build", "--verify")
    assert (done.code, "Traceback" in done.err) == (16, False), done.err
    recorded = json.loads(record.read_bytes())["config"]
    lines = done.err.splitlines()
    assert lines[0].endswith(".toml: rebuilt from nothing, the image is another")
    assert lines[1] == f"  recorded  sha256:{recorded}"
    assert re.fullmatch(r"  rebuilt   sha256:[0-9a-f]{64}", lines[2])
    assert lines[3:] == [
        "  Python 3.11 environment, 2 small wheels",
        "    /opt/env/lib/python3.11/site-packages/part.py  mode  0600 → 0644",
        "  → report it with these lines: the same lock must give the same image",
    ]


def _alter_kept_layer(project: Project, name: str) -> None:
    """Give one file another mode in the kept layer that holds it, consistently."""
    for folder in project.layers():
        path = folder / "layer.tar"
        if not path.is_file():
            continue
        with tarfile.open(path) as archive:
            if name not in archive.getnames():
                continue
        data = bytearray(path.read_bytes())
        with tarfile.open(path) as archive:
            member = archive.getmember(name)
            member.mode = 0o600
            block = member.tobuf(tarfile.USTAR_FORMAT)
        data[member.offset : member.offset + 512] = block
        path.unlink()
        path.write_bytes(data)
        (folder / "layer.json").unlink()
        (folder / "layer.json").write_bytes(canonical_json({"diff_id": sha256_file(path), "size": len(data)}))
        return
    raise AssertionError(name)
