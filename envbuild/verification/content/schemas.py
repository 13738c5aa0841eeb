"""Arrow's schemas as what they say, without the places at which it is written.

A note of another length moves all that is behind it in a schema, so that its bytes differ. All fields that the format
has are read; a schema with any other one is not.

Sources: Schema.fbs, Message.fbs, File.fbs of apache/arrow.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from envbuild.verification.content.canonical import UnreadableError
from envbuild.verification.content.flatbuffers import Table, root

_MAGIC, _MARK = b"ARROW1\0\0", b"\xff\xff\xff\xff"
"""Before the schema of a file, and before a message with its size."""
_PARTS, _DEPTH = 200_000, 64
_SCHEMA = 1
"""The kind of a message that is a schema."""

_Read = Callable[["_Reader", Table, int], Any]
_Form = Mapping[int, _Read]
"""How each field of a table is read."""

Pair = tuple[bytes, bytes]


def form_of_message(data: bytes, left_out: Collection[Pair]) -> str:
    """Return what a message with a schema says, of a stream or at the beginning of a file.

    Args:
        data: the message, with or without its size, and zeros up to what follows.
        left_out: notes whose values do not count.

    Raises:
        UnreadableError: it is damaged, or has something that schemas do not have.
    """
    data = data.removeprefix(_MAGIC)
    if data[:4] == _MARK:
        end = 8 + int.from_bytes(data[4:8], "little")
        if any(data[end:]):
            raise UnreadableError("something behind a schema")
        data = data[8:end]
    table = root(data)
    if table.number(1, "<B") != _SCHEMA:
        raise UnreadableError("something else in the place of a schema")
    return _form(table, _MESSAGE, left_out)


def form_of_footer(data: bytes, left_out: Collection[Pair]) -> str:
    """Return what the footer of a file says; arguments and errors as of ``form_of_message``."""
    return _form(root(data), _FOOTER, left_out)


def _form(table: Table, form: _Form, left_out: Collection[Pair]) -> str:
    return repr(_Reader(frozenset(left_out)).table(table, form))


@dataclass(kw_only=False)
class _Reader:
    """Reads tables, up to a number of parts: several places may lead to the same ones."""

    left_out: frozenset[Pair]
    parts: int = _PARTS
    depth: int = 0

    def table(self, table: Table, form: _Form) -> list[tuple[int, Any]]:
        """Return the fields that a table has, each with its number."""
        self.parts -= 1
        if self.parts < 0 or self.depth > _DEPTH:
            raise UnreadableError("columns in columns, or too many")
        self.depth += 1
        known = max(form, default=-1)
        if any(table.place(field) for field in range(known + 1, table.fields)):
            raise UnreadableError("a field that is not known")
        found = [(field, read(self, table, field)) for field, read in form.items() if table.place(field)]
        self.depth -= 1
        return found


def _number(code: str) -> _Read:
    return lambda _, table, field: table.number(field, code)


def _text(_: _Reader, table: Table, field: int) -> bytes:
    return table.text(field)


def _vector(size: int) -> _Read:
    def read(_: _Reader, table: Table, field: int) -> bytes:
        start, count = table.vector(field, size)
        return table.data[start : start + count * size]

    return read


def _one(form: _Form) -> _Read:
    def read(reader: _Reader, table: Table, field: int) -> Any:
        inner = table.table(field)
        return None if inner is None else reader.table(inner, form)

    return read


def _several(form: _Form) -> _Read:
    return lambda reader, table, field: [reader.table(each, form) for each in table.tables(field)]


def _pairs(reader: _Reader, table: Table, field: int) -> Any:
    """Return notes; of those that are left out the names."""
    found = []
    for each in table.tables(field):
        key, value = each.text(0), each.text(1)
        found.append(key if (key, value) in reader.left_out else reader.table(each, _PAIR))
    return found


def _type(reader: _Reader, table: Table, field: int) -> Any:
    kind, inner = table.number(_KIND, "<B"), table.table(field)
    if kind not in _TYPES or inner is None:
        raise UnreadableError("a column of an unknown type")
    return reader.table(inner, _TYPES[kind])


def _columns(reader: _Reader, table: Table, field: int) -> Any:
    return [reader.table(each, _FIELD) for each in table.tables(field)]


_BYTE, _SHORT, _INT, _LONG = _number("<B"), _number("<h"), _number("<i"), _number("<q")
_PAIR: _Form = {0: _text, 1: _text}
_INTEGER: _Form = {0: _INT, 1: _BYTE}
_KIND = 2
"""The field of a column that says of which type it is."""
_TYPES: Mapping[int, _Form] = {
    **{kind: {} for kind in (1, 4, 5, 6, 12, 13, 19, 20, 21, 22, 23, 24, 25, 26)},
    2: _INTEGER,
    3: {0: _SHORT},
    7: {0: _INT, 1: _INT, 2: _INT},
    8: {0: _SHORT},
    9: {0: _SHORT, 1: _INT},
    10: {0: _SHORT, 1: _text},
    11: {0: _SHORT},
    14: {0: _SHORT, 1: _vector(4)},
    15: {0: _INT},
    16: {0: _INT},
    17: {0: _BYTE},
    18: {0: _SHORT},
}
_ENCODING: _Form = {0: _LONG, 1: _one(_INTEGER), 2: _BYTE, 3: _SHORT}
_FIELD: _Form = {0: _text, 1: _BYTE, _KIND: _BYTE, 3: _type, 4: _one(_ENCODING), 5: _columns, 6: _pairs}
_OF_SCHEMA: _Form = {0: _SHORT, 1: _columns, 2: _pairs, 3: _vector(8)}
_MESSAGE: _Form = {0: _SHORT, 1: _BYTE, 2: _one(_OF_SCHEMA), 3: _LONG, 4: _pairs}
_BLOCK = struct.calcsize("<qi4xq")
_FOOTER: _Form = {0: _SHORT, 1: _one(_OF_SCHEMA), 2: _vector(_BLOCK), 3: _vector(_BLOCK), 4: _pairs}
