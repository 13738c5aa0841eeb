"""Blocks of Snappy, as Parquet has them; read in Python, so within a smaller limit than other formats.

Source: format_description.txt in the repository google/snappy.
"""

from __future__ import annotations

from envbuild.verification.content.canonical import Canonical, TooMuchError, UnreadableError

_LARGEST = 16 << 20
"""Bytes that are unpacked: some seconds of a CPU."""
_LITERAL, _SHORT = 0, 1
"""Kinds of elements; the others are copies with offsets of two and of four bytes."""


def unpack_snappy(out: Canonical, data: bytes) -> bytes:
    """Return what a block holds; raises ``UnreadableError`` if it is damaged or holds more than may be."""
    try:
        size, at = _size(data)
        if size > _LARGEST:
            raise TooMuchError("more bytes unpacked than may be")
        out.spend(size)
        found = bytearray()
        while at < len(data):
            at = _element(data, at, found, size)
    except IndexError:
        raise UnreadableError("compressed data that end too early") from None
    if len(found) != size:
        raise UnreadableError("compressed data of another size")
    return bytes(found)


def _size(data: bytes) -> tuple[int, int]:
    size = shift = at = 0
    while True:
        size |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return size, at
        if shift > 28:
            raise UnreadableError("a size of too many digits")


def _element(data: bytes, at: int, found: bytearray, size: int) -> int:
    """Unpack the literal or the copy at a place and return where it ends."""
    tag = data[at]
    kind, at = tag & 3, at + 1
    if kind == _LITERAL:
        count = tag >> 2
        if count >= 60:
            width = count - 59
            count = int.from_bytes(data[at : at + width], "little")
            at += width
        count += 1
        if at + count > len(data) or len(found) + count > size:
            raise UnreadableError("literals beyond the end")
        found += data[at : at + count]
        return at + count
    if kind == _SHORT:
        count, back, at = 4 + (tag >> 2 & 7), (tag >> 5) << 8 | data[at], at + 1
    else:
        width = 2 if kind == 2 else 4
        if at + width > len(data):
            raise UnreadableError("compressed data that end too early")
        count, back, at = 1 + (tag >> 2), int.from_bytes(data[at : at + width], "little"), at + width
    if not 0 < back <= len(found) or len(found) + count > size:
        raise UnreadableError("a copy from before the beginning, or beyond the end")
    start = len(found) - back
    piece = bytes(found[start : start + count])  # as much as is copied: millions of copies may be of far back
    found += (piece * (count // len(piece) + 1))[:count]
    return at
