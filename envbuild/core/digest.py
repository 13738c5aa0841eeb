"""SHA-256 digests: the only names envbuild trusts for bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from envbuild.core import quick_json
from envbuild.core.patterns import lazy
from envbuild.runtime.digest import sha256

SHA256 = lazy(r"[0-9a-f]{64}")
_CHUNK = 1 << 20
_SMALL = 1 << 16
"""Bytes that are hashed without ``hashlib``: to load OpenSSL takes longer, 2 ms of each short command."""


class Readable(Protocol):
    """A binary file, best an unbuffered one."""

    def readinto(self, buffer: bytearray | memoryview, /) -> int | None:
        """Fill a buffer from its start; returns the number of bytes, 0 at the end."""


def sha256_bytes(data: bytes) -> str:
    """Return the lower-case hexadecimal SHA-256 of ``data``."""
    if len(data) <= _SMALL:
        return sha256(data)
    import hashlib

    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> str:
    """Return the lower-case hexadecimal SHA-256 of a file's bytes; raises ``OSError``."""
    with path.open("rb", buffering=0) as stream:
        return sha256_stream(stream)


def sha256_stream(stream: Readable, advance: Callable[[int], None] = lambda amount: None) -> str:
    """Return the SHA-256 of what a file has from here on; raises ``OSError``."""
    small = bytearray(_SMALL)
    filled = 0
    while filled < _SMALL and (count := stream.readinto(memoryview(small)[filled:])):
        filled += count
        advance(count)
    if filled < _SMALL:
        return sha256(bytes(small[:filled]))
    import hashlib

    digest, buffer = hashlib.sha256(small), bytearray(_CHUNK)
    view = memoryview(buffer)
    while count := stream.readinto(buffer):
        digest.update(view[:count])
        advance(count)
    return digest.hexdigest()


def sha256_json(value: Any) -> str:
    """Return the SHA-256 of a JSON value in canonical form: sorted keys, no spaces, UTF-8."""
    return sha256_bytes(canonical_json(value))


def canonical_json(value: Any) -> bytes:
    """Encode a JSON value so that equal values give equal bytes."""
    return quick_json.dumps(value, canonical=True).encode()
