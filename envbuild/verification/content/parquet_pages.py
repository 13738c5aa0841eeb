"""Texts in a column of a Parquet file, row by row, from its pages; and whether its numbers have one that is none.

Read are plain pages and those with a dictionary, uncompressed or in Snappy, gzip or Zstandard, of columns that are in
no list. Statistics do not count, they follow from the values; nor do sizes and checksums.

Sources: parquet.thrift, Encodings.md of apache/parquet-format.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from envbuild.verification.content.archives import unpack
from envbuild.verification.content.canonical import Canonical, TooMuchError, UnreadableError
from envbuild.verification.content.snappy import unpack_snappy
from envbuild.verification.content.thrift import Thrift

_ROWS = 100_000
"""Texts that are compared one by one."""
_PLAIN, _BY_NUMBER, _RUNS = 0, (2, 8), 3
_DATA, _DICTIONARY, _NEW_DATA = 0, 2, 3
"""Kinds of pages."""
_WIDEST, _SHIFT = 32, 28
"""Bits of a number of a text, and of how many such follow, but for its last seven."""
_SNAPPY, _PACKED = 1, {2: "gz", 6: "zst"}


@dataclass(frozen=True, slots=True)
class Column:
    """What a footer has about a column: how its pages are compressed, how many values it has, whether some are none."""

    codec: int
    count: int
    optional: bool


@dataclass(frozen=True, slots=True)
class Texts:
    """What is in a column: all but its texts, which are another form of the same pages if it differs, and these."""

    form: str
    texts: list[str]


def texts_of(out: Canonical, data: bytes, column: Column) -> Texts:
    """Read the pages of a column; raises ``UnreadableError`` if they are damaged or of another kind.

    Args:
        out: counts what is unpacked.
        data: all pages.
        column: what the footer has about them.
    """
    if not 0 <= column.count <= _ROWS:
        raise TooMuchError("more texts than are compared one by one")
    try:
        return _texts_of(out, data, column)
    except (struct.error, KeyError, TypeError, IndexError, ValueError) as error:
        raise UnreadableError(f"damaged pages: {error}") from None


def may_have_nan(out: Canonical, data: bytes, column: Column, code: str) -> bool:
    """Whether a column of floating-point numbers may have one that is no number, which statistics do not show.

    Args:
        out: counts what is unpacked.
        data: all pages.
        column: what the footer has about them; none of its values is missing.
        code: how ``struct`` reads a number.
    """
    try:
        return _may_have_nan(out, data, column, code)
    except (struct.error, KeyError, TypeError, IndexError, ValueError, UnreadableError):
        return True


def numbers_of(out: Canonical, data: bytes, column: Column, code: str) -> list[float]:
    """Read the numbers of a column row by row; raises ``UnreadableError`` if one is missing, or pages are damaged.

    Args:
        out: counts what is unpacked.
        data: all pages.
        column: what the footer has about them.
        code: how ``struct`` reads a number.
    """
    try:
        return _numbers_of(out, data, column, code)
    except (struct.error, KeyError, TypeError, IndexError, ValueError) as error:
        raise UnreadableError(f"damaged pages: {error}") from None


def _numbers_of(out: Canonical, data: bytes, column: Column, code: str) -> list[float]:
    known: list[float] = []
    found: list[float] = []
    cursor = Thrift(data)
    while cursor.at < len(data):
        head = cursor.structure()
        body = cursor.take(head[3])
        if head[1] == _DICTIONARY:
            if known or head[7][2] not in (_PLAIN, _BY_NUMBER[0]):
                raise UnreadableError("two dictionaries, or one of another kind")
            known = [number for (number,) in struct.iter_unpack(code, _unpacked(out, body, column.codec))]
            continue
        levels, values, facts = _parts(out, head, body, column)
        if not all(levels):
            raise UnreadableError("a number is missing")
        if facts[0] == _PLAIN:
            found += (number for (number,) in struct.iter_unpack(code, values))
        elif facts[0] in _BY_NUMBER:
            places = [*_numbers(values[1:], values[0], len(levels))] if levels else []
            found += (known[place] for place in places[: len(levels)])
        else:
            raise UnreadableError("values in another form")
    if len(found) != column.count:
        raise UnreadableError("more or fewer values than the column has")
    return found


def _may_have_nan(out: Canonical, data: bytes, column: Column, code: str) -> bool:
    cursor = Thrift(data)
    while cursor.at < len(data):
        head = cursor.structure()
        body = cursor.take(head[3])
        if head[1] == _DICTIONARY:
            facts, values, encoding = head[7], _unpacked(out, body, column.codec), _PLAIN
            if facts[2] not in (_PLAIN, _BY_NUMBER[0]):
                return True
        elif head[1] == _DATA:
            facts, values = head[5], _unpacked(out, body, column.codec)
            encoding = facts[2]
            if column.optional:
                if facts[3] != _RUNS:
                    return True
                values = values[4 + struct.unpack_from("<I", values)[0] :]
        elif head[1] == _NEW_DATA:
            facts = head[8]
            encoding, values = facts[4], body[facts[5] + facts[6] :]
            values = values if facts.get(7) is False else _unpacked(out, values, column.codec)
        else:
            return True
        # Numbers of the dictionary's are none themselves; what is in another form is not known.
        if encoding == _PLAIN and any(number != number for (number,) in struct.iter_unpack(code, values)):
            return True
        if encoding not in (_PLAIN, *_BY_NUMBER):
            return True
    return False


def _texts_of(out: Canonical, data: bytes, column: Column) -> Texts:
    form: list[Any] = []
    known: list[str] = []
    used: dict[int, None] = {}
    texts: list[str] = []
    left, cursor = column.count, Thrift(data)
    while cursor.at < len(data):
        head = cursor.structure()
        body = cursor.take(head[3])
        if head[1] == _DICTIONARY:
            facts = head[7]
            if known or facts[2] not in (_PLAIN, _BY_NUMBER[0]):
                raise UnreadableError("two dictionaries, or one of another kind")
            known = _plain(_unpacked(out, body, column.codec))
            if len({*known}) < len(known):
                raise UnreadableError("a text that is in the dictionary twice")
            form.append([facts[2], facts.get(3)])
            continue
        levels, values, facts = _parts(out, head, body, column)
        encoding, present, left = facts[0], sum(levels), left - len(levels)
        if left < 0:
            raise UnreadableError("more values than the column has")
        form.append([head[1], facts, _runs_of(levels)])
        if encoding == _PLAIN:
            found = _plain(values)
        elif encoding in _BY_NUMBER:
            numbers = [*_numbers(values[1:], values[0], present)] if present else []
            form.append(numbers[present:])
            used |= dict.fromkeys(numbers[:present])
            found = [known[number] for number in numbers[:present]]
        else:
            raise UnreadableError("values in another form")
        if len(found) != present:
            raise UnreadableError("more or fewer values than there should be")
        texts += found
    if left:
        raise UnreadableError("fewer values than the column has")
    # As writers fill it, there is no more in a dictionary than texts in the order in which they come.
    form.append([] if [*used] == [*range(len(known))] else [[*used], known])
    return Texts(repr(form), texts)


def _parts(out: Canonical, head: dict[int, Any], body: bytes, column: Column) -> tuple[list[int], bytes, list[Any]]:
    """Return which values of a page are there, their bytes, and what else counts of its head."""
    if head[1] == _DATA:
        facts = head[5]
        body = _unpacked(out, body, column.codec)
        count, encoding = facts[1], facts[2]
        if not column.optional:
            return [1] * _few(count), body, [encoding, count]
        (size,) = struct.unpack_from("<I", body)
        levels = [*_numbers(body[4 : 4 + size], 1, _few(count))]
        return _of_rows(levels, count), body[4 + size :], [encoding, count, facts[3], levels[count:]]
    if head[1] == _NEW_DATA:
        facts = head[8]
        count, encoding, size = facts[1], facts[4], facts[5]
        if facts[6] or size > len(body):
            raise UnreadableError("values in lists, or levels beyond the end")
        levels = [*_numbers(body[:size], 1, _few(count))] if column.optional else [1] * _few(count)
        values = body[size:] if facts.get(7) is False else _unpacked(out, body[size:], column.codec)
        return _of_rows(levels, count), values, [encoding, count, facts[2], facts[3], facts.get(7), levels[count:]]
    raise UnreadableError("a page of another kind")


def _few(count: int) -> int:
    if not 0 <= count <= _ROWS:
        raise TooMuchError("more texts than are compared one by one")
    return count


def _of_rows(levels: list[int], count: int) -> list[int]:
    if len(levels) < count:
        raise UnreadableError("fewer levels than values")
    return levels[:count]


def _runs_of(levels: list[int]) -> str:
    """Return levels in few letters: rows without a text."""
    return repr([number for number, level in enumerate(levels) if not level])


def _unpacked(out: Canonical, data: bytes, codec: int) -> bytes:
    if not codec:
        return data
    if codec == _SNAPPY:
        return unpack_snappy(out, data)
    if codec not in _PACKED:
        raise UnreadableError("compressed in another way")
    return unpack(out, data, _PACKED[codec])


def _plain(data: bytes) -> list[str]:
    """Return texts that follow each other, each behind its size."""
    found: list[str] = []
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        text = data[at + 4 : at + 4 + size]
        if len(text) != size or len(found) >= _ROWS:
            raise UnreadableError("a text beyond the end, or too many")
        found.append(text.decode())
        at += 4 + size
    return found


def _numbers(data: bytes, width: int, count: int) -> Iterator[int]:
    """Yield numbers of so many bits, in runs of equal ones and in groups of eight; those of the last group, too.

    Raises ``UnreadableError`` if there are fewer than ``count``, or something is behind them.
    """
    at, found, size = 0, 0, (width + 7) // 8
    if width > _WIDEST:
        raise UnreadableError("numbers of too many digits")
    while found < count:
        head = shift = 0
        while True:
            head |= (data[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if data[at - 1] < 128:
                break
            if shift > _SHIFT:
                raise UnreadableError("a number of too many digits")
        if head & 1:
            groups = head >> 1
            packed = data[at : at + groups * width]
            if len(packed) != groups * width or found + groups * 8 > count + 7:
                raise UnreadableError("numbers beyond the end")
            for group in range(groups):
                bits = int.from_bytes(packed[group * width : (group + 1) * width], "little")
                yield from (bits >> width * number & (1 << width) - 1 for number in range(8))
            at, found = at + groups * width, found + groups * 8
        else:
            run = head >> 1
            if not run or found + run > count:
                raise UnreadableError("numbers beyond the end")
            number = int.from_bytes(data[at : at + size], "little")
            if number >> width:
                raise UnreadableError("a number that is too large")
            yield from [number] * run
            at, found = at + size, found + run
    if at != len(data):
        raise UnreadableError("something behind the numbers")
