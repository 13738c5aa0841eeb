"""Variants of one project as users have them: locked together, each built, run and compared by its name."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest

from tests.support.cli import Project
from tests.support.images import forget_images
from tests.support.wheels import make_wheel

pytestmark = [pytest.mark.engine, pytest.mark.network, pytest.mark.both_engines]

_NAME = f"v{uuid.uuid4().hex[:8]}"
_SPEC = f"""\
name: {_NAME}
os: debian-12
packages: [libstdc++6, libgomp1]  # the system that is in the store already
requirements: [tool]
wheels: [wheels]
determinism: {{threads: 1}}
variants:
  new: {{}}
  old:
    requirements: [part<2]
    env: {{FLAVOUR: bitter}}
"""
_PROGRAM = """\
import os
from importlib.metadata import version
text = f"{version('part')} {os.environ.get('FLAVOUR', 'plain')}"
print(text)
open("result.txt", "w").write(text)
"""


@pytest.fixture(scope="module", name="project")
def _project(made: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project with two variants, locked."""
    root = tmp_path_factory.mktemp("variants")
    proxies = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    project = Project(folder=root / "project", store=made.store, environ=proxies)
    make_wheel(project.folder / "wheels", "tool", requires=["part"])
    for version in ("1.5", "2.0"):
        make_wheel(project.folder / "wheels", "part", version)
    project.write("spec.yaml", _SPEC)
    project.write("train.py", _PROGRAM)
    project.must("lock")
    yield project
    forget_images(f"envbuild/{_NAME}-new", f"envbuild/{_NAME}-old")


def test_each_variant_is_an_image_of_its_own(project: Project) -> None:
    """Without a name nothing runs; with it each has its packages and variables, and diff names the variant first."""
    done = project("run", "train.py")
    assert (done.code, done.out) == (2, "")
    assert "choose one, by its variant: --variant new\n" in done.err
    assert project.must("run", "--variant", "new", "train.py").out == "2.0 plain\n"
    assert project.must("run", "--variant", "old", "train.py").out == "1.5 bitter\n"
    assert project.must("check", "--variant", "old").code == 0
    project.must("build", "--variant", "old")
    assert (project.folder / f"pylock.{_NAME}-old.image.json").is_file()
    layers = [project.must("image", "--variant", name, "--json").json["layers"] for name in ("new", "old")]
    shared = {layer["digest"] for layer in layers[0]} & {layer["digest"] for layer in layers[1]}
    assert shared  # the system, which is most of it
    (newer, older) = project.must("runs", "--json").json
    assert [newer["lock"]["file"], older["lock"]["file"]] == [f"pylock.{_NAME}-{name}.toml" for name in ("old", "new")]
    done = project("diff", older["id"], newer["id"])
    assert done.code == 16
    (because,) = [line.split() for line in done.out.splitlines() if line.startswith("because")]
    assert because[:5] == ["because", "variant", "new", "→", "old"]
    assert project("diff", older["id"], newer["id"], "--json").json["causes"][0]["what"] == "variant"


def test_a_variant_is_verified(project: Project) -> None:
    """The proof is next to that variant's lock, and holds for it."""
    project.must("verify", "--variant", "new", "-n", "2", "train.py")
    assert (project.folder / f"pylock.{_NAME}-new.verified.json").is_file()
    project.must("verify", "--variant", "new", "--check", "train.py")
    assert project("verify", "--variant", "old", "--check", "train.py").code != 0
