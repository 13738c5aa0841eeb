"""Tables of FlatBuffers, in which Arrow has its schemas, messages and footers.

Offsets lead forward from where they are; each is checked against the end of the data.
Source: FlatBuffers internals (flatbuffers.dev/internals).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from envbuild.verification.content.canonical import UnreadableError

_MOST = 1_000_000
"""Parts of a vector."""


class Table(NamedTuple):
    """One table: the data that it is in, and where it begins."""

    data: bytes
    at: int

    @property
    def fields(self) -> int:
        """How many fields it may have: there are none from that number on."""
        slots = self.at - _number(self.data, "<i", self.at)
        return max(0, (_number(self.data, "<H", slots) - 4) // 2)

    def place(self, field: int) -> int:
        """Return where a field's value is, or the offset that leads to it; 0 if the table lacks it."""
        slots = self.at - _number(self.data, "<i", self.at)
        if slots < 0 or 4 + 2 * field >= _number(self.data, "<H", slots):
            return 0
        place = _number(self.data, "<H", slots + 4 + 2 * field)
        return self.at + place if place else 0

    def number(self, field: int, code: str, default: int = 0) -> int:
        """Return a number; ``code``: how ``struct`` reads it."""
        place = self.place(field)
        return _number(self.data, code, place) if place else default

    def table(self, field: int) -> Table | None:
        """Return a table in this one; None if there is none."""
        place = self._target(field)
        return Table(self.data, place) if place else None

    def vector(self, field: int, size: int) -> tuple[int, int]:
        """Return where a vector's parts of ``size`` bytes begin, and how many there are; none if it is not there."""
        place = self._target(field)
        if not place:
            return 0, 0
        count = _number(self.data, "<I", place)
        if count > _MOST or place + 4 + count * size > len(self.data):
            raise UnreadableError("a vector beyond the end, or too large")
        return place + 4, count

    def tables(self, field: int) -> list[Table]:
        """Return the tables of a vector."""
        start, count = self.vector(field, 4)
        return [Table(self.data, at + _number(self.data, "<I", at)) for at in range(start, start + 4 * count, 4)]

    def text(self, field: int) -> bytes:
        """Return a text; an empty one if it is not there."""
        start, size = self.vector(field, 1)
        return self.data[start : start + size]

    def _target(self, field: int) -> int:
        place = self.place(field)
        return place + _number(self.data, "<I", place) if place else 0


def root(data: bytes) -> Table:
    """Return the table that has all others; raises ``UnreadableError`` if there is none."""
    return Table(data, _number(data, "<I", 0))


def _number(data: bytes, code: str, at: int) -> int:
    try:
        found: int = struct.unpack_from(code, data, at)[0] if at >= 0 else -1
    except struct.error:
        raise UnreadableError("a place beyond the end") from None
    if at < 0:
        raise UnreadableError("a place before the beginning")
    return found
