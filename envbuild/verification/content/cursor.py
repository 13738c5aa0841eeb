"""Bytes that are read from their beginning to their end."""

from __future__ import annotations

from envbuild.verification.content.canonical import UnreadableError


class Cursor:
    """A place in data, and how many parts may still be read of them.

    Args:
        data: what is read.
        parts: the most parts that they may have.
    """

    def __init__(self, data: bytes, parts: int) -> None:
        self._data = data
        self._at = 0
        self._left = parts

    def _take(self, size: int) -> bytes:
        """Return the next bytes; raises ``UnreadableError`` if there are fewer."""
        data = self._data[self._at : self._at + size]
        if len(data) != size:
            raise UnreadableError("data that end too early")
        self._at += size
        return data
