"""Files are whole or absent."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
import time
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from envbuild.core import fs
from envbuild.core.fs import (
    atomic_file,
    atomic_write,
    claimed,
    folder_below,
    locked,
    read_foreign,
    read_regular,
    temporary_folder,
)


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_finished_block_replaces_the_file(tmp_path: Path) -> None:
    """What was written takes the name, and no temporary file stays."""
    target = tmp_path / "deep" / "lock"
    atomic_write(target, b"old")
    with atomic_file(target) as stream:
        stream.write(b"new")
        assert target.read_bytes() == b"old"
    assert target.read_bytes() == b"new"
    assert _names(target.parent) == ["lock"]


@pytest.mark.parametrize("fault", [ValueError, KeyboardInterrupt, SystemExit, OSError])
def test_a_failed_block_leaves_the_old_file(tmp_path: Path, fault: type[BaseException]) -> None:
    """Whatever ends the block early, the old bytes stay and nothing half-written is left."""
    target = tmp_path / "lock"
    target.write_bytes(b"old")

    def write_half() -> None:
        with atomic_file(target) as stream:
            stream.write(b"half")
            raise fault

    with pytest.raises(fault):
        write_half()
    assert target.read_bytes() == b"old"
    assert _names(tmp_path) == ["lock"]


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the last bytes do not reach the disk, the old file stays."""
    target = tmp_path / "lock"
    target.write_bytes(b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        atomic_write(target, b"new")
    assert caught.value.filename == str(target)  # of several disks, which one: fsync(2) and write(2) know no names
    assert target.read_bytes() == b"old"
    assert _names(tmp_path) == ["lock"]


def test_what_a_killed_process_left_goes_with_the_next_write(tmp_path: Path) -> None:
    """Temporary files of processes that have ended are removed; those of others' work, and other names, stay."""
    target = tmp_path / "lock"
    (tmp_path / ".lock.aaaaaaaa.tmp").write_bytes(b"half")
    others = [".lock.toml.aaaaaaaa.tmp", ".lock.x.tmp", ".lock.bbbbbbbb.tmp"]
    for name in others[:2]:
        (tmp_path / name).touch()
    (tmp_path / others[2]).symlink_to("nowhere")
    with atomic_file(target) as first:
        first.write(b"first")
        atomic_write(target, b"second")
        assert target.read_bytes() == b"second"
    assert target.read_bytes() == b"first"
    assert _names(tmp_path) == sorted([*others, "lock"])


def test_two_writers_of_one_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Whoever writes at the same time, every write succeeds and the last one stays, whole."""
    target, failed = tmp_path / "file", []

    def write(letter: bytes) -> None:
        try:
            for _ in range(200):
                with atomic_file(target, sync=False) as stream:
                    stream.write(letter * 1000)
        except OSError as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert target.read_bytes() in (b"a" * 1000, b"b" * 1000, b"c" * 1000)
    assert _names(tmp_path) == ["file"]


def test_a_temporary_folder_next_to_a_file_goes_with_its_process(tmp_path: Path) -> None:
    """A folder that a killed process made is removed by the next one; one in use, and one that is no one's, stay."""
    dead, other = tmp_path / ".out.aaaaaaaa", tmp_path / ".out.bbbbbbbb"
    for path in (dead, other):
        path.mkdir()
    (dead / ".owned").touch()
    (other / "file").touch()
    with temporary_folder(".out.", tmp_path) as first, temporary_folder(".out.", tmp_path) as second:
        assert _names(tmp_path) == sorted([first.name, second.name, other.name])
    assert _names(tmp_path) == [other.name]


def test_a_process_killed_while_it_makes_a_temporary_folder_leaves_nothing(tmp_path: Path) -> None:
    """A folder without a file, or with one that was not locked yet, is removed too; a user's own name stays."""
    for name in (".out.aaaaaaaa", ".out.bbbbbbbb", ".out.Mine"):
        (tmp_path / name).mkdir()
    (tmp_path / ".out.bbbbbbbb/.owned.new").touch()
    with temporary_folder(".out.", tmp_path) as folder:
        assert _names(tmp_path) == sorted([".out.Mine", folder.name])


def test_processes_that_take_each_others_new_folders_for_dead_ones(tmp_path: Path) -> None:
    """Many at once, each sweeping while others make theirs: everybody has a folder until the end of the block."""

    def work(number: int) -> bool:
        with temporary_folder("envbuild-x-", tmp_path) as folder:
            (folder / "file").write_text(str(number))
            return (folder / "file").read_text() == str(number)

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(work, range(800)))
    assert _names(tmp_path) == []


