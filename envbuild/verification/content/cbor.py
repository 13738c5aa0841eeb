"""Tables in CBOR, as cbor2 writes them: values by name, as MessagePack's are.

Source: RFC 8949. Data are of it if nothing but whole tables is in them, whose first key is a text.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any

from envbuild.core.patterns import lazy
from envbuild.verification.content.canonical import Canonical, UnreadableError
from envbuild.verification.content.msgpack import Single, Table, TableReader, count

Nested = Callable[[Canonical, str, bytes], None]

_PARTS = 2_000_000
_BEGINNING = lazy(rb"(?:\xd9\xd9\xf7)?(?:[\xa1-\xb7]|\xb8.|\xb9..|\xbf)(?:[\x61-\x77]|\x78.)[\x20-\x7e]", re.DOTALL)
"""Perhaps the mark of the format, then a table with a value at least, whose first key is a text."""
_MARK = b"\xd9\xd9\xf7"
_UNSIGNED, _NEGATIVE, _BYTES, _TEXT, _LIST, _TABLE, _TAG = range(7)
_SIZES = {24: ">B", 25: ">H", 26: ">I", 27: ">Q"}
_OPEN, _BREAK = 31, 0xFF
_SIMPLE = {20: False, 21: True, 22: None}
_DOUBLE, _SINGLE, _HALF = 27, 26, 25


class _Reader(TableReader):
    """Reads values of CBOR.

    Attributes:
        marks: tags, and what goes on until a mark, with the number of the value that they belong to.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__(data, _PARTS)
        self.marks: list[str] = []

    def _value(self, depth: int) -> Any:
        code = self._code(depth)
        kind, more = code >> 5, code & 31
        if kind == _TAG + 1:
            return self._simple(more)
        if more == _OPEN:
            return self._open(kind, depth)
        size = self._size(more)
        if kind == _UNSIGNED:
            return size
        if kind == _NEGATIVE:
            return -1 - size
        if kind == _BYTES:
            return self._take(size)
        if kind == _TEXT:
            return self._text(size)
        if kind == _LIST:
            return [self._value(depth + 1) for _ in range(size)]
        if kind == _TABLE:
            return Table([(self._value(depth + 1), self._value(depth + 1)) for _ in range(size)])
        self._mark(f"tag {size}")
        return self._value(depth + 1)

    def _open(self, kind: int, depth: int) -> Any:
        """Read a list or a table that goes on until a mark."""
        self._mark("open")
        found = []
        while self._data[self._at : self._at + 1] != bytes([_BREAK]):
            found.append(self._value(depth + 1))
        self._take(1)
        if kind == _LIST:
            return found
        if kind == _TABLE and len(found) % 2 == 0:
            return Table([*zip(found[::2], found[1::2], strict=True)])
        raise UnreadableError("a text in pieces")

    def _mark(self, text: str) -> None:
        self.marks.append(f"{text} {_PARTS - self._left}")

    def _simple(self, more: int) -> Any:
        if more in _SIMPLE:
            return _SIMPLE[more]
        if more == _DOUBLE:
            return struct.unpack(">d", self._take(8))[0]
        if more == _SINGLE:
            return Single(struct.unpack(">f", self._take(4))[0])
        raise UnreadableError("a number of 16 bits, or a value that is undefined")

    def _size(self, more: int) -> int:
        if more < min(_SIZES):
            return more
        if more not in _SIZES:
            raise UnreadableError("a size that CBOR does not use")
        form = _SIZES[more]
        size = int(struct.unpack(form, self._take(struct.calcsize(form)))[0])
        if size < (24 if more == min(_SIZES) else 1 << 4 * struct.calcsize(form)):
            raise UnreadableError("a number that is longer than it has to be")
        return size


def is_cbor(data: bytes) -> bool:
    """Whether data are nothing but tables."""
    if _BEGINNING.match(data) is None:
        return False
    try:
        for _ in _Reader(data.removeprefix(_MARK)).tables():
            pass
    except UnreadableError:
        return False
    return True


def read_cbor(out: Canonical, path: str, data: bytes, nested: Nested) -> None:
    """Count values by their names and types."""
    reader = _Reader(data.removeprefix(_MARK))
    tables = list(reader.tables())
    out.add(path, f"{len(tables)} of CBOR, {data.startswith(_MARK)} {' '.join(reader.marks)}")
    for at, table in enumerate(tables, 1):
        count(out, f"{path}[{at}]" if len(tables) > 1 else path, "", table, nested, ())
