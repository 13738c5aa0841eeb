"""Finding the lock."""

from __future__ import annotations

from pathlib import Path

import pytest

from envbuild.errors import LockError, UsageError
from envbuild.lockfile.discovery import find_lock, project_of


def test_the_nearest_lock_upward_is_found(tmp_path: Path) -> None:
    """A script anywhere below the project finds the project's lock, and a nearer lock wins."""
    (tmp_path / "pylock.outer.toml").touch()
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    script = inner / "train.py"
    script.touch()
    assert find_lock(script) == tmp_path / "pylock.outer.toml"
    (tmp_path / "a" / "pylock.inner.toml").touch()
    assert find_lock(inner) == tmp_path / "a" / "pylock.inner.toml"
    assert find_lock(inner, "outer") == tmp_path / "pylock.outer.toml"


def test_several_locks_are_listed(tmp_path: Path) -> None:
    """With several locks in one folder the choice is the caller's."""
    (tmp_path / "pylock.b.toml").touch()
    (tmp_path / "pylock.a.toml").touch()
    with pytest.raises(UsageError) as caught:
        find_lock(tmp_path)
    assert caught.value.message == f"{tmp_path} holds 2 locks: pylock.a.toml, pylock.b.toml"
    assert caught.value.hint == "choose one: pylock.a.toml as the last argument"
    with pytest.raises(UsageError) as caught:
        find_lock(tmp_path, option=True)
    assert caught.value.hint == "choose one: --lock pylock.a.toml"
    assert find_lock(tmp_path, "b") == tmp_path / "pylock.b.toml"


def test_no_lock_reports_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that are no envbuild locks, such as a plain pylock.toml, are not taken for one."""
    (tmp_path / "pylock.toml").touch()
    (tmp_path / "pylock.Not Ours.toml").touch()
    with pytest.raises(LockError) as caught:
        find_lock(tmp_path, "mine")
    assert caught.value.message == f"no pylock.mine.toml in {tmp_path} or any folder above it"
    assert caught.value.hint == "write a spec, then lock it: envbuild init"
    (tmp_path / "spec.yaml").touch()
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path / "src")
    with pytest.raises(LockError) as caught:
        find_lock(tmp_path / "src")
    assert caught.value.hint == "write one: envbuild lock ../spec.yaml"


def test_a_lock_is_of_no_use_to_scripts_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error for a script of another folder explains why the lock of the working directory is not used."""
    here, other = tmp_path / "here", tmp_path / "other"
    for folder in (here, other):
        folder.mkdir()
    monkeypatch.chdir(here)
    plain = "write a spec, then lock it: envbuild init"
    for start, lock, hint in (
        (other, False, plain),
        (other, True, "a lock is for scripts in its own project: copy this one there, or make another: envbuild init "),
    ):
        if lock:
            (here / "pylock.a.toml").touch()
        with pytest.raises(LockError) as caught:
            find_lock(start)
        assert caught.value.hint == (hint if hint is plain else f"{hint}../other")


def test_runs_belong_to_the_nearest_project(tmp_path: Path) -> None:
    """From below a project its runs are found; a folder that does not exist is a slip, not a part of the project."""
    (tmp_path / "pylock.a.toml").touch()
    below = tmp_path / "src"
    below.mkdir()
    assert project_of(below) == tmp_path
    (below / ".envbuild").mkdir()
    assert project_of(below) == below
    with pytest.raises(UsageError) as caught:
        project_of(tmp_path / "scr")
    assert caught.value.message == f"there is no folder {tmp_path / 'scr'}"
