"""SHA-256 without importing ``hashlib``, which would load OpenSSL (2 ms)."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_own: Any = None
"""The interpreter's own function once it is found: to look for a module that is not there costs 25 µs each time."""


def sha256(data: bytes) -> str:
    """Return a SHA-256 in hexadecimal: by OpenSSL if the program has loaded it (faster), else by the interpreter."""
    global _own
    fast = getattr(sys.modules.get("_hashlib"), "openssl_sha256", None)
    if fast is not None:
        return str(fast(data).hexdigest())
    if _own is None:
        _own = _interpreters()
    return str(_own(data).hexdigest())


def _interpreters() -> Any:
    """Return the interpreter's own function; ``hashlib``'s where it has none."""
    try:
        from _sha2 import sha256 as digest  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        try:
            from _sha256 import sha256 as digest  # type: ignore[import-not-found, unused-ignore]
        except ImportError:
            from hashlib import sha256 as digest
    return digest
