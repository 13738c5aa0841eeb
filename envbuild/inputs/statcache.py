"""What files were when their content was last digested, so that unchanged ones need not be read again.

A digest is known by device, inode, size, modification and change time, all of them to the nanosecond. Times tell
changes apart only if they differ, and a file may change twice within one tick of a file system's clock (the problem
that git calls racy, https://git-scm.com/docs/racy-git). So nothing is remembered of a file that was touched within
``MARGIN`` of the moment its digest was begun, by the clock of the file system that holds the cache; on another file
system, whose clock may differ, within ``MARGIN_ELSEWHERE``. If that clock has been set back since, all is forgotten.

The file is replaced as a whole by a rename: commands at the same time lose each other's findings, never more. It ends
with its own digest; a damaged one counts as none. It needs no lock, which matters on network file systems.
"""

from __future__ import annotations

import os
import struct
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from blake3 import blake3

from envbuild.core.fs import atomic_file, read_regular

MARGIN = 2 * 10**9
"""Nanoseconds; the coarsest clock of a file system in use is FAT's, with two seconds."""
MARGIN_ELSEWHERE = 300 * 10**9

_LARGEST = 4 << 30
"""Bytes of a cache: of some 50 million files."""
_HEADER = b"envbuild stat cache 1\n\0\0"
_NOW = struct.Struct("=q")
_KEY = struct.Struct("=QQQqq")
_DIGEST = 32
_RECORD = _KEY.size + _DIGEST
_BODY = len(_HEADER) + _NOW.size


def stat_key(status: os.stat_result) -> bytes:
    """Return what a regular file is known by: inode, device, size in bytes, times in nanoseconds."""
    return _KEY.pack(status.st_ino, status.st_dev, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


class StatCache:
    """Digests by ``stat_key``.

    Args:
        path: the cache's file, or None for a cache that forgets everything.
        now: the time on the clock of that file's file system, in nanoseconds, before any file is read.
    """

    def __init__(self, path: Path | None, now: int) -> None:
        self._path = path
        self._now = now
        self._device = -1
        self._records = memoryview(b"")
        if path is not None:
            with suppress(OSError):
                self._device = path.parent.stat().st_dev
                self._load(read_regular(path, _LARGEST, follow=False))
        self._inodes = self._records.cast("Q")[:: _RECORD // 8] if self._records else array("Q")
        self._used = bytearray(len(self._inodes))
        self._new: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes | None:
        """Return the 32 bytes of a file's digest, or None if it has to be read."""
        inode = _inode(key)
        place = bisect_left(self._inodes, inode)
        while place < len(self._inodes) and self._inodes[place] == inode:
            start = place * _RECORD
            if self._records[start : start + _KEY.size] == key:
                self._used[place] = 1
                return bytes(self._records[start + _KEY.size : start + _RECORD])
            place += 1
        return None

    def add(self, found: Iterable[tuple[bytes, bytes]]) -> None:
        """Remember digests (32 bytes) by key, but for files too young to be known by their times."""
        for key, digest in found:
            _, device, _, modified, changed = _KEY.unpack(key)
            margin = MARGIN if device == self._device else MARGIN_ELSEWHERE
            if max(modified, changed) + margin <= self._now:
                self._new[key[:16]] = key + digest

    def save(self) -> None:
        """Write what is new; does nothing if nothing is, or if the folder takes no files.

        What was neither asked for nor found stays, unless it outweighs the rest: files that are gone, or another
        lock's inputs.
        """
        if self._path is None or not self._new:
            return
        used: list[bytes] = []
        unused: list[bytes] = []
        for place, asked in enumerate(self._used):
            record = bytes(self._records[place * _RECORD : (place + 1) * _RECORD])
            if record[:16] not in self._new:
                (used if asked else unused).append(record)
        kept = [*used, *self._new.values()]
        if len(unused) <= len(kept):
            kept += unused
        kept.sort(key=_inode)
        content = b"".join((_HEADER, _NOW.pack(self._now), *kept))
        with suppress(OSError), atomic_file(self._path, mode=0o600, sync=False) as stream:
            stream.write(content)
            stream.write(blake3(content).digest())

    def _load(self, data: bytes) -> None:
        """Take over a cache that is whole, of this format and machine, and not of a time yet to come."""
        content = memoryview(data)[: max(0, len(data) - _DIGEST)]
        records = content[_BODY:]
        if len(content) < _BODY or content[: len(_HEADER)] != _HEADER or len(records) % _RECORD:
            return
        (written,) = _NOW.unpack(content[len(_HEADER) : _BODY])
        if written <= self._now and blake3(content).digest() == data[-_DIGEST:]:
            self._records = records


def _inode(record: bytes) -> int:
    return int.from_bytes(record[:8], sys.byteorder)
