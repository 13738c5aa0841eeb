"""Hash files of Berkeley DB, which ``dbm`` and ``shelve`` write where Debian's Python has no other library: by pairs.

A file's own number, made of the time and the inode, and what is left in free space are no content, nor is the order
of pairs, which follows from their keys. Source: db_page.h and hash.h of Berkeley DB 5.3.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from envbuild.verification.content.canonical import Canonical, UnreadableError, below

Nested = Callable[[Canonical, str, bytes], None]
"""Opens what is in a value."""
_MAGIC = struct.pack("<I", 0x061561)
_META, _UNSORTED, _SORTED, _OVERFLOW = 8, 2, 13, 7
_PAIR, _OFF_PAGE = 1, 3
_HEAD = 26
"""Bytes before what is on a page."""


def is_hash_file(data: bytes) -> bool:
    """Whether data begin like a hash file, as this machine's byte order has it."""
    return data[12:16] == _MAGIC and data[25:26] == bytes((_META,))


def read_hash_file(out: Canonical, path: str, data: bytes, nested: Nested) -> None:
    """Read all pairs; raises ``UnreadableError`` if the file is damaged, encrypted, or keeps duplicates."""
    try:
        pairs = sorted(_pairs(out, data))
    except struct.error:
        raise UnreadableError("a hash file that ends too early") from None
    if len({key for key, _ in pairs}) != len(pairs):
        raise UnreadableError("a hash file that has a key twice")
    for key, value in pairs:
        out.add(path, key)
        nested(out, below(path, f"[{key[:40]!r}]", ""), value)


def _pairs(out: Canonical, data: bytes) -> Iterator[tuple[bytes, bytes]]:
    (size,) = struct.unpack_from("<I", data, 20)
    if data[24] or size not in {1 << bits for bits in range(9, 17)} or len(data) % size:
        raise UnreadableError("a hash file that is encrypted, or of pages of another size")
    pages = [data[at : at + size] for at in range(0, len(data), size)]
    for page in pages[1:]:
        if page[25] not in (_UNSORTED, _SORTED):
            continue
        (entries,) = struct.unpack_from("<H", page, 20)
        places = struct.unpack_from(f"<{entries}H", page, _HEAD)
        ends = (size, *places)
        if entries % 2 or any(not _HEAD + 2 * entries <= at < end for at, end in zip(places, ends, strict=False)):
            raise UnreadableError("a damaged page")
        items = [page[at:end] for at, end in zip(places, ends, strict=False)]
        for key, value in zip(items[::2], items[1::2], strict=True):
            yield _item(out, pages, key), _item(out, pages, value)


def _item(out: Canonical, pages: list[bytes], item: bytes) -> bytes:
    """Return a key or a value; long ones are on pages of their own."""
    if item[0] == _PAIR:
        out.spend(len(item))
        return item[1:]
    if item[0] != _OFF_PAGE:
        raise UnreadableError("duplicates of a key")
    number, total = struct.unpack_from("<II", item, 4)
    found: list[bytes] = []
    while number:
        if number >= len(pages) or pages[number][25] != _OVERFLOW or len(found) > len(pages):
            raise UnreadableError("a value on a page that is none of its")
        page = pages[number]
        (length,) = struct.unpack_from("<H", page, 22)
        out.spend(length + 1)
        found.append(page[_HEAD : _HEAD + length])
        (number,) = struct.unpack_from("<I", page, 16)
    value = b"".join(found)
    if len(value) != total:
        raise UnreadableError("a value of another size")
    return value
