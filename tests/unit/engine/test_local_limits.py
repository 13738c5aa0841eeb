"""The file by which a program enters its control group."""

from __future__ import annotations

from pathlib import Path

import pytest

from envbuild.engine.local import limits


@pytest.mark.parametrize(("version", "door"), [(1, "tasks"), (2, "cgroup.procs")])
def test_a_single_thread_enters_where_the_kernel_lets_it(
    version: int, door: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version 2 refuses a thread that leaves its process's group; version 1 moves it without waiting."""
    (tmp_path / "cgroup.subtree_control").write_text("pids\n")
    monkeypatch.setattr(limits, "own_group", lambda controller: (tmp_path, version))
    monkeypatch.setattr(limits.time, "sleep", lambda seconds: None)  # the files of a real group do not keep it
    with limits.Group(limits.Limits()) as group:
        (path,) = map(Path, group.doors())
        assert path.name == door
        assert path.parent.parent == tmp_path
        assert (path.parent / "pids.max").read_text() == str(limits.PIDS)
