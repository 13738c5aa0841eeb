"""A file on its way into the store: its bytes so far and their running SHA-256."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import BinaryIO

from envbuild.core.fs import clone

_CHUNK = 1 << 20


class Part:
    """An object on its way in: what was written so far, and its running hash."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._hash = hashlib.sha256()
        self.size = 0

    def resume(self) -> int:
        """Take over what an earlier command left, hashing it; returns its size in bytes."""
        self._stream.seek(0)
        self._hash, self.size = hashlib.sha256(), 0
        while chunk := self._stream.read(_CHUNK):
            self._hash.update(chunk)
            self.size += len(chunk)
        return self.size

    def restart(self) -> None:
        """Drop what was written so far."""
        self._stream.seek(0)
        self._stream.truncate()
        self._hash, self.size = hashlib.sha256(), 0

    def write(self, data: bytes) -> None:
        """Append; raises ``OSError`` (such as ENOSPC)."""
        view = memoryview(data)
        while view:  # a raw file may take less than it was given
            view = view[self._stream.write(view) :]
        self._hash.update(data)
        self.size += len(data)

    def sync(self) -> None:
        """Wait until the bytes are on the disk; raises ``OSError``."""
        os.fsync(self._stream.fileno())

    def protect(self) -> None:
        """Make the file read-only; raises ``OSError``."""
        os.fchmod(self._stream.fileno(), 0o444)

    def clone(self, source: BinaryIO) -> bool:
        """Replace the content by sharing ``source``'s blocks; False if the file system cannot."""
        if not clone(source, self._stream):
            return False
        self.resume()
        return True

    @property
    def sha256(self) -> str:
        """SHA-256 of what was written so far."""
        return self._hash.hexdigest()


def copy_into(
    part: Part, source: BinaryIO, advance: Callable[[int], None] = lambda amount: None, *, limit: int | None = None
) -> None:
    """Fill a part from an open file, sharing blocks where the file system can.

    Args:
        advance: receives the number of bytes as they are written.
        limit: stop beyond so many bytes, since the file may be growing; the part then has the wrong size.
    """
    if part.size == 0 and part.clone(source):
        advance(part.size)
        return
    while chunk := source.read(_CHUNK):
        part.write(chunk)
        advance(len(chunk))
        if limit is not None and part.size > limit:
            return
