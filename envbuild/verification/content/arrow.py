"""Arrow's files (Feather): columns count by their stored bytes, columns of measurements do not.

A file is a schema, batches of rows with the buffers of each column, and a footer with the places of the batches; a
stream, as ``datasets`` writes it, is the same without the footer. A column is left out by the rules for Parquet's
(``columns``): by its name and its values, all of which are read. The schema, numbers of rows, which values are none,
and all other buffers count as they are stored. Where a buffer is and how large a batch is follows from the columns, of
which those that are compressed have another size in each run. A file with a type whose buffers are not known counts by
its bytes, but for its notes.

Sources: Schema.fbs, Message.fbs, File.fbs of apache/arrow; Arrow Columnar Format 1.5, "Serialization and Interprocess
Communication".
"""

from __future__ import annotations

import math
import struct
from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from envbuild.verification.content import values
from envbuild.verification.content.archives import unpack
from envbuild.verification.content.canonical import Canonical, UnreadableError, below
from envbuild.verification.content.columns import Copy, Numbers, leave_out_numbers, may_be_measured, note_pairs
from envbuild.verification.content.flatbuffers import Table, root
from envbuild.verification.content.lz4 import unpack_lz4
from envbuild.verification.content.schemas import form_of_footer

Nested = Callable[[Canonical, str, bytes], None]
"""Opens what is in a value."""
ARROW = b"ARROW1"
_MARK, _LAST = b"\xff\xff\xff\xff", b"\xff\xff\xff\xff\0\0\0\0"
_START = 8
"""Where the first message may begin: behind the magic number, which is padded to as many bytes or more."""
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3
"""Kinds of messages."""
_INT, _FLOAT, _TIMESTAMP, _DURATION = 2, 3, 10, 18
_VIEW = "view"
_TEXTS = {5: "i", 20: "q", 24: _VIEW}
"""Types of texts, and how the place of one is read; views are themselves the text, if that is short."""
_OF_VIEW, _WITHIN, _PREFIX = 16, 12, 4
"""Bytes of a view, of the longest text that is in one, and of what one has of a longer text."""
_NODE, _BUFFER, _COUNT, _BLOCK = 16, 16, 8, 24
"""Bytes of what a batch has about a column, a buffer, how many buffers a view has; and a footer about a batch."""
_BUFFERS = {1: 0, 2: 2, 3: 2, 4: 3, 5: 3, 6: 2, 7: 2, 8: 2, 9: 2, 10: 2, 11: 2, 12: 2, 13: 1, 15: 2, 16: 1, 17: 2}
_BUFFERS |= {18: 2, 19: 3, 20: 3, 21: 2, 22: 0, 23: 2, 24: 2, 25: 3, 26: 3}
"""Buffers of each type, without those of the columns in it; unions have as many as they are of a kind."""
_VIEWS = frozenset((23, 24))
"""Types with further buffers, whose number each batch has."""
_COLUMNS, _DEPTH = 100_000, 64
"""The most columns, and columns in columns."""
_PARTS = 200_000
"""The most columns of all batches together."""
_ROWS = 100_000
"""Texts that are compared one by one."""
_PADDING = 64
"""Up to so many bytes buffers are padded: with zeros between them, or with what is behind the rows in memory."""
_AS_IS = -1
"""The size before what is stored as it is in a batch that is compressed."""
_CODECS = {0: "lz4", 1: "zst"}


class _Column(NamedTuple):
    """A column of the schema, with all columns in it.

    Attributes:
        name: its name.
        nodes: columns in it, and itself.
        buffers: how many it has, but for those of which ``views`` columns have a number in each batch.
        code: how ``memoryview`` reads a number; empty for others.
        unit: how many of a timestamp's numbers are a second; 0 for others.
        spans: it is of durations by its type.
        offset: how the place of a text is read, or ``_VIEW``; empty for others.
    """

    name: str
    nodes: int
    buffers: int
    views: int
    code: str = ""
    unit: int = 0
    spans: bool = False
    offset: str = ""


