"""Finding the lock."""

from __future__ import annotations

from pathlib import Path

import pytest

from envbuild.errors import LockError, UsageError
from envbuild.project import find_lock


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
    assert caught.value.hint == "choose one: --lock FILE"
    assert find_lock(tmp_path, "b") == tmp_path / "pylock.b.toml"


def test_no_lock_says_how_to_get_one(tmp_path: Path) -> None:
    """Files that are no envbuild locks, such as a plain pylock.toml, are not taken for one."""
    (tmp_path / "pylock.toml").touch()
    (tmp_path / "pylock.Not Ours.toml").touch()
    with pytest.raises(LockError) as caught:
        find_lock(tmp_path, "mine")
    assert caught.value.message == f"no pylock.mine.toml in {tmp_path} or any folder above it"
    assert caught.value.hint == "write one: envbuild lock spec.yaml"
