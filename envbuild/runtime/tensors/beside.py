"""What is in a zip archive beside its members' contents: ``zipfile`` passes over it."""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_DESCRIBED_BEHIND = 0x08
"""Of a member's flags: its sizes are behind it."""
_OF_WRITING = (0x0001, 0x000A, 0x000D, 0x5455, 0x5855, 0x7855, 0x7875)
"""Extra fields with sizes in 64 bits, and with the times and owners that NTFS and Unix have: APPNOTE.TXT 4.5."""
_PADDING = 0x4246
"""With which PyTorch places what is stored at multiples of 64 bytes: caffe2/serialize/inline_container.cc."""


def beside_members(data: Any, archive: Any) -> Iterator[bytes]:
    """Yield comments, extra fields, and bytes between members and behind the end, in the order of the file.

    Left out is what tells how, when and by whom the archive was written.

    Args:
        data: bytes of the archive, or a buffer of them.
        archive: the same as ``zipfile.ZipFile``.

    Raises:
        ValueError: its directory ends otherwise than an archive's does.
    """
    at = 0
    for member in sorted(archive.infolist(), key=_place):
        start = member.header_offset
        if start > at:
            yield bytes(data[at:start])
        names, fields = struct.unpack_from("<HH", data, start + 26)
        at = start + 30 + names + fields
        if kept := member.comment + _kept(bytes(data[at - fields : at])) + _kept(member.extra):
            yield kept
        at += member.compress_size
        if member.flag_bits & _DESCRIBED_BEHIND:
            at += _described(data, at, member)
    if archive.start_dir > at:
        yield bytes(data[at : archive.start_dir])
    yield from _behind(data, archive)


def _place(member: Any) -> int:
    return int(member.header_offset)


def _behind(data: Any, archive: Any) -> Iterator[bytes]:
    """Yield the archive's comment and what is behind it."""
    at = archive.start_dir
    while data[at : at + 4] == b"PK\x01\x02":
        at += 46 + sum(struct.unpack_from("<HHH", data, at + 28))
    if data[at : at + 4] == b"PK\x06\x06":  # the same sizes and places in 64 bits, and where that is
        at += 12 + int.from_bytes(data[at + 4 : at + 12], "little") + 20
    if data[at : at + 4] != b"PK\x05\x06":
        raise ValueError("a directory that ends otherwise")
    at += 22 + len(archive.comment)
    if archive.comment or at < len(data):
        yield archive.comment + bytes(data[at:])


def _described(data: Any, at: int, member: Any) -> int:
    """Return the size of what is behind a member of which the size was not known before."""
    for mark in (b"PK\x07\x08", b""):
        for sizes in ("<LLL", "<LQQ"):
            try:
                found = mark + struct.pack(sizes, member.CRC, member.compress_size, member.file_size)
            except struct.error:
                continue
            if data[at : at + len(found)] == found:
                return len(found)
    return 0


def _kept(fields: bytes) -> bytes:
    """Return the extra fields of a member but for those of its writing."""
    kept, at = b"", 0
    while at + 4 <= len(fields):
        kind, size = struct.unpack_from("<HH", fields, at)
        body = fields[at + 4 : at + 4 + size]
        padding = kind == _PADDING and len({*body}) < 2
        if kind not in _OF_WRITING and not padding:
            kept += fields[at : at + 4] + body
        at += 4 + size
    return kept + fields[at:]
