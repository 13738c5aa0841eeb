"""Control groups: how a run enters them, and version 2 as systemd delegates it; a folder plays the kernel's part."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from envbuild.engine.local import limits
from envbuild.engine.local.limits import Group, Limits
from envbuild.errors import EngineError

OTHER = 1
"""A process that nobody here has started."""


@pytest.fixture(name="scope")
def _scope(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A delegated group that this process is in."""
    scope = tmp_path / "groups/user.slice/scope"
    scope.mkdir(parents=True)
    (tmp_path / "mounts").write_text(f"1 2 0:3 / {tmp_path / 'groups'} rw - cgroup2 cgroup2 rw,nsdelegate\n")
    (tmp_path / "own").write_text("0::/user.slice/scope\n")
    (scope / "cgroup.controllers").write_text("cpu memory pids\n")
    (scope / "cgroup.subtree_control").write_text("\n")
    (scope / "cgroup.type").write_text("domain\n")
    (scope / "cgroup.procs").write_text(f"{os.getpid()}\n")
    monkeypatch.setattr(limits, "_MOUNTS", tmp_path / "mounts")
    monkeypatch.setattr(limits, "_GROUPS", tmp_path / "own")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    def move(process: int, group: Path) -> None:
        for path in (scope / "cgroup.procs", group / "cgroup.procs"):
            left = [each for each in (path.read_text().split() if path.exists() else []) if each != str(process)]
            path.write_text("\n".join([*left, *([str(process)] if path.parent == group else [])]))
        (tmp_path / "own").write_text("0::/user.slice/scope/envbuild-caller\n")

    monkeypatch.setattr(limits, "_move", move)
    return scope


def controllers(scope: Path) -> str:
    """Return what was last given to the groups below."""
    return (scope / "cgroup.subtree_control").read_text()


def made(scope: Path) -> list[Path]:
    """Return the groups of runs."""
    return [path for path in scope.iterdir() if path.is_dir() and path.name != "envbuild-caller"]


def test_this_process_leaves_before_a_controller_is_given(scope: Path) -> None:
    """With processes in it a group would become one of threads, and the run's an invalid one."""
    with Group(Limits(memory=1 << 30, cpus=1.5)) as group:
        (folder,) = made(scope)
        assert group.doors() == [str(folder / "cgroup.procs")]
        assert group.is_needed()
        assert (folder / "memory.max").read_text() == str(1 << 30)
        assert (folder / "cpu.max").read_text() == "150000 100000"
        assert (folder / "pids.max").read_text() == str(limits.PIDS)
        assert (scope / "cgroup.procs").read_text() == ""
        assert (scope / "envbuild-caller/cgroup.procs").read_text() == str(os.getpid())
        assert controllers(scope) == "+pids", "the last one"
        for path in folder.iterdir():  # the kernel's are no files
            path.unlink()
    assert made(scope) == []


@pytest.mark.parametrize("asked", [None, 1 << 30])
def test_others_are_not_moved(scope: Path, asked: int | None) -> None:
    """A shell that envbuild was started from stays where it is, and its group as it is; the limit is refused."""
    (scope / "cgroup.procs").write_text(f"{OTHER}\n{os.getpid()}\n")
    if asked is None:
        with Group(Limits()) as group:
            assert (group.doors(), group.is_needed()) == ([], False)
    else:
        with pytest.raises(EngineError, match=r"--memory cannot be had here: there are other processes in this one's"):
            Group(Limits(memory=asked)).__enter__()
    assert controllers(scope) == "\n"
    assert (scope / "cgroup.procs").read_text().split() == [str(OTHER), str(os.getpid())]
    assert made(scope) == []


def test_the_topmost_group_may_have_processes(scope: Path) -> None:
    """It has no type, and no rule about processes."""
    (scope / "cgroup.type").unlink()
    limits._delegate(scope, "pids")
    assert controllers(scope) == "+pids"
    assert (scope / "cgroup.procs").read_text() == f"{os.getpid()}\n"


def test_processes_of_a_first_process_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container envbuild may be process 1, and its helper's parent."""
    assert not limits._is_ours(OTHER)
    monkeypatch.setattr(os, "getpid", lambda: 1)
    assert limits._is_ours(1)
    assert limits._is_ours(os.getppid())


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
