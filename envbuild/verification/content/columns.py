"""Parquet: columns count by their stored bytes, columns of measurements do not. Arrow's have the same rules.

Numbers are not unpacked: two runs of a program write equal columns in equal bytes. What a column of measurements holds
is known by its name and by its smallest and largest value, which Parquet keeps. Texts are, if they are dates by the
name of their column. Offsets and sizes in the file follow
from the columns and do not count.

Sources: parquet.thrift of apache/parquet-format; Thrift's compact protocol.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from envbuild.record.measurements import kind_of, may_be_memory, names_result
from envbuild.verification.content import values
from envbuild.verification.content.canonical import Canonical, Leaves, UnreadableError, below, moment_text
from envbuild.verification.content.parquet_pages import Column, may_have_nan, numbers_of, texts_of
from envbuild.verification.content.schemas import Pair, form_of_message
from envbuild.verification.content.thrift import Thrift

Nested = Callable[[Canonical, str, bytes], None]
"""Opens what is in a value."""
PARQUET = b"PAR1"
_PAIRS = 1000
_SEARCHED = 1 << 30
"""Bytes of copies of a schema that are looked through for notes, as often as there are notes."""
_COPY, _PARTS_OF_COPY = 1 << 16, 200
"""Bytes and parts of the largest copy of what the footer has about a column: there may be thousands of columns."""
_SCHEMA = "ARROW:schema"
_SHORT = 3
"""Bytes of a value that may be there by chance."""
_INT32, _INT64, _FLOAT, _DOUBLE = 1, 2, 4, 5
_FLOATING, _SHOWN = ("<f", "<d"), 2000
"""Codes of floating-point numbers, and how many of a column are shown one by one."""
_NUMBERS = {_INT32: "<i", _INT64: "<q", _FLOAT: "<f", _DOUBLE: "<d"}
_TEXT, _REQUIRED, _OPTIONAL = 6, 0, 1
"""The type of texts, and how a column is marked that has one value in each row, or may have none in some."""
_TIMESTAMP = 8
"""Field of a logical type that says that a number is a time; the unit's field is 1 to 3."""
_BARE = frozenset(("time", "times", "timestamp", "datetime", "t", "ms"))
"""Names that a column of data may have too."""
_MEASURED = ("time", "rate", "memory")
_NEAR = 1.1
"""How many times the smallest of numbers of one scale that are about when the run was the largest may be."""
_BETWEEN = 4096.5
"""What may be between two numbers that are not whole by their type."""
_FAR = 1000
"""Moments of a column that are noted each by itself."""


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
    note_pairs(out, path, [(pair[1], pair.get(2, b"")) for pair in footer.get(5, [])], nested)
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
    pages = data[start:end]
    if not (
        _are_measured(out, where, pages, facts, schema)
        or _are_times(out, where, pages, facts, schema)
        or (isinstance(out, Leaves) and _are_shown(out, where, pages, facts, schema))
    ):
        out.add(where, pages)
    places = [(start, _end_of_copy(data[end : min(end + _COPY, footer)], end, facts))]
    for table, at, size in ((chunk, 4, 5), (chunk, 6, 7), (facts, 14, 15)):
        if table.get(at) is not None and table.get(size) is not None:
            places.append((table[at], table[at] + table[size]))
    return places


def _are_shown(out: Leaves, where: str, data: bytes, facts: dict[int, Any], schema: dict[str, dict[int, Any]]) -> bool:
    """Show the numbers of a column without a result's name one by one, as experiments ask for them.

    How long packed ones are follows from what they are, so that nothing is known of these.
    """
    name = facts[3][-1].decode()
    code = _NUMBERS.get(facts[1])
    if code not in _FLOATING or len(facts[3]) != 1 or name not in schema or not 0 < facts[5] <= _SHOWN:
        return False
    if names_result(name) or schema[name].get(3) not in (_REQUIRED, _OPTIONAL):
        return False
    trial = Canonical(masks=out.masks, left=out.left)
    try:
        found = numbers_of(trial, data, Column(facts[4], facts[5], schema[name].get(3) == _OPTIONAL), code)
    except UnreadableError:
        return False
    finally:
        out.left = max(0, trial.left)
    for number, value in enumerate(found):
        out.add(f"{where}[{number}]", repr(value))
    return True


def _are_measured(
    out: Canonical, where: str, data: bytes, facts: dict[int, Any], schema: dict[str, dict[int, Any]]
) -> bool:
    """Leave out a column of measurements; False, and nothing is, for results, and where its values are not known."""
    name = facts[3][-1].decode()
    code, found = _NUMBERS.get(facts[1]), facts.get(12, {})
    if code is None or found.get(3) != 0 or len(facts[3]) != 1 or name not in schema:
        return False
    ends = [struct.unpack(code, found[key])[0] for key in (6, 5) if len(found.get(key, b"")) == struct.calcsize(code)]
    logical = schema[name].get(10, {})
    if len(ends) != 2 or not (_TIMESTAMP in logical or (not logical and schema[name].get(6) is None)):
        return False
    column = Numbers(name, data, ends[0], ends[1], dated=bool(logical))
    if isinstance(column.least, float) and may_be_measured(name):
        trial = Canonical(masks=out.masks, left=out.left)
        pages = Column(facts[4], facts[5], schema[name].get(3) == _OPTIONAL)
        unknown = schema[name].get(3) not in (_REQUIRED, _OPTIONAL) or may_have_nan(trial, data, pages, code)
        out.left = max(0, trial.left)
        if unknown:
            return False
    return leave_out_numbers(out, where, column)


