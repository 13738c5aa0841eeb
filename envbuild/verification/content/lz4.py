"""LZ4 frames, as ``lz4.frame`` and joblib write them; read in Python, so within a smaller limit than other formats.

Source: LZ4 Frame Format 1.6.4 and LZ4 Block Format, in the repository lz4/lz4. Checksums are not checked: they depend
on the content, which is compared.
"""

from __future__ import annotations

import struct

from envbuild.verification.content.canonical import Canonical, TooMuchError, UnreadableError

MAGIC = b"\x04\x22\x4d\x18"
_LARGEST = 32 << 20
"""Bytes that are unpacked: some seconds of a CPU."""
_VERSION, _BLOCK_SUM, _SIZE, _SUM, _DICTIONARY = 0xC0, 0x10, 0x08, 0x04, 0x01


def unpack_lz4(out: Canonical, data: bytes) -> bytes:
    """Return what all frames hold; raises ``UnreadableError`` if they are damaged or hold more than may be."""
    found, at = bytearray(), 0
    try:
        while at < len(data):
            at = _frame(out, data, at, found)
    except (IndexError, struct.error):
        raise UnreadableError("compressed data that end too early") from None
    return bytes(found)


def _frame(out: Canonical, data: bytes, at: int, found: bytearray) -> int:
    """Unpack the frame at a place and return where it ends."""
    if data[at : at + 4] != MAGIC:
        raise UnreadableError("something behind the end of compressed data")
    flags = data[at + 4]
    if flags & _VERSION != 0x40 or flags & _DICTIONARY:
        raise UnreadableError("a frame of another version, or with a dictionary")
    at += 7 + (8 if flags & _SIZE else 0)
    start = len(found)
    while True:
        (size,) = struct.unpack_from("<I", data, at)
        at += 4
        if not size:
            return at + (4 if flags & _SUM else 0)
        block = data[at : at + (size & 0x7FFFFFFF)]
        if len(block) != size & 0x7FFFFFFF:
            raise UnreadableError("compressed data that end too early")
        before = len(found)
        if size >> 31:
            found += block
        else:
            _block(block, found, start)
        out.spend(len(found) - before)
        at += len(block) + (4 if flags & _BLOCK_SUM else 0)


def _block(data: bytes, found: bytearray, start: int) -> None:
    """Unpack one block; ``start`` is where its frame begins, before which nothing is repeated."""
    at = 0
    while True:
        token = data[at]
        at += 1
        count, at = _count(data, at, token >> 4)
        if at + count > len(data) or len(found) + count > _LARGEST:
            raise TooMuchError("more bytes unpacked than may be, or literals beyond the end")
        found += data[at : at + count]
        at += count
        if at == len(data):
            return
        (back,) = struct.unpack_from("<H", data, at)
        count, at = _count(data, at + 2, token & 15)
        count += 4
        if not back or back > len(found) - start or len(found) + count > _LARGEST:
            raise TooMuchError("more bytes unpacked than may be, or a match before the beginning")
        piece = found[-back:] if back <= count else found[-back : count - back or None]
        found += (piece * (count // len(piece) + 1))[:count]


def _count(data: bytes, at: int, count: int) -> tuple[int, int]:
    """Return a count that may go on in further bytes, and where these end."""
    if count == 15:
        while True:
            more = data[at]
            at += 1
            count += more
            if more != 255:
                break
    return count, at