class _Message(NamedTuple):
    """What a message has: its table, its kind, and where it begins, its body begins and that ends."""

    table: Table
    kind: int
    start: int
    body: int
    end: int


class _Part(NamedTuple):
    """A column in a batch: its buffers as they are stored, numbers of its rows and of those without a value."""

    column: _Column
    buffers: list[bytes]
    rows: int
    missing: int


class _Batch(NamedTuple):
    """A message as it counts: its head without places and sizes, columns, the rest of its body, how it is packed."""

    head: bytes
    parts: list[_Part]
    rest: list[bytes]
    codec: str = ""


def is_stream(data: bytes) -> bool:
    """Whether data begin with a schema as a stream of Arrow's does."""
    if data[:4] != _MARK:
        return False
    try:
        return _message(data, 0, len(data)).kind == _SCHEMA
    except UnreadableError:
        return False


def read_stream(out: Canonical, path: str, data: bytes, nested: Nested) -> None:
    """Read a stream of Arrow's; raises ``UnreadableError`` if it is damaged, or has columns of an unknown type."""
    message = _message(data, 0, len(data))
    schema = message.table.table(2)
    if schema is None or message.body != message.end:
        raise UnreadableError("something else in the place of a schema")
    found = _batches(data, schema, message.end, len(data))
    _notes(out, path, schema, (Copy(data[: message.end]),), nested)
    _count_all(out, path, data, found, message.end, len(data))


def read_arrow(out: Canonical, path: str, data: bytes, nested: Nested) -> None:
    """Read a file of Arrow's; raises ``UnreadableError`` if it is damaged.

    The schema in front of the batches has no size before it in files of Polars; the footer has it once more.
    """
    end = len(data) - 10 - int.from_bytes(data[-10:-6], "little")
    if data[-6:] != ARROW or end < _START:
        raise UnreadableError("a file of Arrow's that ends too early")
    footer = data[end:-10]
    table = root(footer)
    schema = table.table(1)
    if schema is None:
        raise UnreadableError("a file of Arrow's without a schema")
    found: list[tuple[_Message, _Batch]] = []
    start = min([at for field in (2, 3) for at, *_ in _blocks(table, field)], default=end)
    if not _START <= start <= end:
        raise UnreadableError("a batch before the beginning or beyond the end")
    try:
        found = _batches(data, schema, start, end)
        footer = _without_places(table, [message for message, _ in found])
    except UnreadableError:
        found = []
    _notes(out, path, schema, (Copy(data[:start]), Copy(footer, form_of_footer)), nested)
    _count_all(out, path, data, found, start, end)
    out.add(path, data[-10:])


def _count_all(
    out: Canonical, path: str, data: bytes, found: Sequence[tuple[_Message, _Batch]], start: int, end: int
) -> None:
    """Count all between the schema and the footer."""
    for number, (message, batch) in enumerate(found):
        _count(out, below(path, f"[{number}]", ""), batch)
        start = message.end
    out.add(path, data[start:end])


def _notes(out: Canonical, path: str, schema: Table, copies: Sequence[Copy], nested: Nested) -> None:
    """Count the schema, which may be there twice, and what the writer noted in it."""
    pairs = [(each.text(0), each.text(1)) for each in schema.tables(2)]
    try:
        note_pairs(out, path, pairs, nested, copies)
    except UnicodeDecodeError:
        raise UnreadableError("a damaged file of Arrow's: a name that is no text") from None


def _message(data: bytes, start: int, end: int) -> _Message:
    """Read the head of a message; raises ``UnreadableError`` if it or its body is beyond the end."""
    body = start + 8 + int.from_bytes(data[start + 4 : start + 8], "little")
    if data[start : start + 4] != _MARK or body > end:
        raise UnreadableError("a message that is none, or ends too early")
    table = root(data[start + 8 : body])
    size = table.number(3, "<q")
    if not 0 <= size <= end - body:
        raise UnreadableError("a body that ends too early")
    return _Message(table, table.number(1, "<B"), start, body, body + size)


