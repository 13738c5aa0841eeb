"""Parquet and Arrow's files (Feather): columns count by their stored bytes, columns of measurements do not.

Numbers are not unpacked: two runs of a program write equal columns in equal bytes. What a column of measurements holds
is known by its name and by its smallest and largest value, which Parquet keeps. Texts are, if they are dates by the
name of their column. Offsets and sizes in the file follow
from the columns and do not count.

Sources: parquet.thrift of apache/parquet-format; Thrift's compact protocol; Schema.fbs, Message.fbs of apache/arrow.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from envbuild.record.measurements import kind_of, may_be_memory, names_result
from envbuild.verification.content import values
from envbuild.verification.content.canonical import Canonical, UnreadableError, below
from envbuild.verification.content.parquet_pages import Column, texts_of
from envbuild.verification.content.thrift import Thrift
from envbuild.verification.masking.masks import moment_of

Nested = Callable[[Canonical, str, bytes], None]
"""Opens what is in a value."""
PARQUET, ARROW = b"PAR1", b"ARROW1"
_PAIRS = 1000
_COPY, _PARTS_OF_COPY = 1 << 16, 200
"""Bytes and parts of the largest copy of what the footer has about a column: there may be thousands of columns."""
_SCHEMA = "ARROW:schema"
_INT32, _INT64, _FLOAT, _DOUBLE = 1, 2, 4, 5
_NUMBERS = {_INT32: "<i", _INT64: "<q", _FLOAT: "<f", _DOUBLE: "<d"}
_TEXT, _OPTIONAL = 6, 1
"""The type of texts, and how a column is marked that may have none in some rows."""
_TIMESTAMP = 8
"""Field of a logical type that says that a number is a time; the unit's field is 1 to 3."""
_BARE = frozenset(("time", "times", "timestamp", "datetime", "t"))
"""Names that a column of data may have too."""


def read_parquet(out: Canonical, path: str, data: bytes, nested: Nested) -> None:
    """Read a Parquet file; raises ``UnreadableError`` if it is damaged or encrypted."""
    try:
        _parquet(out, path, data, nested)
    except (struct.error, KeyError, TypeError, AttributeError, IndexError, UnicodeDecodeError) as error:
        raise UnreadableError(f"a damaged Parquet file: {error}") from None


def _parquet(out: Canonical, path: str, data: bytes, nested: Nested) -> None:
    size = int.from_bytes(data[-8:-4], "little")
    end = len(data) - 8 - size
    if data[-4:] != PARQUET or end < 4:
        raise UnreadableError("a Parquet file that ends too early")
    footer = Thrift(data[end:-8]).structure()
    names = Counter(each[4] for each in footer[2])
    if not all(isinstance(name, bytes) for name in names):
        raise UnreadableError("a column whose name is no text")
    schema = {each[4].decode(): each for each in footer[2] if 1 in each and names[each[4]] == 1}
    out.add(f"{path} schema".strip(), repr([footer[1], footer[2], footer[3], footer.get(6), footer.get(7)]))
    _pairs(out, path, [(pair[1], pair.get(2, b"")) for pair in footer.get(5, [])], nested)
    known = [(0, 4), (end, len(data))]
    left = end
    for number, group in enumerate(footer[4]):
        where = below(path, f"[{number}]", "")
        out.add(where, repr([group[3], group.get(4), group.get(7)]))
        for chunk in group[1]:
            left -= max(0, chunk[3][7])
            if left < 0:
                raise UnreadableError("columns that share what they have")
            known += _column(out, where, data, end, chunk, schema)
    _rest(out, path, data, known)


