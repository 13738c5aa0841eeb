"""Tables in MessagePack, as ``msgpack``, ``ormsgpack`` and ``msgspec`` write them: values by name, as JSON has them.

Source: https://github.com/msgpack/msgpack/blob/master/spec.md. The format has no magic number: data are of it if
nothing but whole tables is in them, whose first key is a text.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from envbuild.core.patterns import lazy
from envbuild.verification.content import values
from envbuild.verification.content.canonical import NESTED, Canonical, UnreadableError, below, moment_text
from envbuild.verification.content.cursor import Cursor

Nested = Callable[[Canonical, str, bytes], None]

_PARTS = 2_000_000
"""The most values in a file; more than that is not worth a minute of a CPU."""
_NUMBERS = {0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q"}
_SIGNED = {0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
_SIZES = {1: ">B", 2: ">H", 4: ">I"}
_FLOAT32, _TIMESTAMP = 0xCA, -1
_BEGINNING = lazy(rb"(?:[\x81-\x8f]|\xde..|\xdf....)(?:[\xa1-\xbf]|\xd9.)[\x20-\x7e]", re.DOTALL)
"""A table with a value at least, whose first key is a text that begins with a letter or a mark of ASCII."""


class Single(float):
    """A number of 32 bits, which is another value than the same one of 64."""


@dataclass(frozen=True, slots=True)
class Table:
    """Keys and values in their order, a key perhaps several times."""

    pairs: list[tuple[Any, Any]]


@dataclass(frozen=True, slots=True)
class _Extension:
    code: int
    data: bytes


class TableReader(Cursor):
    """Reads tables of a format whose values begin with a byte that states their kind, one after the other."""

    def tables(self) -> Iterator[Table]:
        """Return all tables; raises ``UnreadableError`` if something else is in the data."""
        while self._at < len(self._data):
            value = self._value(0)
            if not isinstance(value, Table):
                raise UnreadableError("no table")
            yield value

    def _value(self, depth: int) -> Any:
        """Return the next value, which is ``depth`` values below a table of the data."""
        raise NotImplementedError

    def _code(self, depth: int) -> int:
        """Return the first byte of a value; raises ``UnreadableError`` where there are too many."""
        self._left -= 1
        if self._left < 0 or depth > NESTED:
            raise UnreadableError("too many values, or nested too deep")
        return self._take(1)[0]

    def _text(self, size: int) -> str:
        try:
            return self._take(size).decode()
        except UnicodeDecodeError:
            raise UnreadableError("a text that is none") from None


class _Reader(TableReader):
    """Reads values of MessagePack."""

    def _value(self, depth: int) -> Any:
        code = self._code(depth)
        if code < 0x80 or code >= 0xE0:  # small numbers
            return code if code < 0x80 else code - 256
        if code < 0x90:
            return self._table(code & 15, depth)
        if code < 0xA0:
            return self._list(code & 15, depth)
        if code < 0xC0:
            return self._text(code & 31)
        if code in (0xC0, 0xC2, 0xC3):
            return {0xC0: None, 0xC2: False, 0xC3: True}[code]
        if code in _NUMBERS or code in _SIGNED:
            found = self._number(_NUMBERS.get(code) or _SIGNED[code])
            return Single(found) if code == _FLOAT32 else found
        if 0xC4 <= code <= 0xC6:
            return self._take(self._size(1 << code - 0xC4))
        if 0xC7 <= code <= 0xC9:
            return self._extension(self._size(1 << code - 0xC7))
        if 0xD4 <= code <= 0xD8:
            return self._extension(1 << code - 0xD4)
        if 0xD9 <= code <= 0xDB:
            return self._text(self._size(1 << code - 0xD9))
        if code in (0xDC, 0xDD):
            return self._list(self._size(2 << code - 0xDC), depth)
        if code in (0xDE, 0xDF):
            return self._table(self._size(2 << code - 0xDE), depth)
        raise UnreadableError("a code that MessagePack does not use")

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _size(self, width: int) -> int:
        return int(self._number(_SIZES[width]))

    def _list(self, count: int, depth: int) -> list[Any]:
        return [self._value(depth + 1) for _ in range(count)]

    def _table(self, count: int, depth: int) -> Table:
        return Table([(self._value(depth + 1), self._value(depth + 1)) for _ in range(count)])

    def _extension(self, size: int) -> _Extension:
        return _Extension(self._number(">b"), self._take(size))


def is_msgpack(data: bytes) -> bool:
    """Whether data are nothing but tables."""
    if _BEGINNING.match(data) is None:
        return False
    try:
        for _ in _Reader(data, _PARTS).tables():
            pass
    except UnreadableError:
        return False
    return True


def read_msgpack(out: Canonical, path: str, data: bytes, nested: Nested) -> None:
    """Count values by their names and types."""
    tables = list(_Reader(data, _PARTS).tables())
    out.add(path, f"{len(tables)} of MessagePack")
    for at, table in enumerate(tables, 1):
        count(out, f"{path}[{at}]" if len(tables) > 1 else path, "", table, nested, ())


def count(out: Canonical, path: str, key: str, value: Any, nested: Nested, siblings: tuple[str, ...]) -> None:
    """Count a value that has been read, and what is in it, by its name."""
    if isinstance(value, Table):
        _count_table(out, path, key, value, nested)
    elif isinstance(value, list):
        out.add(path, f"[{len(value)}]")
        if values.is_durations(key, value):
            out.leave_out(path, repr(value), "time")
            return
        for at, each in enumerate(value):
            count(out, below(path, f"[{at}]", ""), "", each, nested, ())
    elif isinstance(value, _Extension):
        _count_extension(out, path, value)
    elif isinstance(value, bytes):
        out.add(path, "bytes")
        nested(out, path, value)
    elif isinstance(value, str):
        values.string(out, path, key, value, typed=True)
    elif isinstance(value, bool) or value is None:
        out.add(path, repr(value))
    else:
        text = f"{value!r} of 32 bits" if isinstance(value, Single) else repr(value)
        text = text if math.isfinite(value) else f"{text} {struct.pack('>d', value).hex()}"
        values.number(out, path, key, float(value), text, siblings)


def _count_table(out: Canonical, path: str, key: str, table: Table, nested: Nested) -> None:
    out.add(path, f"{{{len(table.pairs)}}}")
    names = tuple(dict.fromkeys(name for name, _ in table.pairs if isinstance(name, str)))
    if all(isinstance(name, str) for name, _ in table.pairs) and values.is_durations(
        key, [each for _, each in table.pairs]
    ):
        out.add(path, repr([name for name, _ in table.pairs]))
        out.leave_out(path, repr([each for _, each in table.pairs]), "time")
        return
    if len(names) < len(table.pairs):
        names = ()  # keys that are repeated, or no texts: not what a log has, and work for each pair
    for name, each in table.pairs:
        if isinstance(name, str):
            out.add(path, name)
            count(out, below(path, name), name, each, nested, names)
        else:
            count(out, below(path, "key", " "), "", name, nested, ())
            count(out, below(path, "[…]", ""), "", each, nested, ())


def _count_extension(out: Canonical, path: str, value: _Extension) -> None:
    out.add(path, f"extension {value.code}")
    seconds = _seconds(value.data) if value.code == _TIMESTAMP else None
    if seconds is not None and out.is_moment(seconds):
        out.note_moment(path, moment_text(seconds), seconds)
        out.leave_out(path, value.data, "time", packed=True, moment=True, during=out.is_during(seconds))
    else:
        out.add(path, value.data)


def _seconds(data: bytes) -> float | None:
    """Return the seconds since 1970 of a timestamp; None if it has another length."""
    if len(data) == 4:
        return float(struct.unpack(">I", data)[0])
    if len(data) == 8:  # nanoseconds in the upper 30 bits
        return float(struct.unpack(">Q", data)[0] & (1 << 34) - 1)
    return float(struct.unpack(">Iq", data)[1]) if len(data) == 12 else None