class Numbers(NamedTuple):
    """A column of numbers that may be measurements.

    Attributes:
        name: of the column.
        data: its values as they are noted if they are left out.
        least, most: smallest and largest value.
        dated: it is one of moments by its type; ``spans``: of durations.
        unit: how many of them are a second since 1970; 0 if that follows from their size.
        every: all values, if they are known.
    """

    name: str
    data: bytes
    least: float
    most: float
    dated: bool = False
    spans: bool = False
    unit: int = 0
    every: Sequence[float] = ()


def may_be_measured(name: str) -> bool:
    """Whether a column may be one of measurements by its name."""
    return not names_result(name) and (values.names_moment(name) or kind_of(name) in _MEASURED)


def leave_out_numbers(out: Canonical, where: str, column: Numbers) -> bool:
    """Leave out a column of measurements by its name and values; False, and nothing is, for results."""
    name, ends = column.name, (column.least, column.most)
    if names_result(name) or not all(each >= 0 for each in ends):
        return False
    kind = kind_of(name)
    moments = [_seconds(column, each) for each in ends]
    # Numbers between two of the same scale are of it too.
    near = column.unit or column.most <= column.least * _NEAR
    if not column.spans and near and values.names_moment(name) and all(map(out.is_moment, moments)):
        _note_far(out, where, column, moments)
        during = all(map(out.is_during, moments))
        out.leave_out(where, column.data, "time", packed=True, moment=kind is None, during=during)
        return True
    if column.dated or name.lower() in _BARE or kind not in (("time",) if column.spans else _MEASURED):
        return False
    known = column.every or (*ends, *([_BETWEEN] if isinstance(column.least, float) else []))
    if kind == "memory" and not all(may_be_memory(name, each) for each in known):
        return False
    out.leave_out(where, column.data, str(kind), packed=True)
    return True


def _seconds(column: Numbers, number: float) -> float:
    return number / column.unit if column.unit else values.seconds_of(column.name, number)


def _note_far(out: Canonical, where: str, column: Numbers, ends: Sequence[float]) -> None:
    """Note moments that are none of the run: each one if they are few, else all of them by their digest."""
    if not any(map(out.masks.is_strange, ends)):
        return
    moments = [_seconds(column, each) for each in column.every[: _FAR + 1]]
    for moment in moments if 0 < len(moments) <= _FAR else ends:
        out.note_moment(where, moment_text(moment), moment)
    if not 0 < len(moments) <= _FAR:
        out.note_strange(where, f"moments of digest {hashlib.sha256(column.data).hexdigest()[:16]}")


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


class Copy(NamedTuple):
    """A part of a file that has all notes too, and what reads it as a schema without them, whatever their length."""

    data: bytes
    form: Callable[[bytes, Collection[Pair]], str] = form_of_message

    def without(self, left_out: Collection[Pair]) -> bytes:
        """Return it without notes; of a schema of an unknown form the bytes without longer values."""
        with suppress(UnreadableError):
            return self.form(self.data, left_out).encode() if left_out else self.data
        values = sorted((value for _, value in left_out if len(value) > _SHORT), key=len, reverse=True)
        if len(self.data) * len(values) > _SEARCHED:
            raise UnreadableError("too many notes in a schema that is too large")
        data = self.data
        for value in values:
            data = data.replace(value, b"\0left out")
        return data


def note_pairs(out: Canonical, path: str, pairs: Iterable[Pair], nested: Nested, copies: Iterable[Copy] = ()) -> None:
    """Count what a writer noted of a table, and copies of it but for what was left out.

    Args:
        out: what collects.
        path: of the file.
        pairs: keys and values; Parquet's writers keep Arrow's schema, with all pairs, once more in base64.
        nested: opens a value.
        copies: parts of the file that have all pairs too.
    """
    left_out: list[Pair] = []
    schemas = list(copies)
    for number, (key, value) in enumerate(pairs):
        if number >= _PAIRS:
            raise UnreadableError(f"more than {_PAIRS} notes")
        name = key.decode()
        if name == _SCHEMA:
            try:
                schemas.append(Copy(base64.b64decode(value, validate=True)))
            except (ValueError, binascii.Error):
                out.add(below(path, name), value)
            continue
        trial = Canonical(masks=out.masks, left=out.left)
        for collects in (trial, out):
            _note(collects, below(path, name), name, value, nested)
        if trial.result().left_out:
            left_out.append((key, value))
    for schema in schemas:
        out.add(f"{path} schema".strip(), schema.without(left_out))


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
