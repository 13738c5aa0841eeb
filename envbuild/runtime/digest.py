"""SHA-256 without ``hashlib``, which would load OpenSSL (2 ms)."""

from __future__ import annotations


def sha256(data: bytes) -> str:
    """Return a SHA-256 in hexadecimal, through the interpreter's own module where it has one."""
    try:
        from _sha2 import sha256 as digest  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        try:
            from _sha256 import sha256 as digest  # type: ignore[import-not-found, unused-ignore]
        except ImportError:
            from hashlib import sha256 as digest
    return str(digest(data).hexdigest())
