"""The lock of an LMDB environment: which processes and threads have it open.

The first process that opens an environment writes the file anew, whatever is in it. Source: mdb.c,
``mdb_env_setup_locks``; ``MDB_txninfo``, ``MDB_reader``.
"""

from __future__ import annotations

from envbuild.verification.content.canonical import Canonical, below

_MAGIC = bytes.fromhex("dec0efbe")
_HEAD, _READER = 128, 64
"""Bytes before the first reader, and of each."""
_FORMAT = 8
"""Bytes of magic number and version."""


def is_lock(data: bytes) -> bool:
    """Whether data begin with LMDB's magic number, and are as long as such a lock."""
    return data.startswith(_MAGIC) and len(data) > _HEAD and (len(data) - _HEAD) % _READER == 0


def read_lock(out: Canonical, path: str, data: bytes) -> None:
    """Count the version and for how many readers it is."""
    out.add(path, data[:_FORMAT])
    out.add(path, f"a lock of {len(data)} bytes")
    out.leave_out(below(path, "readers"), data[_FORMAT:], "identity")
