"""What is remembered of unchanged files: used where it is certain, and never else."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from blake3 import blake3

from envbuild.core.progress import Advance
from envbuild.inputs import hashing, state
from envbuild.inputs.digest import digest_inputs
from envbuild.inputs.statcache import MARGIN, MARGIN_ELSEWHERE, StatCache, stat_key
from tests.support.ticks import next_tick

SECOND = 10**9


@pytest.fixture(name="read")
def _read(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Count the bytes of each file that is read."""
    sizes: list[int] = []
    real = hashing._content

    def counted(descriptor: int, size: int, advance: Advance) -> tuple[bytes, int]:
        sizes.append(size)
        return real(descriptor, size, advance)

    monkeypatch.setattr(hashing, "_content", counted)
    return sizes


@pytest.fixture(name="young")
def _young(tmp_path: Path) -> Path:
    """A folder ``data`` with four files of one to four bytes, just written."""
    (tmp_path / "data" / "b").mkdir(parents=True)
    _write(tmp_path)
    return tmp_path


def _write(base: Path) -> None:
    for number, name in enumerate(("a", "b/c", "b/d", "e"), 1):
        (base / "data" / name).write_bytes(b"x" * number)


@pytest.fixture(name="base")
def _base(young: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, and a clock that is an hour ahead of their times."""
    _clock(monkeypatch, 3600)
    return young


def _clock(monkeypatch: pytest.MonkeyPatch, ahead: float) -> None:
    """Have the file system's clock show what it shows plus so many seconds; files keep their times."""

    def opened(self: state.State) -> StatCache:
        self._made()
        return StatCache(self.folder / "stat-cache", time.time_ns() + int(ahead * SECOND))

    monkeypatch.setattr(state.State, "stat_cache", opened)


def digest(base: Path) -> str:
    (found,) = digest_inputs(base, ["data"])
    return found.blake3


def test_unchanged_files_are_not_read_again(base: Path, read: list[int]) -> None:
    """The second time nothing is read, then only what is new or has changed."""
    first = digest(base)
    assert sorted(read) == [1, 2, 3, 4]
    read.clear()
    assert digest(base) == first
    assert read == []
    (base / "data" / "b" / "c").write_bytes(b"y" * 9)
    (base / "data" / "new").write_bytes(b"z" * 8)
    assert digest(base) != first
    assert sorted(read) == [8, 9]


def test_moved_files_are_not_read_again(base: Path, read: list[int]) -> None:
    """A file is known by its inode: a folder renamed costs no reading, a hard link neither."""
    digest(base)
    read.clear()
    (base / "data" / "b").rename(base / "data" / "moved")
    digest(base)
    assert read == []


@pytest.mark.parametrize("change", ["size", "mtime", "inode", "ctime"])
def test_each_sign_of_change_has_the_file_read(base: Path, read: list[int], change: str) -> None:
    """Size, times and inode: one that differs is enough, also if a program put the modification time back."""
    path = base / "data" / "e"
    before = path.stat()
    digest(base)
    read.clear()
    if change == "size":
        os.truncate(path, 7)
        os.utime(path, ns=(1, before.st_mtime_ns))
    elif change == "mtime":
        os.utime(path, ns=(1, before.st_mtime_ns + 1))
    elif change == "ctime":
        next_tick(path)
        path.write_bytes(b"yyyy")
        os.utime(path, ns=(1, before.st_mtime_ns))
    else:
        other = base / "other"
        other.write_bytes(b"yyyy")
        os.utime(other, ns=(1, before.st_mtime_ns))
        other.replace(path)
    digest(base)
    assert len(read) == 1


def test_a_file_as_young_as_its_digest_is_read_again(young: Path, read: list[int]) -> None:
    """Files written within two seconds of being read could change again with no sign: they are not remembered."""
    first = digest(young)
    while time.time_ns() - (young / "data" / "a").stat().st_mtime_ns >= MARGIN:  # a machine that stood still meanwhile
        _write(young)
        first = digest(young)
    read.clear()
    assert digest(young) == first
    assert sorted(read) == [1, 2, 3, 4]


def test_a_change_within_one_tick_is_seen(young: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Same size, same times: with a clock of whole seconds nothing distinguishes the second write from the first."""
    path = young / "data" / "e"
    stamp = time.time_ns() // SECOND * SECOND

    def coarse(status: os.stat_result) -> bytes:
        return key(status.st_ino, status.st_dev, stamp, status.st_size)

    for module in ("hashing", "digest"):
        monkeypatch.setattr(f"envbuild.inputs.{module}.stat_key", coarse)
    before = digest(young)
    while time.time_ns() - stamp >= MARGIN:  # as if the file had been written just now
        stamp = time.time_ns() // SECOND * SECOND
        before = digest(young)
    path.write_bytes(b"yyyy")
    assert digest(young) != before


def test_a_clock_set_back_forgets_everything(base: Path, read: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock that runs through the same times again, times prove nothing."""
    digest(base)
    read.clear()
    _clock(monkeypatch, 1800)
    digest(base)
    assert sorted(read) == [1, 2, 3, 4]


def test_files_from_the_future_are_read_each_time(base: Path, read: list[int]) -> None:
    """A file whose time is yet to come may still change within it."""
    ahead = time.time_ns() + 7200 * SECOND
    os.utime(base / "data" / "e", ns=(ahead, ahead))
    digest(base)
    read.clear()
    digest(base)
    assert read == [4]


@pytest.mark.parametrize("damage", ["cut", "flipped", "emptied", "other format", "longer", "a folder"])
def test_a_damaged_cache_is_ignored(base: Path, read: list[int], damage: str) -> None:
    """One flipped bit in a digest would make equal data look changed: such a cache counts as none, and is replaced."""
    first = digest(base)
    read.clear()
    path = base / ".envbuild" / "inputs" / "stat-cache"
    data = bytearray(path.read_bytes())
    if damage == "cut":
        path.write_bytes(data[:-72])
    elif damage == "flipped":
        data[-50] ^= 1
        path.write_bytes(data)
    elif damage == "emptied":
        path.write_bytes(b"")
    elif damage == "other format":
        path.write_bytes(b"envbuild stat cache 2\n" + data[22:])
    elif damage == "longer":
        path.write_bytes(data + b"\0" * 72)
    else:
        path.unlink()
        path.mkdir()
    assert digest(base) == first
    assert sorted(read) == [1, 2, 3, 4]
    if damage != "a folder":
        read.clear()
        assert digest(base) == first
        assert read == []


def key(inode: int, device: int, time: int, size: int = 4) -> bytes:
    """Return what a file is known by whose times are both the same."""
    status = SimpleNamespace(st_ino=inode, st_dev=device, st_size=size, st_mtime_ns=time, st_ctime_ns=time)
    return stat_key(status)  # type: ignore[arg-type]


def test_two_devices_may_share_inode_numbers(tmp_path: Path) -> None:
    """Inodes are numbers of one file system; the same number elsewhere is another file."""
    keys = [key(11, device, 5) for device in (7, 8, 9)]
    first = StatCache(tmp_path / "cache", 10_000 * SECOND)
    first.add((key, bytes([number]) * 32) for number, key in enumerate(keys))
    first.save()
    second = StatCache(tmp_path / "cache", 10_000 * SECOND)
    assert [second.get(key) for key in keys] == [bytes([number]) * 32 for number in range(3)]


def test_margins(tmp_path: Path) -> None:
    """Two seconds on the cache's own file system; five minutes on another one, whose clock may differ."""
    now, here = 10_000 * SECOND, tmp_path.stat().st_dev

    def known(device: int, age: int) -> bool:
        path = tmp_path / f"cache-{device}-{age}"
        cache = StatCache(path, now)
        cache.add([(key(11, device, now - age), b"d" * 32)])
        cache.save()
        return StatCache(path, now).get(key(11, device, now - age)) is not None

    assert [known(here, age) for age in (MARGIN, MARGIN - 1, 0)] == [True, False, False]
    assert [known(here + 1, age) for age in (MARGIN_ELSEWHERE, MARGIN_ELSEWHERE - 1)] == [True, False]


def test_what_is_gone_is_forgotten_in_time(base: Path) -> None:
    """Another lock's inputs stay known, but files long gone do not pile up."""
    path = base / ".envbuild" / "inputs" / "stat-cache"
    for number in range(12):
        name = base / "data" / f"n{number}"
        name.write_bytes(b"n")
        digest(base)
        name.rename(base / f"gone{number}")
    assert path.stat().st_size < 72 * 13


def test_commands_at_the_same_time_do_no_harm(base: Path) -> None:
    """The file is whole whoever writes it last, and every digest is right."""
    for number in range(200):
        (base / "data" / f"{number}").write_bytes(b"%d" % number)
    expected = digest(base)
    found: list[str] = []

    def work(number: int) -> None:
        for turn in range(5):
            (base / f"own-{number}").mkdir(exist_ok=True)
            (base / f"own-{number}" / "f").write_bytes(b"%d" % turn)
            found.append(digest_inputs(base, ["data", f"own-{number}"])[0].blake3)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 20
    data = (base / ".envbuild" / "inputs" / "stat-cache").read_bytes()
    assert blake3(data[:-32]).digest() == data[-32:]
