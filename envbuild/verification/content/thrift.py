"""Thrift's compact protocol, in which Parquet has its footer and the heads of its pages."""

from __future__ import annotations

from typing import Any

from envbuild.verification.content.canonical import UnreadableError
from envbuild.verification.content.cursor import Cursor

_DEPTH = 20
_PARTS = 1_000_000


class Thrift(Cursor):
    """Reads structures of the compact protocol as dictionaries by field number."""

    def __init__(self, data: bytes, parts: int = _PARTS) -> None:
        super().__init__(data, parts)

    @property
    def at(self) -> int:
        """Where what comes next begins."""
        return self._at

    def take(self, size: int) -> bytes:
        """Return the next bytes, which are no structure; raises ``UnreadableError`` if there are fewer."""
        return self._take(size)

    def structure(self, depth: int = 0) -> dict[int, Any]:
        """Read the next one."""
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            found[number] = self._value(head & 15, depth, field=True)
        return found

    def _value(self, kind: int, depth: int, *, field: bool = False) -> Any:
        self._left -= 1
        if depth > _DEPTH or self._left < 0:
            raise UnreadableError("nested too deep, or too many parts")
        if kind in (1, 2):
            return kind == 1 if field else self._byte() == 1
        if kind == 3:
            return self._byte()
        if kind in (4, 5, 6):
            return self._zigzag()
        if kind == 7:
            return self._take(8)
        if kind == 8:
            return self._take(self._varint())
        if kind in (9, 10):
            head = self._byte()
            count = head >> 4 if head >> 4 != 15 else self._varint()
            return [self._value(head & 15, depth + 1) for _ in range(count)]
        if kind == 12:
            return self.structure(depth + 1)
        raise UnreadableError("of a kind that no footer has")

    def _byte(self) -> int:
        return self._take(1)[0]

    def _varint(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number
            if shift > 63:
                raise UnreadableError("a number of too many digits")

    def _zigzag(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)
