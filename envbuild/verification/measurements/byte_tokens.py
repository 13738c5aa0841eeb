"""Data of unknown formats: places that may follow a clock, as numbers of any kind and as printable text."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from fractions import Fraction

from envbuild.verification.measurements.clockwork import Number, Span, When, kind_of_numbers
from envbuild.verification.measurements.labels import name_in_bytes, names_time
from envbuild.verification.measurements.tokens import NAME, SURE, Piece, of_texts

_WINDOW = 8
_TRIALS = 64
"""Ways to read eight bytes: where a number begins, and of which type it is."""
_FORMATS = ("<d", ">d", "<f", ">f", "<q", ">q", "<i", ">i", "<I", ">I")
_MOST = 1 << 16
"""Bytes that may differ in a file of unknown format."""
_FOUND = 2000
"""Pieces of them."""


def of_bytes(found: Sequence[tuple[When, bytes]], *, named: bool = False) -> list[Piece] | None:
    """Return what follows the clock in data of unknown format; None if any byte that differs does not.

    Numbers of all usual types at any place are looked for, and printable text.

    Args:
        found: data with the clock of each run.
        named: they are known to be times by their name.
    """
    if len({len(data) for _, data in found}) > 1:
        return None
    places = _differing([data for _, data in found])
    if places is None:
        return None
    pieces: list[Piece] = []
    done = 0
    for place in places:
        if place < done:
            continue
        piece = _text_at(found, place, done) or _number_at(found, place, done, named=named)
        if piece is None or len(pieces) >= _FOUND:
            return None
        pieces.append(piece[0])
        done = piece[1]
    return pieces


def _differing(data: Sequence[bytes]) -> list[int] | None:
    """Return the places of bytes that are not equal in all; None if there are too many."""
    first, places = data[0], set[int]()
    step = 1 << 12
    for other in data[1:]:
        for start in range(0, len(first), step):
            one, two = first[start : start + step], other[start : start + step]
            if one != two:
                places.update(start + at for at, (x, y) in enumerate(zip(one, two, strict=True)) if x != y)
                if len(places) > _MOST:
                    return None
    return sorted(places)


def _text_at(found: Sequence[tuple[When, bytes]], place: int, done: int) -> tuple[Piece, int] | None:
    """Read the printable text around a place."""
    for wide in (1, 4):
        begins = [_run(data, place, -1, wide, done) for _, data in found]
        ends = [_run(data, place, 1, wide, done) for _, data in found]
        begin, end = max(begins), min(ends)
        if end - begin < 4 * wide or begin > place or end <= place:
            continue
        texts = [(when, data[begin:end:wide].decode("ascii", "replace")) for when, data in found]
        pieces = of_texts(texts)
        if pieces:
            return Piece(where=f"byte {begin}", kind=pieces[0].kind), end
    return None


def _run(data: bytes, place: int, step: int, wide: int, done: int) -> int:
    """Return how far printable characters go from a place; ``wide``: bytes of each, the lowest first."""
    at = place - place % wide
    if step < 0:
        while at - wide >= done and place - at < 4096 and _printable(data, at - wide, wide):
            at -= wide
        return at
    while at + wide <= len(data) and at - place < 4096 and _printable(data, at, wide):
        at += wide
    return at


def _printable(data: bytes, at: int, wide: int) -> bool:
    return 32 <= data[at] < 127 and not any(data[at + 1 : at + wide])


def _number_at(found: Sequence[tuple[When, bytes]], place: int, done: int, *, named: bool) -> tuple[Piece, int] | None:
    """Read a number that a place is part of, the one that begins at a multiple of its size first."""
    for begin in sorted(range(max(done, place - _WINDOW + 1), place + 1), key=lambda at: (at % 8 != 0, at % 4 != 0)):
        for form in _FORMATS:
            size = struct.calcsize(form)
            if begin + size <= place or begin + size > len(found[0][1]):
                continue
            values = list(_numbers(found, begin, form))
            if len(values) < len(found):
                continue
            kind = kind_of_numbers(values, _TRIALS)
            if kind is None or (form[1] in "qiI" and kind == "rate"):
                continue
            if named or kind in SURE or names_time(name_in_bytes(found[0][1][max(0, begin - NAME) : begin])):
                return Piece(where=f"byte {begin}", kind=kind), begin + size
        if begin + 8 > place and begin + 8 <= len(found[0][1]) and _are_stamps(found, begin):
            return Piece(where=f"byte {begin}", kind="date"), begin + 8
    return None


def _are_stamps(found: Sequence[tuple[When, bytes]], begin: int) -> bool:
    """Whether there are times as msgpack has them, which follow the clock."""
    stamps = [(when, number) for when, data in found if (number := _stamp(data[begin : begin + 8])) is not None]
    return len(stamps) == len(found) and kind_of_numbers(stamps, _TRIALS) == "date"


def _numbers(found: Sequence[tuple[When, bytes]], begin: int, form: str) -> Iterator[tuple[When, Number]]:
    for when, data in found:
        (value,) = struct.unpack_from(form, data, begin)
        if isinstance(value, float):
            none = value == 0 and isinstance(when, Span)  # less than the real clock shows
            if not none and not 1e-12 < abs(value) < 1e21:
                return
            exact = Fraction(value)
            yield when, Number(exact, abs(exact) / 2**24 if form[1] == "f" else Fraction(0))
        else:
            yield when, Number(Fraction(value), Fraction(1), whole=True)


def _stamp(data: bytes) -> Number | None:
    """Return a time as msgpack has it: nanoseconds in the upper 30 bits, seconds in the others."""
    number = int.from_bytes(data, "big")
    nanoseconds = number >> 34
    if nanoseconds >= 10**9:
        return None
    return Number(Fraction(number & ((1 << 34) - 1)) + Fraction(nanoseconds, 10**9), Fraction(1, 10**6))
