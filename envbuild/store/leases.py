"""Leases: what running commands use of a store, so that a concurrent collection takes none of it.

    <root>/leases/<pid>-<random>  names, one a line, of what one process uses; held by an advisory lock while it lives
    <root>/leases/lock            shared for adding a name, exclusive for removing entries

A command writes an entry's name down before it looks whether the entry is there. A collection reads all names and
removes entries under the exclusive lock. So either the name was written before, and the entry stays, or the entry was
gone before anybody looked. Neither clocks nor ages matter, and the kernel ends the lease of a command that is killed.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Literal, cast

from envbuild.core.fs import hold, open_regular
from envbuild.core.patterns import lazy
from envbuild.store.marker import TAG

_FOLDER = "leases"
_LOCK = "lock"
_NAME = lazy(r"[0-9]+-[0-9a-f]{16}")

_taken: dict[tuple[Path, int], Lease] = {}
_guard = threading.Lock()


def use(root: Path, name: str) -> None:
    """Write down that this process uses an entry of a store, until it ends; call it before looking for the entry.

    Nothing happens where the store is not there yet or cannot be written: it cannot be collected from here either.

    Args:
        root: the store's folder.
        name: an object's SHA-256, or ``<kind>/<key>`` of a derived entry.
    """
    with _guard:
        lease = _taken.setdefault((root, os.getpid()), Lease(root))
    lease.use(name)


def names_used(root: Path) -> frozenset[str]:
    """Return all that this process has used of a store."""
    with _guard:
        lease = _taken.get((root, os.getpid()))
    return lease.names if lease is not None else frozenset()


def end(root: Path) -> None:
    """Give up what this process uses of a store."""
    with _guard:
        lease = _taken.pop((root, os.getpid()), None)
    if lease is not None:
        lease.end()


class Lease:
    """What one process uses of one store."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._names: set[str] = set()
        self._stream: BinaryIO | None = None
        self._lock: BinaryIO | None = None
        self._guard = threading.Lock()

    @property
    def names(self) -> frozenset[str]:
        """Names written down so far."""
        with self._guard:
            return frozenset(self._names)

    def use(self, name: str) -> None:
        """Write a name down, waiting for a collection that is at work."""
        with self._guard:
            if name in self._names:
                return
            with suppress(OSError):
                self._write(name)
                self._names.add(name)

    def end(self) -> None:
        """Remove the lease."""
        with self._guard:
            if self._stream is not None and self._lock is not None:
                with suppress(OSError):
                    Path(self._stream.name).unlink()
                self._stream.close()
                self._lock.close()
            self._stream = self._lock = None
            self._names.clear()

    def _write(self, name: str) -> None:
        if self._lock is None:
            (self._root / TAG).lstat()  # what is no store gets no lease
            (self._root / _FOLDER).mkdir(0o755, exist_ok=True)
            self._lock = _open_private(self._root / _FOLDER / _LOCK, "a+b")
        hold(self._lock, self._root, fcntl.LOCK_SH)
        try:
            if self._stream is None:
                self._stream = self._open()
            self._stream.write(f"{name}\n".encode())
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def _open(self) -> BinaryIO:
        """Make the lease's file; the shared lock is held, so that no collection finds it before its own lock is."""
        path = self._root / _FOLDER / f"{os.getpid()}-{os.urandom(8).hex()}"
        stream = _open_private(path, "xb")
        hold(stream, path)
        return stream


@contextmanager
def collecting(root: Path) -> Iterator[frozenset[str]]:
    """Give the names of all entries in use; nobody begins to use another one before the block ends.

    A user who wants to is made to wait, so the block should be short. Leases of processes that have ended are removed.

    Raises:
        OSError: the store cannot be written.
    """
    folder = root / _FOLDER
    folder.mkdir(0o755, exist_ok=True)
    with _open_private(folder / _LOCK, "a+b") as lock:
        hold(lock, root)
        names: set[str] = set()
        for path, used in _leases(folder):
            if used is None:
                path.unlink(missing_ok=True)
            else:
                names.update(used)
        yield frozenset(names)


def users(root: Path) -> list[int]:
    """Return the process ids of the commands that use a store now; on other machines they mean other processes."""
    return sorted(int(path.name.partition("-")[0]) for path, used in _leases(root / _FOLDER) if used is not None)


def _leases(folder: Path) -> Iterator[tuple[Path, list[str] | None]]:
    """Give each lease's file and the names in it, or None if its process has ended."""
    for path in sorted(path for path in folder.glob("*-*") if _NAME.fullmatch(path.name)):
        try:
            stream = open_regular(path, follow=False)
        except OSError:  # it has ended, or it is a pipe or a link, which no command makes
            continue
        with stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                yield path, stream.read().decode().splitlines()
            else:
                yield path, None


def _open_private(path: Path, mode: Literal["a+b", "xb"]) -> BinaryIO:
    """Open a file, made if need be, that only its owner may write to, whatever the umask; links are not followed."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)

    return cast(BinaryIO, open(path, mode, buffering=0, opener=opener))


@atexit.register
def _end_all() -> None:
    for root, pid in list(_taken):
        if pid == os.getpid():
            end(root)
