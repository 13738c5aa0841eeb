"""DuckDB's databases: all of their bytes but the identity that was drawn when the file was made.

Tables are not read, since each column may be compressed in another way: a time in one counts by its bytes.
Source: duckdb/src/storage/single_file_block_manager.cpp and src/common/checksum.cpp.
"""

from __future__ import annotations

import struct

from envbuild.verification.content.canonical import Canonical, below

_HEADER = 4096
"""Bytes of the first header; two others follow, then blocks."""
_CHECKSUM, _MAGIC = slice(0, 8), slice(8, 12)
_FLAGS = slice(20, 28)
"""The first of four numbers; it has whether the file is encrypted."""
_IDENTITY = slice(124, 140)
_START, _FACTOR, _MASK = 5381, 0xBF58476D1CE4E5B9, (1 << 64) - 1


def is_database(data: bytes) -> bool:
    """Whether data begin with a header of DuckDB's with a right checksum, and an identity; without one all bytes count.

    The checksum is of the identity too, so that both are left out; a wrong one would be a difference of its own.
    """
    if data[_MAGIC] != b"DUCK" or len(data) < 3 * _HEADER or any(data[_FLAGS]) or not any(data[_IDENTITY]):
        return False
    return _checksum(data[_CHECKSUM.stop : _HEADER]) == int.from_bytes(data[_CHECKSUM], "little")


def read_database(out: Canonical, path: str, data: bytes) -> None:
    """Count all but the identity."""
    out.add(below(path, "header"), data[_MAGIC.start : _IDENTITY.start])
    out.leave_out(below(path, "header.db_identifier"), data[_IDENTITY], "identity")
    out.add(below(path, "header, after the identity", ", "), data[_IDENTITY.stop : _HEADER])
    out.add(below(path, "blocks"), data[_HEADER:])


def _checksum(data: bytes) -> int:
    total = _START
    for (word,) in struct.iter_unpack("<Q", data):
        total ^= word * _FACTOR & _MASK
    return total
