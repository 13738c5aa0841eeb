"""The manifest of an input: one record per entry, in the order of a walk. Its BLAKE3 is the input's digest.

A manifest is the line ``envbuild inputs 1`` and then records of four fields, each ended by a NUL::

    file  <path>  <bytes>  <BLAKE3 of the content, hexadecimal>
    link  <path>  <empty>  <target, as stored in the link>
    dir   <path>  <empty>  <empty>

Paths are relative to the input (empty for the input itself) and their bytes are as the file system has them. Records
are sorted by path, byte by byte, ``/`` before all other bytes: a folder's content follows it directly, so that a
walk writes, and a comparison of two manifests reads, one record at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from tempfile import SpooledTemporaryFile
from typing import IO, NamedTuple

from blake3 import blake3

HEADER = b"envbuild inputs 1\n"
FILE, LINK, DIR = b"file", b"link", b"dir"
PENDING = b"?" * 64
"""Represents a content digest in a draft."""

_CHUNK = 1 << 20
_SIZE = re.compile(rb"[0-9]{1,19}")
_IN_MEMORY = 64 << 20


class ManifestError(ValueError):
    """Bytes are no manifest."""


class Entry(NamedTuple):
    """One record; ``size`` in bytes is 0 for all but files, ``value`` the digest of a file or the target of a link."""

    kind: bytes
    path: bytes
    size: int
    value: bytes

    def encoded(self) -> bytes:
        """Return the record."""
        size = b"%d" % self.size if self.kind == FILE else b""
        return b"%b\0%b\0%b\0%b\0" % (self.kind, self.path, size, self.value)


def order(path: bytes) -> bytes:
    """Return what paths are sorted by: no name holds a NUL, so that as a separator it comes before all else."""
    return path.replace(b"/", b"\0")


def entries(stream: IO[bytes]) -> Iterator[Entry]:
    """Read a manifest record by record, in constant memory.

    Raises:
        ManifestError: another header, half a record, an unknown kind, records out of order.
    """
    if stream.read(len(HEADER)) != HEADER:
        raise ManifestError("not a manifest of this format")
    left, before = b"", None
    while chunk := stream.read(_CHUNK):
        fields = (left + chunk).split(b"\0")
        whole = (len(fields) - 1) // 4 * 4
        left = b"\0".join(fields[whole:])
        each = iter(fields[:whole])
        for kind, path, size, value in zip(each, each, each, each, strict=True):
            place = order(path)
            sized = _SIZE.fullmatch(size) if kind == FILE else not size
            if kind not in (FILE, LINK, DIR) or not sized or (before and place <= before):
                raise ManifestError(f"not a record of a manifest: {kind!r} {path!r}")
            before = place
            yield Entry(kind, path, int(size or 0), value)
    if left:
        raise ManifestError("the last record is not whole")


class Draft:
    """A manifest being written, in memory while it is small.

    Attributes:
        files: files and links so far.
        size: bytes of all files so far.
        pending, pending_size: how many files have no digest yet, and their bytes.
    """

    def __init__(self) -> None:
        self.stream: IO[bytes] = SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - closed by close()
        self.files = self.size = self.pending = self.pending_size = 0
        self._hasher = blake3()
        self.write(HEADER)

    def write(self, records: bytes) -> None:
        """Append encoded records; the caller counts what is in them."""
        self.stream.write(records)
        self._hasher.update(records)

    @property
    def digest(self) -> str:
        """BLAKE3 of what was written."""
        return self._hasher.hexdigest()

    def rewound(self) -> IO[bytes]:
        """Return the stream at its beginning."""
        self.stream.seek(0)
        return self.stream

    def close(self) -> None:
        """Free memory and disk."""
        self.stream.close()