def _batches(data: bytes, schema: Table, at: int, end: int) -> list[tuple[_Message, _Batch]]:
    """Return all messages from a place on with what counts of them.

    Raises ``UnreadableError`` if one is damaged, or the schema has a type whose buffers are not known.
    """
    columns, dictionaries = _columns(schema)
    found: list[tuple[_Message, _Batch]] = []
    while at < end and data[at : at + 8] != _LAST:
        if len(found) * (len(columns) + 1) > _PARTS:
            raise UnreadableError("too many batches or columns")
        message = _message(data, at, end)
        if message.kind == _BATCH:
            found.append((message, _batch(data, message, message.table.table(2), columns)))
        elif message.kind == _DICTIONARY:
            found.append((message, _dictionary(data, message, dictionaries)))
        else:
            raise UnreadableError("a message of another kind")
        at = message.end
    return found


def _columns(schema: Table) -> tuple[list[_Column], dict[int, _Column]]:
    """Return the columns of a schema, and those whose texts are in a dictionary, by its number."""
    if schema.number(0, "<h"):
        raise UnreadableError("numbers whose first byte is the largest")
    names: list[str] = []
    fields = schema.tables(1)
    found = [_column(field, names, 0) for field in fields]
    times = Counter(names)
    numbers = [encoding.number(0, "<q") for field in fields if (encoding := field.table(4)) is not None]
    encoded = [column for column, field in zip(found, fields, strict=True) if field.place(4)]
    dictionaries = {
        number: column._replace(buffers=_BUFFERS[kind], views=kind in _VIEWS, offset=_TEXTS[kind])
        for number, column, kind in zip(numbers, encoded, _kinds(fields), strict=True)
        if numbers.count(number) == 1 and times[column.name] == 1 and kind in _TEXTS
    }
    return [
        column if times[column.name] == 1 else column._replace(code="", offset="") for column in found
    ], dictionaries


def _kinds(fields: Sequence[Table]) -> list[int]:
    """Return the types of what dictionaries of columns have."""
    return [field.number(2, "<B") for field in fields if field.place(4)]


def _dictionary(data: bytes, message: _Message, columns: Mapping[int, _Column]) -> _Batch:
    """Read the texts of a dictionary; one of something else counts by its bytes."""
    table = message.table.table(2)
    column = columns.get(table.number(0, "<q")) if table is not None else None
    if table is None or column is None:
        return _Batch(data[message.start : message.body], [], [data[message.body : message.end]])
    return _batch(data, message, table.table(1), [column])


def _column(field: Table, names: list[str], depth: int) -> _Column:
    try:
        name = field.text(0).decode()
    except UnicodeDecodeError:
        raise UnreadableError("a name that is no text") from None
    names.append(name)
    if depth > _DEPTH or len(names) > _COLUMNS:
        raise UnreadableError("columns in columns, or too many")
    if field.place(4):
        return _Column(name, 1, 2, 0)  # numbers of texts in a dictionary
    kind, facts = field.number(2, "<B"), field.table(3)
    if kind not in _BUFFERS:
        raise UnreadableError("a column of an unknown type")
    inner = [_column(each, names, depth + 1) for each in field.tables(5)]
    column = _Column(
        name,
        1 + sum(each.nodes for each in inner),
        _BUFFERS[kind] + sum(each.buffers for each in inner),
        (kind in _VIEWS) + sum(each.views for each in inner),
    )
    if facts is None or inner:
        return column
    if kind == _INT and facts.number(1, "<B") and (bits := facts.number(0, "<i")) in (32, 64):
        return column._replace(code="i" if bits == 32 else "q")
    if kind == _FLOAT and (code := {1: "f", 2: "d"}.get(facts.number(0, "<h"))):
        return column._replace(code=code)
    if kind == _TIMESTAMP and 0 <= (power := facts.number(0, "<h")) <= 3:
        return column._replace(code="q", unit=1000**power)
    if kind == _DURATION:
        return column._replace(code="q", spans=True)
    return column._replace(offset=_TEXTS.get(kind, ""))


