"""Identities of runs: ULIDs (https://github.com/ulid/spec), 48 bits of time and 80 random ones in Crockford's base 32.

Names sort by time.
"""

from __future__ import annotations

import os
import time

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
LENGTH = 26


def new_id(milliseconds: int | None = None) -> str:
    """Make a run identity from a time in milliseconds since 1970 (now by default) and 80 random bits."""
    when = time.time_ns() // 1_000_000 if milliseconds is None else milliseconds
    number = (when & (1 << 48) - 1) << 80 | int.from_bytes(os.urandom(10), "big")
    return "".join(ALPHABET[number >> 5 * place & 31] for place in reversed(range(LENGTH)))