def _column(
    out: Canonical, path: str, data: bytes, footer: int, chunk: dict[int, Any], schema: dict[str, dict[int, Any]]
) -> list[tuple[int, int]]:
    """Count a column of a group of rows, before the footer, and return the places of all that belongs to it."""
    facts = chunk[3]
    if chunk.get(1) is not None or 8 in chunk or 9 in chunk:
        raise UnreadableError("a column in another file, or encrypted")
    name = ".".join(part.decode() for part in facts[3])
    start = min([facts[9], *([facts[11]] if facts.get(11) else [])])
    end = start + facts[7]
    if not 4 <= start <= end <= footer:
        raise UnreadableError("a column beyond the end")
    where = below(path, name)
    out.add(where, repr([facts[1], facts[2], facts[4], facts[5], facts.get(8)]))
    kind = _measured(out, name.rpartition(".")[2], facts, schema)
    if kind:
        out.leave_out(where, data[start:end], kind, packed=True, moment=kind_of(name) is None)
    elif not _are_times(out, where, data[start:end], facts, schema):
        out.add(where, data[start:end])
    places = [(start, _end_of_copy(data[end : min(end + _COPY, footer)], end, facts))]
    for table, at, size in ((chunk, 4, 5), (chunk, 6, 7), (facts, 14, 15)):
        if table.get(at) is not None and table.get(size) is not None:
            places.append((table[at], table[at] + table[size]))
    return places


def _measured(out: Canonical, name: str, facts: dict[int, Any], schema: dict[str, dict[int, Any]]) -> str:
    """Return the kind of measurement that a column is of; empty for results, and where its values are not known."""
    code, found = _NUMBERS.get(facts[1]), facts.get(12, {})
    if code is None or found.get(3) != 0 or len(facts[3]) != 1 or name not in schema or names_result(name):
        return ""
    ends = [struct.unpack(code, found[key])[0] for key in (6, 5) if len(found.get(key, b"")) == struct.calcsize(code)]
    if len(ends) != 2 or not all(each >= 0 for each in ends):
        return ""
    logical = schema[name].get(10, {})
    if _TIMESTAMP in logical or (not logical and schema[name].get(6) is None):
        if values.names_moment(name) and all(out.is_moment(moment_of(each)) for each in ends):
            return "time"
        kind = kind_of(name) if not logical and name.lower() not in _BARE else None
        measured = kind in ("time", "rate", "memory") and all(may_be_memory(name, each) for each in ends)
        return kind if measured and kind is not None else ""
    return ""


def _end_of_copy(behind: bytes, end: int, facts: dict[int, Any]) -> int:
    """Return where the copy of what the footer has about a column ends, which Polars writes behind it.

    Args:
        behind: what is behind the column.
        end: where that begins.
        facts: what the footer has.
    """
    cursor = Thrift(behind, _PARTS_OF_COPY)
    try:
        same = cursor.structure() == facts
    except UnreadableError:
        return end
    return end + cursor.at if same else end


def _are_times(
    out: Canonical, where: str, data: bytes, facts: dict[int, Any], schema: dict[str, dict[int, Any]]
) -> bool:
    """Count a column of texts, by whose name they are dates and times, as texts are; False, and nothing is, for others.

    Args:
        out: what collects.
        where: the column's place.
        data: its pages.
        facts: what the footer has about it.
        schema: columns by name.
    """
    name = facts[3][0].decode()
    if facts[1] != _TEXT or len(facts[3]) != 1 or name not in schema or not values.names_moment(name):
        return False
    trial = Canonical(masks=out.masks, left=out.left)
    try:
        found = texts_of(trial, data, Column(facts[4], facts[5], schema[name].get(3) == _OPTIONAL))
    except UnreadableError:
        out.left = max(0, trial.left)  # there may be thousands of such columns
        return False
    out.spend(out.left - trial.left)
    out.add(where, found.form)
    for number, text in enumerate(found.texts):
        values.string(out, below(where, f"[{number}]", ""), name, text)
    return True


def _rest(out: Canonical, path: str, data: bytes, known: list[tuple[int, int]]) -> None:
    """Count what belongs to nothing that is known."""
    at = 0
    for start, end in sorted(known):
        if start < 0 or end > len(data):
            raise UnreadableError("something beyond the end")
        if start > at:
            out.add(path, data[at:start])
        at = max(at, end)