def _batch(data: bytes, message: _Message, table: Table | None, columns: Sequence[_Column]) -> _Batch:
    """Read a batch of rows; raises ``UnreadableError`` if it has not what the schema says."""
    if table is None:
        raise UnreadableError("a batch without rows")
    nodes, node_count = table.vector(1, _NODE)
    places, place_count = table.vector(2, _BUFFER)
    views, view_count = table.vector(4, _COUNT)
    head, body = table.data, data[message.body : message.end]
    more = [number for (number,) in struct.iter_unpack("<q", head[views : views + _COUNT * view_count])]
    if (
        node_count != sum(column.nodes for column in columns)
        or view_count != sum(column.views for column in columns)
        or any(number < 0 for number in more)
        or place_count != sum(column.buffers for column in columns) + sum(more)
    ):
        raise UnreadableError("more or fewer columns or buffers than the schema has")
    spans = [*struct.iter_unpack("<qq", head[places : places + _BUFFER * place_count])]
    if any(at < 0 or size < 0 or at + size > len(body) for at, size in spans) or sum(size for _, size in spans) > len(
        body
    ):
        raise UnreadableError("a buffer beyond the end, or buffers that share what they have")
    buffers, counts, parts = iter([body[at : at + size] for at, size in spans]), iter(more), []
    for column in columns:
        rows, missing = struct.unpack_from("<qq", head, nodes)
        nodes += _NODE * column.nodes
        count = column.buffers + sum(next(counts) for _ in range(column.views))
        parts.append(_Part(column, [next(buffers) for _ in range(count)], rows, missing))
    left = bytearray(head)
    left[places : places + _BUFFER * place_count] = bytes(_BUFFER * place_count)
    if size := message.table.place(3):  # that of the body
        left[size : size + 8] = bytes(8)
    facts = table.table(3)
    codec = ("?" if facts.number(1, "<b") else _CODECS.get(facts.number(0, "<b"), "?")) if facts is not None else ""
    return _Batch(bytes(left), parts, [*_between(body, spans)], codec)


def _between(body: bytes, spans: Sequence[tuple[int, int]]) -> list[bytes]:
    """Return what is in no buffer, but for a few zeros up to where the next one begins."""
    found, at = [], 0
    for start, size in [*sorted(spans), (len(body), 0)]:
        gap = body[at:start]
        if len(gap) >= _PADDING or any(gap):
            found.append(gap)
        at = max(at, start + size)
    return found


def _without_places(footer: Table, messages: Sequence[_Message]) -> bytes:
    """Return a footer without places and sizes of batches; raises ``UnreadableError`` if they are others."""
    left = bytearray(footer.data)
    for field, kind in ((2, _DICTIONARY), (3, _BATCH)):
        known = [(each.start, each.body - each.start, each.end - each.body) for each in messages if each.kind == kind]
        if _blocks(footer, field) != known:
            raise UnreadableError("batches in other places than the footer says")
        start, count = footer.vector(field, _BLOCK)
        for at in range(start, start + _BLOCK * count, _BLOCK):
            left[at : at + 8] = left[at + 16 : at + 24] = bytes(8)
    return bytes(left)


def _blocks(footer: Table, field: int) -> list[tuple[int, ...]]:
    """Return where messages of a kind are, how large their heads and their bodies."""
    start, count = footer.vector(field, _BLOCK)
    return [*struct.iter_unpack("<qi4xq", footer.data[start : start + _BLOCK * count])]


def _count(out: Canonical, path: str, batch: _Batch) -> None:
    """Count what is in a batch, but for columns that are left out."""
    out.add(path, batch.head)
    for part in batch.parts:
        where = below(path, part.column.name)
        if not (part.column.code and _numbers(out, where, part, batch.codec)) and not (
            part.column.offset and _texts(out, where, part, batch.codec)
        ):
            for buffer in part.buffers:
                out.add(where, buffer)
    for gap in batch.rest:
        out.add(path, gap)


