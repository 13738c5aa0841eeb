"""``envbuild image``: what each layer weighs, from the lock and the store alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.support.cli import Project

pytestmark = [pytest.mark.engine, pytest.mark.network]


def test_what_each_layer_weighs(project: Project, made: Project, tmp_path: Path) -> None:
    """Digests, sizes and files are those of the image; other locks that share layers are named; no engine is asked."""
    nowhere = {"DOCKER_HOST": "unix:///nowhere/docker.sock"}
    project.must("build", "--output", f"oci:{tmp_path / 'out'}", "--offline", **nowhere)
    shown = project.must("image", "--json", **nowhere).json
    identity = json.loads((made.folder / "pylock.clitest.image.json").read_bytes())
    assert (shown["config"], shown["manifest"]) == (f"sha256:{identity['config']}", f"sha256:{identity['manifest']}")
    blobs = tmp_path / "out" / "blobs" / "sha256"
    manifest = json.loads((blobs / identity["manifest"]).read_bytes())
    assert [(layer["digest"], layer["size"]) for layer in manifest["layers"]] == [
        (layer["digest"], layer["size"]) for layer in shown["layers"]
    ]
    assert [layer["kind"] for layer in shown["layers"]] == ["os", "environment", "bytecode", "runtime"]
    assert all(layer["files"] > 0 for layer in shown["layers"])
    assert shown["size"] == sum(layer["size"] for layer in shown["layers"])
    lines = project.must("image", **nowhere).out.splitlines()
    assert len(lines) == 5
    assert lines[-1].split("clitest: ")[1].startswith(f"{shown['files']:,} files in 4 layers, config sha256:")
    other = Project(folder=tmp_path / "other", store=project.store, environ=project.environ)
    for path in project.folder.glob("pylock.clitest.toml"):
        shutil.copy(path, other.folder / "pylock.clitest.toml")
    shared = [layer["shared-with"] for layer in other.must("image", "--json", **nowhere).json["layers"]]
    lock = str(project.folder / "pylock.clitest.toml")
    assert [lock in names for names in shared] == [True, True, True, False]


def test_layers_that_are_not_there_are_named(project: Project, tmp_path: Path) -> None:
    """Nothing is built behind one's back: the command states which layers are missing, and how to make them."""
    empty = Project(folder=project.folder, store=tmp_path / "empty", environ=project.environ)
    done = empty("image")
    assert done.code == 14
    assert done.err.splitlines()[0] == (
        f"envbuild: the store {tmp_path / 'empty'} lacks 3 of 4 layers of pylock.clitest.toml"
    )
    assert done.err.splitlines()[-1] == "  → make them: envbuild build pylock.clitest.toml"
    assert done.out == ""