@pytest.mark.parametrize("mode", [0o644, 0o600, 0o755])
def test_permissions_do_not_depend_on_the_umask(tmp_path: Path, mode: int) -> None:
    """The file has the bits asked for, whatever the caller's umask."""
    before = os.umask(0o077)
    try:
        atomic_write(tmp_path / "file", b"x", mode=mode)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode


def test_equal_bytes_leave_the_file_alone(tmp_path: Path) -> None:
    """A command that changes nothing does not touch the file, so build tools see no change."""
    target = tmp_path / "lock"
    atomic_write(target, b"same")
    os.utime(target, (1, 1))
    atomic_write(target, b"same")
    assert target.stat().st_mtime == 1


def test_locked_lets_one_in_at_a_time(tmp_path: Path) -> None:
    """Two holders of the same lock never overlap."""
    inside: list[str] = []

    def work(name: str) -> None:
        with locked(tmp_path / "x" / "lock"):
            inside.append(f"{name} in")
            time.sleep(0.02)
            inside.append(f"{name} out")

    threads = [threading.Thread(target=work, args=(str(i),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [word.split()[1] for word in inside] == ["in", "out"] * 4
    assert all(inside[i].split()[0] == inside[i + 1].split()[0] for i in range(0, 8, 2))


def test_locked_frees_the_lock_after_a_fault(tmp_path: Path) -> None:
    """A failure inside does not lock others out."""
    with pytest.raises(ValueError, match="inside"), locked(tmp_path / "lock"):
        raise ValueError("inside")
    with locked(tmp_path / "lock"):
        pass


def test_only_plain_files_of_a_program_are_read(tmp_path: Path) -> None:
    """A link may lead anywhere on the host, and a pipe or a device never ends: none of them is read, at once."""
    (tmp_path / "plain").write_bytes(b"12345")
    assert read_foreign(tmp_path / "plain", 5) == b"12345"
    assert read_foreign(tmp_path / "plain", 4) is None
    assert read_foreign(tmp_path / "plain", 4, cut=True) == b"1234"
    (tmp_path / "link").symlink_to("plain")
    (tmp_path / "zero").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("link", "zero", "pipe", "folder", "absent"):
        assert read_foreign(tmp_path / name, 5) is None
    assert read_foreign(Path("/dev/zero"), 5) is None


def test_a_folder_below_is_reached_through_no_link(tmp_path: Path) -> None:
    """Links, files and ".." among the names are refused by the path's own name; what is missing is made if asked."""
    (tmp_path / "root").mkdir()
    (tmp_path / "root/link").symlink_to(tmp_path)
    (tmp_path / "root/file").touch()
    for names in (("link",), ("file",), ("link", "root"), ("..",), ("absent",)):
        with pytest.raises(OSError) as refused, folder_below(tmp_path / "root", *names):  # noqa: PT011 - any
            pass
        assert refused.value.filename == str(tmp_path / "root" / names[0])
    with folder_below(tmp_path / "root", "a", "b", make=True) as folder:
        (tmp_path / "root/a").rename(tmp_path / "moved")
        (tmp_path / "root/a").symlink_to("/")
        with atomic_file(folder / "c") as stream:
            stream.write(b"x")
    assert (tmp_path / "moved/b/c").read_bytes() == b"x"
    with pytest.raises(FileNotFoundError) as missing, folder_below(tmp_path / "moved", "b") as folder:
        read_regular(folder / "none", 5)
    assert missing.value.filename == str(tmp_path / "moved/b/none")


def test_a_small_file_takes_little_memory(tmp_path: Path) -> None:
    """Whatever it might have held: under a limit of memory (``ulimit -v``) there is no room for the most."""
    (tmp_path / "small").write_bytes(b"12345")
    tracemalloc.start()
    try:
        assert read_regular(tmp_path / "small", 1 << 28) == b"12345"
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("cut", [False, True])
def test_a_file_without_a_size_is_read_whole(cut: bool) -> None:
    """Those of ``/proc`` have none; what is more than the limit is refused or cut all the same."""
    path = Path("/proc/self/smaps")
    whole = len(path.read_bytes())
    assert abs(len(read_regular(path, 1 << 26, cut=cut)) - whole) < 1 << 14
    if cut:
        assert len(read_regular(path, 5, cut=True)) == 5
    else:
        with pytest.raises(OSError, match="more than 5 bytes"):
            read_regular(path, 5)


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
@pytest.mark.parametrize("take", [locked, claimed])
def test_a_file_system_without_locks_is_named(
    number: int, take: Callable[[Path], AbstractContextManager[object]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lustre without its option ``flock``, NFS without its daemon: the fault has the path and what is missing."""

    _refuse_locks(number, monkeypatch)
    with pytest.raises(OSError, match=r"its file system has no locks \(flock\)") as refused, take(tmp_path / "lock"):
        pass
    assert refused.value.filename == str(tmp_path / "lock")


def test_a_filter_that_forbids_locks_is_no_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another disk would not help: without a file's name it is explained as a filter of system calls."""
    _refuse_locks(errno.ENOSYS, monkeypatch, everywhere=True)
    with pytest.raises(OSError, match="not implemented") as refused, locked(tmp_path / "lock"):
        pass
    assert refused.value.filename is None


def _refuse_locks(number: int, monkeypatch: pytest.MonkeyPatch, *, everywhere: bool = False) -> None:
    """Have no lock on any file, but for those in memory alone unless it is ``everywhere``."""
    real = fcntl.flock

    def refuse(file: Any, how: int) -> None:
        opened = file if isinstance(file, int) else file.fileno()
        if everywhere or "/memfd:" not in str(Path(f"/proc/self/fd/{opened}").readlink()):
            raise OSError(number, os.strerror(number))
        real(file, how)

    monkeypatch.setattr(fs.fcntl, "flock", refuse)


def test_a_lock_file_that_is_a_link_is_refused(tmp_path: Path) -> None:
    """The target, which may be anybody's, is neither made nor held."""
    (tmp_path / "lock").symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="symbolic"), locked(tmp_path / "lock"):
        pass
    assert not (tmp_path / "target").exists()


def test_a_file_system_that_keeps_modes_and_owners_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS with ``root_squash``, some of FUSE: a file that nobody else may read is better than none."""

    def refuse(*arguments: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("os.fchmod", refuse)
    monkeypatch.setattr("os.fchown", refuse)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with atomic_file(tmp_path / "a", hand_over=True) as stream:
        stream.write(b"x")
    assert (tmp_path / "a").read_bytes() == b"x"
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600


def test_a_file_is_written_in_place_of_what_cannot_be_read(tmp_path: Path) -> None:
    """A FIFO is not waited for, and of a sparse file of a terabyte no more is read than is written."""
    for path in (tmp_path / "pipe", tmp_path / "large"):
        if path.name == "pipe":
            os.mkfifo(path)
        else:
            path.touch()
            os.truncate(path, 1 << 40)
        atomic_write(path, b"new")
        assert path.read_bytes() == b"new"


def test_the_way_out_of_a_store_that_is_anothers() -> None:
    """Free space would not help where a user may not write, as in a store that root has made."""
    for number in (errno.EACCES, errno.EPERM):
        assert fs.way_out(number) == "choose a folder that this user may write to: export ENVBUILD_STORE=FOLDER"
    assert fs.way_out(errno.ENOSPC) == fs.ELSEWHERE
