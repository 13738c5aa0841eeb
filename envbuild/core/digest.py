"""SHA-256 digests: the only names envbuild trusts for bytes."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

SHA256 = re.compile(r"[0-9a-f]{64}")
_CHUNK = 1 << 20


class Readable(Protocol):
    """A binary file, best an unbuffered one."""

    def readinto(self, buffer: bytearray, /) -> int | None:
        """Fill a buffer from its start; returns the number of bytes, 0 at the end."""


def sha256_bytes(data: bytes) -> str:
    """Return the lower-case hexadecimal SHA-256 of ``data``."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> str:
    """Return the lower-case hexadecimal SHA-256 of a file's bytes; raises ``OSError``."""
    with path.open("rb", buffering=0) as stream:
        return sha256_stream(stream)


def sha256_stream(stream: Readable, advance: Callable[[int], None] = lambda amount: None) -> str:
    """Return the SHA-256 of what a file has from here on; raises ``OSError``."""
    digest, buffer = hashlib.sha256(), bytearray(_CHUNK)
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
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
