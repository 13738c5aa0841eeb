"""A lock with a standalone Python: what is recorded, what is refused, and that other locks are as they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from envbuild.errors import LockError
from envbuild.lockfile.changes import changes
from envbuild.lockfile.model import Lock, dumps, loads
from tests.support.locks import small_lock, standalone_lock
from tests.support.pythons import RELEASE, file_name, tiny_archive


@pytest.fixture(name="lock")
def _lock(tmp_path: Path) -> Lock:
    return standalone_lock(small_lock(), tiny_archive(tmp_path / "a.tar.gz"))


def test_a_build_round_trips(lock: Lock) -> None:
    """Release, path, size and digest are in the lock; no address is."""
    data = dumps(lock)
    assert loads(data) == lock
    assert f'path = "{RELEASE}/{file_name("3.12.7")}"' in data.decode()
    assert 'requires-python = "==3.12.*"' in data.decode()
    assert b"://" not in data
    assert lock.python.build is not None
    assert (lock.python.build.release, lock.python.build.file) == (RELEASE, file_name("3.12.7"))


def test_a_lock_with_the_systems_python_has_no_trace_of_it() -> None:
    """Locks and digests of before are the same bytes."""
    assert b"build" not in dumps(small_lock()).split(b"[tool.envbuild.python]")[1].split(b"[")[0]


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ('version = "3.12.7"', 'version = "3.13.1"', "python.build.version"),
        (f"{RELEASE}/cpython", "20200101/cpython", "python.build.path"),
        (f"{RELEASE}/cpython", "../../cpython", "python.build.path"),
        ("/opt/python/bin/python3.12", "/usr/bin/python3.12", "python.executable"),
    ],
)
def test_a_build_that_is_not_the_locks_python_is_refused(lock: Lock, old: str, new: str, field: str) -> None:
    """Neither another version, nor another file, nor another interpreter gets in by an edit."""
    text = dumps(lock).decode()
    assert old in text
    with pytest.raises(LockError) as caught:
        loads(text.replace(old, new).encode())
    assert f"tool.envbuild.{field}: " in caught.value.message


def test_another_build_is_reported(lock: Lock) -> None:
    """What moved names the release, the build and its digest."""
    (found,) = (change for change in changes(small_lock(), lock) if change.name == "Python")
    assert lock.python.build is not None
    assert (found.before, found.after) == ("3.11", f"3.12.7 (standalone {RELEASE}, {lock.python.build.sha256[:12]})")
