"""Avro's files of records: all of their bytes but the marker between blocks, which is drawn for each file.

Source: https://avro.apache.org/docs/1.12.0/specification/#object-container-files.
"""

from __future__ import annotations

from envbuild.verification.content.canonical import Canonical, UnreadableError, below
from envbuild.verification.content.cursor import Cursor

_MAGIC = b"Obj\x01"
_MARKER = 16
_PARTS = 1 << 20
_WIDEST = 10
"""Bytes of a number."""


class _Reader(Cursor):
    """Reads a header and blocks."""

    def header(self) -> tuple[bytes, bytes]:
        """Return what is before the marker, and the marker."""
        if self._take(len(_MAGIC)) != _MAGIC:
            raise UnreadableError("no Avro")
        while count := self._number():
            if count < 0:  # the size follows
                self._number()
            for _ in range(2 * abs(count)):
                self._take(self._size())
        return self._data[: self._at], self._take(_MARKER)

    def block(self) -> tuple[int, bytes, bytes] | None:
        """Return how many records are in the next block, them, and the marker behind; None at the end."""
        if self._at == len(self._data):
            return None
        return self._number(), self._take(self._size()), self._take(_MARKER)

    def _size(self) -> int:
        size = self._number()
        if size < 0:
            raise UnreadableError("a negative size")
        return size

    def _number(self) -> int:
        self._left -= 1
        total = 0
        for at in range(_WIDEST):
            byte = self._take(1)[0]
            total |= (byte & 127) << 7 * at
            if byte < 128 and self._left >= 0:
                return total >> 1 ^ -(total & 1)
        raise UnreadableError("a number that is none, or too many")


def is_avro(data: bytes) -> bool:
    """Whether data begin as such a file does."""
    return data.startswith(_MAGIC)


def read_avro(out: Canonical, path: str, data: bytes) -> None:
    """Count the header and blocks; raises ``UnreadableError`` if another marker is behind one."""
    reader = _Reader(data, _PARTS)
    head, marker = reader.header()
    out.add(below(path, "header"), head)
    out.leave_out(below(path, "marker of blocks"), marker, "identity")
    at = 0
    while (block := reader.block()) is not None:
        count, records, end = block
        if end != marker:
            raise UnreadableError("a block with another marker")
        out.add(below(path, f"block {at}"), str(count))
        out.add(below(path, f"block {at}, records"), records)
        at += 1
