"""Read what the hook left of a run: one file for each Python process. It is the program's own word, and of any size."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path, PurePosixPath
from typing import Any

from envbuild.core.digest import sha256_stream
from envbuild.core.fs import folder_below, open_regular, read_foreign
from envbuild.record import processes
from envbuild.record.process_facts import ProcessFacts

_FILE = 8 << 20
"""Bytes of the largest file that is read; the hook's own lists come to half a megabyte."""
_VALUES = 500_000
"""Most values of such a file."""
_ALL = 256 << 20
"""Bytes of all files that are read."""
_MOST = 10_000
"""Number of files that are read."""
_LINKED = (errno.ELOOP, errno.ENOTDIR, errno.EINVAL)
"""What opening a path refuses that leads through a link, or up: where it leads is found out level by level."""


def observations(folder: Path, inputs: Sequence[str], project: Path) -> dict[str, Any]:
    """Return the fields of a record that are known from what the processes of a run left.

    No more than one file is held at a time, and of all together ``ProcessFacts`` keeps what has room.

    Args:
        folder: that of guard and hook.
        inputs: paths of declared inputs relative to the project.
        project: where data that was read is digested.
    """
    merged, left = ProcessFacts(), _ALL
    names, more = _first(folder)
    for name in names:
        data = read_foreign(folder / name, min(_FILE, left))
        left -= len(data or b"")
        merged.add(processes.json_table(data, _VALUES))
    merged.left_out += more
    return merged.result(inputs, FileDigests(project))


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

    def __init__(self, project: Path, largest: int = 1 << 26, total: int = 1 << 28) -> None:
        """Begin; ``largest`` and ``total`` are bytes of a file and of all files."""
        self.project, self.largest, self.left = project.resolve(), largest, total

    def __call__(self, path: str, size: int, mtime_ns: int) -> str | None:
        """Return the SHA-256, or None for a file that is too large, changed, or not in the project."""
        if size > min(self.left, self.largest):
            return None
        try:
            try:
                return self._digest(PurePosixPath(path).parts, size, mtime_ns)
            except OSError as error:
                if error.errno not in _LINKED:
                    return None
                file = (self.project / path).resolve()
                return self._digest(file.relative_to(self.project).parts, size, mtime_ns)
        except (OSError, ValueError, RuntimeError):  # a name that is none, a circle of links
            return None

    def _digest(self, parts: Sequence[str], size: int, mtime_ns: int) -> str | None:
        """Digest a file below the project that is as a run found it; raises ``OSError`` for a link on the way."""
        *above, name = parts
        with folder_below(self.project, *above) as folder, open_regular(folder / name, follow=False) as stream:
            status = os.fstat(stream.fileno())
            if (status.st_size, status.st_mtime_ns) != (size, mtime_ns):
                return None
            self.left -= size
            return sha256_stream(stream)
