"""SHA-256 without importing ``hashlib``, which would load OpenSSL (2 ms)."""

from __future__ import annotations

import sys


def sha256(data: bytes) -> str:
    """Return a SHA-256 in hexadecimal: by OpenSSL if the program has loaded it (faster), else by the interpreter."""
    fast = getattr(sys.modules.get("_hashlib"), "openssl_sha256", None)
    if fast is not None:
        return str(fast(data).hexdigest())
    try:
        from _sha2 import sha256 as digest  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        try:
            from _sha256 import sha256 as digest  # type: ignore[import-not-found, unused-ignore]
        except ImportError:
            from hashlib import sha256 as digest
    return str(digest(data).hexdigest())
