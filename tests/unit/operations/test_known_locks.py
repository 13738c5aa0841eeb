"""A lock that was read before is not parsed again, and nothing else than a valid lock is ever taken for one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from envbuild.core.digest import sha256_bytes
from envbuild.errors import LockError
from envbuild.lockfile import model as locks
from envbuild.operations.load_lock import load_lock
from tests.support.runtime import make_lock


@pytest.fixture(name="path")
def _path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lock in a folder without a spec, with a store of its own."""
    monkeypatch.setenv("ENVBUILD_STORE", str(tmp_path / "store"))
    (tmp_path / "store").mkdir()
    lock = make_lock()
    path = tmp_path / lock.file_name
    path.write_bytes(locks.dumps(lock))
    return path


def notes(path: Path) -> list[Path]:
    return sorted((path.parent / "store/derived/locks").glob("*.json"))


def test_the_second_time_it_is_not_parsed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same value with the same digest comes from what was kept."""
    first = load_lock(path).lock
    assert len(notes(path)) == 1

    def refuse(data: bytes, source: str = "") -> locks.Lock:
        raise AssertionError("parsed again")

    monkeypatch.setattr(locks, "loads", refuse)
    second = load_lock(path).lock
    assert second == first
    monkeypatch.setattr(locks, "_content", refuse)
    assert locks.lock_digest(second) == locks.lock_digest(first)


def test_another_byte_is_another_lock(path: Path) -> None:
    """A lock that was edited after it had been read is refused as ever."""
    load_lock(path)
    path.write_bytes(path.read_bytes().replace(b"seed = 42", b"seed = 43"))
    with pytest.raises(LockError):
        load_lock(path)
    assert len(notes(path)) == 1


@pytest.mark.parametrize("harm", ["cut", "changed", "whole but no lock", "link", "another user's"])
def test_what_was_kept_is_not_believed(path: Path, harm: str, tmp_path: Path) -> None:
    """Damage, a forged note without its digest, a link and another user's file: the lock itself is read."""
    expected = load_lock(path).lock
    (note,) = notes(path)
    data = note.read_bytes()
    other = data[64:].replace(b'"seed":42', b'"seed":43')
    assert other != data[64:]
    if harm == "cut":
        note.write_bytes(data[:-9])
    elif harm == "changed":
        note.write_bytes(data[:64] + other)
    elif harm == "whole but no lock":
        note.write_bytes(sha256_bytes(b"{}").encode() + b"{}")
    else:
        note.write_bytes(sha256_bytes(other).encode() + other)
        if harm == "link":
            note.rename(tmp_path / "elsewhere")
            note.symlink_to(tmp_path / "elsewhere")
        elif os.geteuid() == 0:
            os.chown(note, 12345, 12345)
        else:
            pytest.skip("gives a file to another user")
    assert load_lock(path).lock == expected
