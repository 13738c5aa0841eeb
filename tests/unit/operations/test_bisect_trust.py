"""``diff --bisect`` believes no record that it may mount, write or remove something outside the project."""

from __future__ import annotations

from pathlib import Path

import pytest

from envbuild.engine.protocol import Mount
from envbuild.errors import UsageError
from envbuild.operations.bisect import _put, recorded_mounts


def test_mounts_from_outside_the_project_are_allowed_by_the_caller_only(tmp_path: Path) -> None:
    """``/`` and a link that leads there, envbuild's own folder and a writable ``.git`` are refused."""
    project, data = tmp_path / "project", tmp_path / "data"
    for folder in (project / "inside", project / ".git", project / ".envbuild", data):
        folder.mkdir(parents=True)
    (project / "root").symlink_to("/")
    for text in (
        "/:/host:ro", f"{project}:/all:rw", f"{project}/root:/host:ro", f"{project}/.envbuild:/e:rw",
        f"{project}/.git:/workspace/.git:rw", f"{project}/inside/../../data:/d:rw", f"{data}:/d:rw",
    ):  # fmt: skip
        with pytest.raises(UsageError, match="a record is not trusted with this"):
            recorded_mounts([text], project, [Mount(source=data, target="/d", read_only=True)])
    good = [f"{project}/inside:/i:rw", f"{project}/.git:/workspace/.git:ro", f"{data}:/d:rw"]
    allowed = [Mount(source=data, target="/d")]
    assert [mount.target for mount in recorded_mounts(good, project, allowed)] == ["/i", "/workspace/.git", "/d"]


def test_files_are_written_and_removed_in_the_copy_only(tmp_path: Path) -> None:
    """A link in a path, or in the place of the file, is not followed; a file keeps its permissions."""
    copy, outside = tmp_path / "copy", tmp_path / "outside"
    copy.mkdir()
    outside.mkdir()
    (outside / "x").write_text("kept")
    (copy / "folder").symlink_to(outside)
    (copy / "file").symlink_to(outside / "x")
    (copy / "run.sh").touch(mode=0o755)
    _put(copy, "folder/x", None)
    _put(copy, "folder/y", b"new")
    _put(copy, "../outside/x", None)
    _put(copy, "file", b"new")
    _put(copy, "run.sh", b"new")
    _put(copy, "a/b", b"new")
    assert [(path.name, path.read_text()) for path in outside.iterdir()] == [("x", "kept")]
    assert (copy / "file").read_bytes() == (copy / "a/b").read_bytes() == b"new"
    assert (copy / "run.sh").stat().st_mode & 0o111
