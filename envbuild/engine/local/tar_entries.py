"""The headers of a layer's tar: ustar, and PAX headers where ustar is too small, as envbuild's own writer makes them.

Formats: POSIX.1-1988, section 10.1.1; POSIX.1-2001, pax interchange format.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping
from functools import lru_cache

import msgspec

from envbuild.errors import BuildError

BLOCK = 512
FILE, LINK, SYMLINK, FIFO, FOLDER, PAX = b"0", b"1", b"2", b"6", b"5", b"x"
_LARGEST_HEADER = 1 << 24
_XATTR = "SCHILY.xattr."


class Entry(msgspec.Struct, kw_only=True):
    """An entry of a tar."""

    path: str
    kind: bytes
    mode: int
    user: int
    group: int
    size: int
    mtime: int
    target: str
    attributes: tuple[tuple[str, bytes], ...] = ()


def entries(headers: bytes) -> Iterator[tuple[Entry, int]]:
    """Yield the entries of a tar without the content of its files, and where each one's header ends."""
    place = 0
    pax: Mapping[bytes, bytes] = {}
    while True:
        head = headers[place : place + BLOCK]
        if len(head) < BLOCK:
            raise BuildError("a layer ends in the middle of an entry")
        if head[0] == 0:
            return
        size = checked_size(head)
        place += BLOCK
        if head[156:157] == PAX:
            pax = dict(records(headers[place : place + size]))
            place += -(-size // BLOCK) * BLOCK
            continue
        yield entry_of(head, pax), place
        pax = {}


def checked_size(head: bytes) -> int:
    """Return the size that a header states; raises ``BuildError`` for one that is damaged."""
    if _sum(head[:148]) + _sum(head[156:334]) + _sum(head[334:]) + 8 * 32 != octal(head[148:156]):
        raise BuildError("a layer has a header that is damaged")
    size = octal(head[124:136])
    if head[156:157] == PAX and not 0 < size <= _LARGEST_HEADER:
        raise BuildError("a layer has an extended header that is damaged")
    return size


def entry_of(head: bytes, pax: Mapping[bytes, bytes]) -> Entry:
    """Read a header whose sum is right, after the records before it."""
    kind = head[156:157]
    if kind not in b"01256" or len(kind) != 1:
        raise BuildError(f"a layer holds an entry of kind {kind!r}")
    prefix = _text(head[345:500])
    path = pax.get(b"path") or (prefix + b"/" if prefix else b"") + _text(head[:100])
    size = int(pax.get(b"size", octal(head[124:136])))
    if size < 0 or (size and kind != FILE):
        raise BuildError("a layer has a header that is damaged")
    return Entry(
        path=os.fsdecode(path).strip("/"),
        kind=kind,
        mode=octal(head[100:108]) & 0o7777,
        user=int(pax.get(b"uid", octal(head[108:116]))),
        group=int(pax.get(b"gid", octal(head[116:124]))),
        size=size,
        mtime=octal(head[136:148]),
        target=os.fsdecode(pax.get(b"linkpath") or _text(head[157:257])),
        attributes=_attributes(pax) if pax else (),
    )


def _attributes(pax: Mapping[bytes, bytes]) -> tuple[tuple[str, bytes], ...]:
    """Return the extended attributes among an entry's records."""
    return tuple((key.decode()[len(_XATTR) :], value) for key, value in pax.items() if key.startswith(_XATTR.encode()))


def records(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the records of a PAX header."""
    while data:
        length, _, rest = data.partition(b" ")
        if not length.isdigit() or not len(length) + 1 < int(length) <= len(data):
            raise BuildError("a layer has an extended header that is damaged")
        key, _, value = rest[: int(length) - len(length) - 2].partition(b"=")
        yield key, value
        data = data[int(length) :]


def _sum(piece: bytes) -> int:
    """Add the numbers of 256 bytes at most: the lower half of their Adler-32 less 1, modulo 65521 (RFC 1950, 8.2)."""
    return (zlib.adler32(piece) & 0xFFFF) - 1


@lru_cache(maxsize=1 << 12)  # modes, owners, times and sizes of small files repeat in a layer
def octal(field: bytes) -> int:
    """Read an octal number as headers have it; raises ``BuildError`` if it is none."""
    digits = _text(field).strip()
    if digits.strip(b"01234567"):
        raise BuildError("a layer has a header that is damaged")
    return int(digits or b"0", 8)


def _text(field: bytes) -> bytes:
    return field.partition(b"\0")[0]