def _numbers(out: Canonical, where: str, part: _Part, codec: str) -> bool:
    """Leave out a column of numbers that are measurements; False, and nothing is, for others."""
    column = part.column
    if part.missing or part.rows <= 0 or not may_be_measured(column.name):
        return False
    data = _unpacked(out, part.buffers[1], codec)
    size = part.rows * struct.calcsize(column.code)
    if data is None or not 0 <= len(data) - size < _PADDING:
        return False
    numbers = array(column.code, data[:size])
    if column.code in "fd" and math.isnan(sum(numbers)):
        return False
    found = Numbers(
        column.name,
        data[:size],
        min(numbers),
        max(numbers),
        dated=bool(column.unit),
        spans=column.spans,
        unit=column.unit,
        every=numbers,
    )
    if not leave_out_numbers(out, where, found):
        return False
    out.add(where, part.buffers[0])
    return True


def _texts(out: Canonical, where: str, part: _Part, codec: str) -> bool:
    """Count a column of dates and times by its name as texts are; False, and nothing is, for others."""
    column, rows = part.column, part.rows
    if not values.names_moment(column.name) or not 0 < rows <= _ROWS:
        return False
    buffers = [unpacked for each in part.buffers if (unpacked := _unpacked(out, each, codec)) is not None]
    if len(buffers) < len(part.buffers):
        return False
    known, places, *data = buffers
    if known and len(known) * 8 < rows:
        return False
    read = _in_views if column.offset == _VIEW else _at_offsets
    found = read(column.offset, places, data, rows)
    present = [not known or bool(known[row >> 3] >> (row & 7) & 1) for row in range(rows)]
    if (
        found is None
        or sum(present) != rows - part.missing
        or any(found[row] for row in range(rows) if not present[row])
    ):
        return False
    try:
        texts = [text.decode() for text in found]
    except UnicodeDecodeError:
        return False
    out.add(where, known)
    for row, text in enumerate(texts):
        if present[row]:
            values.string(out, below(where, f"[{row}]", ""), column.name, text)
    return True


def _at_offsets(code: str, places: bytes, data: Sequence[bytes], rows: int) -> list[bytes] | None:
    """Return texts that follow each other, by where each begins; None if anything else is there."""
    size = (rows + 1) * struct.calcsize(code)
    if not 0 <= len(places) - size < _PADDING:
        return None
    ends, texts = array(code, places[:size]), data[0]
    if ends[0] or any(ends[row] > ends[row + 1] for row in range(rows)) or not 0 <= len(texts) - ends[rows] < _PADDING:
        return None
    return [texts[ends[row] : ends[row + 1]] for row in range(rows)]


def _in_views(_: str, places: bytes, data: Sequence[bytes], rows: int) -> list[bytes] | None:
    """Return texts that are in their views, or follow each other in buffers; None if anything else is there."""
    size = rows * _OF_VIEW
    if not 0 <= len(places) - size < _PADDING:
        return None
    found, at = [], [0] * len(data)
    for row in range(0, size, _OF_VIEW):
        length, prefix, buffer, start = struct.unpack_from("<i4sii", places, row)
        if 0 <= length <= _WITHIN:
            text, rest = (places[row + 4 : row + 4 + length], places[row + 4 + length : row + _OF_VIEW])
            if any(rest):
                return None
        elif (
            length > _WITHIN and 0 <= buffer < len(data) and start == at[buffer] and start + length <= len(data[buffer])
        ):
            text, at[buffer] = data[buffer][start : start + length], start + length
            if text[:_PREFIX] != prefix:
                return None
        else:
            return None
        found.append(text)
    if any(not 0 <= len(each) - end < _PADDING for each, end in zip(data, at, strict=True)):
        return None
    return found


def _unpacked(out: Canonical, data: bytes, codec: str) -> bytes | None:
    """Return what a buffer holds; None if it is damaged or more than may be."""
    if not codec or not data:
        return data
    size = int.from_bytes(data[:8], "little", signed=True)
    if size == _AS_IS:
        return data[8:]
    trial = Canonical(masks=out.masks, left=out.left)
    try:
        if codec not in _CODECS.values():
            return None
        found = unpack_lz4(trial, data[8:]) if codec == "lz4" else unpack(trial, data[8:], codec)
    except UnreadableError:
        out.left = max(0, trial.left)  # there may be thousands of such columns
        return None
    out.left = trial.left
    return found if len(found) == size else None
