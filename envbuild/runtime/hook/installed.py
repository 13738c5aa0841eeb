"""What installers recorded of the files that they wrote: digests that need no reading.

A wheel's ``RECORD`` states a SHA-256 and a size of each file. It holds for a file that has this size and was not
changed after ``RECORD`` was written, which an installer does last: so a time decides whether a file is read, and never
what its digest is. An edit that restores both size and time is not seen.
"""

from __future__ import annotations

import os
import sys
from binascii import a2b_base64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SIZE = 1 << 24
"""Bytes of all ``RECORD`` files that are read together."""
_KIND, _REGULAR = 0o170000, 0o100000


def digests(paths: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256, in hexadecimal, of those files for which an installer's record of them still holds."""
    left, found, budget = set(paths), {}, SIZE
    folders = {folder.rstrip("/") for folder in sys.path if folder.startswith("/") and folder != "/"}
    for folder in sorted(folders, key=len, reverse=True):
        start = len(folder) + 1
        wanted = {path[start:] for path in left if path.startswith(f"{folder}/")}
        for record in _records(folder, {path.partition("/")[0].partition(".")[0].lower() for path in wanted}):
            if not wanted or budget <= 0:
                break
            text, written = _read(record, budget)
            budget -= len(text)
            for name, digest in _holding(folder, text, written, wanted):
                found[f"{folder}/{name}"] = digest
                wanted.discard(name)
        left.difference_update(found)
    return found


def _records(folder: str, names: set[str]) -> Iterator[str]:
    """Yield the ``RECORD`` files of a folder, those first that have the name of a package in question."""
    if not names:
        return
    try:
        entries = [entry for entry in os.listdir(folder) if entry.endswith(".dist-info")]
    except OSError:
        return
    for entry in sorted(entries, key=lambda each: (each.partition("-")[0].lower() not in names, each)):
        yield f"{folder}/{entry}/RECORD"


def _read(path: str, limit: int) -> tuple[str, int]:
    """Return a text and the time of its last change in nanoseconds; nothing of one that is larger than the limit."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as stream:
            status = os.fstat(stream.fileno())
            return (stream.read() if status.st_size <= limit else "", status.st_mtime_ns)
    except OSError:
        return "", 0


def _holding(folder: str, text: str, written: int, wanted: set[str]) -> list[tuple[str, str]]:
    """Return the files in question of which one ``RECORD`` states what they still are."""
    found = []
    for line in text.splitlines():
        name, _, rest = line.partition(",sha256=")
        if name not in wanted:
            continue
        value, _, size = rest.partition(",")
        try:
            status = os.stat(f"{folder}/{name}")
            digest = a2b_base64(f"{value.replace('-', '+').replace('_', '/')}=").hex()
        except (OSError, ValueError):
            continue
        same = status.st_mode & _KIND == _REGULAR and str(status.st_size) == size and status.st_mtime_ns <= written
        if same and len(digest) == 64:
            found.append((name, digest))
    return found
