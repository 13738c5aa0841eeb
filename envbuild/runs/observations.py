"""Read what the hook left of a run: one file for each Python process. It is the program's own word, and of any size."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from io import BufferedReader
from itertools import chain, islice
from pathlib import Path
from typing import Any

from envbuild.core.digest import sha256_stream
from envbuild.core.fs import read_foreign
from envbuild.record import processes
from envbuild.record.mounts import open_read
from envbuild.record.process_facts import ProcessFacts

_FILE = 8 << 20
"""Bytes of the largest file that is read; the hook's own lists come to half a megabyte."""
_VALUES = 500_000
"""Most values of such a file."""
_ALL = 256 << 20
"""Bytes of all files that are read."""
_MOST = 10_000
"""Number of files that are read."""


def observations(folder: Path, inputs: Sequence[str], digests: FileDigests) -> dict[str, Any]:
    """Return the fields of a record that are known from what the processes of a run left.

    No more than one file is held at a time, and of all together ``ProcessFacts`` keeps what has room.

    Args:
        folder: that of guard and hook.
        inputs: paths of declared inputs relative to the project.
        digests: of data that was read.
    """
    merged, left = ProcessFacts(), _ALL
    names, more = _first(folder)
    for name in names:
        data = read_foreign(folder / name, min(_FILE, left))
        left -= len(data or b"")
        merged.add(processes.json_table(data, _VALUES))
    merged.left_out += more
    return merged.result(inputs, digests, digests.has_mounted)


def _first(folder: Path) -> tuple[list[str], int]:
    """Return the names of process files that are read, and how many more there are; a program can make millions."""
    count = 0

    def names() -> Iterator[str]:
        nonlocal count
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("process-") and entry.name.endswith(".json"):
                    count += 1
                    yield entry.name

    left = names()
    some = list(islice(left, _MOST + 1))
    if len(some) <= _MOST:
        return sorted(some), 0
    import heapq  # a program of so many processes is rare

    first = heapq.nsmallest(_MOST, chain(some, left))
    return first, count - len(first)


class FileDigests:
    """Digests small files that a run has read and nobody has changed since, until so many bytes were digested."""

    def __init__(
        self, project: Path, largest: int = 1 << 26, total: int = 1 << 28, *, mounts: Sequence[str] = ()
    ) -> None:
        """Begin; ``largest`` and ``total`` are bytes of a file and of all files."""
        self.project, self.largest, self.left, self.mounts = project.resolve(), largest, total, mounts

    def __call__(self, path: str, size: int, mtime_ns: int) -> str | None:
        """Return the SHA-256, or None for a file that is too large, changed, or neither in the project nor mounted."""
        if size > min(self.left, self.largest):
            return None
        try:
            with open_read(self.mounts, path, self.project) as stream:
                if _other(stream, size, mtime_ns):
                    return None
                self.left -= size
                return sha256_stream(stream)
        except (OSError, ValueError, RuntimeError):  # a name that is none, a circle of links
            return None

    def has_mounted(self, path: str, size: int, mtime_ns: int) -> bool:
        """Whether an absolute path is a file that was mounted and is as it was read: no temporary one."""
        try:
            with open_read(self.mounts, path, self.project) as stream:
                return not _other(stream, size, mtime_ns)
        except (OSError, ValueError, RuntimeError):
            return False


def _other(stream: BufferedReader, size: int, mtime_ns: int) -> bool:
    """Whether a file is not the one that was read, by size and time of change."""
    status = os.fstat(stream.fileno())
    return (status.st_size, status.st_mtime_ns) != (size, mtime_ns)