def _pairs(
    out: Canonical, path: str, pairs: Iterable[tuple[bytes, bytes]], nested: Nested, copies: Iterable[bytes] = ()
) -> None:
    """Count what a writer noted of a table, and copies of it but for what was left out.

    Args:
        out: what collects.
        path: of the file.
        pairs: keys and values; Parquet's writers keep Arrow's schema, with all pairs, once more in base64.
        nested: opens a value.
        copies: parts of the file that have all pairs too.
    """
    left_out, schemas = [], list(copies)
    for number, (key, value) in enumerate(pairs):
        if number >= _PAIRS:
            raise UnreadableError(f"more than {_PAIRS} notes")
        name = key.decode()
        if name == _SCHEMA:
            try:
                schemas.append(base64.b64decode(value, validate=True))
            except (ValueError, binascii.Error):
                out.add(below(path, name), value)
            continue
        trial = Canonical(masks=out.masks, left=out.left)
        for collects in (trial, out):
            _note(collects, below(path, name), name, value, nested)
        if len(value) > 3 and trial.result().left_out:
            left_out.append(value)
    for schema in schemas:
        for value in sorted(left_out, key=len, reverse=True):
            schema = schema.replace(value, b"\0left out")
        out.add(f"{path} schema".strip(), schema)


def _note(out: Canonical, path: str, key: str, value: bytes, nested: Nested) -> None:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        out.add(path, value)
        return
    if text[:1] in ("{", "["):
        nested(out, path, value)
    else:
        values.string(out, path, key, text)


def read_arrow(out: Canonical, path: str, data: bytes, nested: Nested) -> None:
    """Read a file of Arrow's; raises ``UnreadableError`` if it is damaged."""
    try:
        size = struct.unpack_from("<I", data, len(data) - 10)[0]
        mark, length = struct.unpack_from("<II", data, 8)
        footer = len(data) - 10 - size
        if data[-6:] != ARROW or mark != 0xFFFFFFFF or 16 + length > footer:
            raise UnreadableError("a file of Arrow's that ends too early")
        message = data[16 : 16 + length]
        pairs = _custom(message)
    except (struct.error, IndexError) as error:
        raise UnreadableError(f"a damaged file of Arrow's: {error}") from None
    try:
        _pairs(out, path, pairs, nested, (message, data[footer:-10]))
    except UnicodeDecodeError:
        raise UnreadableError("a damaged file of Arrow's: a name that is no text") from None
    out.add(path, data[:16])
    out.add(path, data[16 + length : footer])
    out.add(path, data[-10:])


def _custom(message: bytes) -> list[tuple[bytes, bytes]]:
    """Return the keys and values that a schema's message holds."""
    schema = _offset(message, struct.unpack_from("<I", message)[0], 2)
    vector = _offset(message, schema, 2) if schema else 0
    count = struct.unpack_from("<I", message, vector)[0] if vector else 0
    if count > _PAIRS:
        raise UnreadableError(f"more than {_PAIRS} notes")
    found = []
    for number in range(count):
        at = vector + 4 + 4 * number
        pair = at + struct.unpack_from("<I", message, at)[0]
        found.append((_text(message, _offset(message, pair, 0)), _text(message, _offset(message, pair, 1))))
    return found


def _offset(message: bytes, table: int, field: int) -> int:
    """Return where a field of a table of FlatBuffers leads to; 0 if the table lacks it."""
    slots = table - struct.unpack_from("<i", message, table)[0]
    if not 0 <= slots < len(message) or 4 + 2 * field >= struct.unpack_from("<H", message, slots)[0]:
        return 0
    place = struct.unpack_from("<H", message, slots + 4 + 2 * field)[0]
    return table + place + struct.unpack_from("<I", message, table + place)[0] if place else 0


def _text(message: bytes, at: int) -> bytes:
    size = struct.unpack_from("<I", message, at)[0] if at else 0
    if at + 4 + size > len(message):
        raise UnreadableError("a text beyond the end")
    return message[at + 4 : at + 4 + size] if at else b""
