"""A small mutator, for the run with fixed seeds that is part of the unit suite: it needs nothing that is not there.

It knows nothing of coverage. ``make fuzz`` has libFuzzer for that; what that found is in ``corpus/`` and altered here.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

_ODD = (
    b"", b"\0", b"\xff", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x80", b"\xed\xa0\x80", b"\xc3",
    b"-1", b"0", b"99999999999999999999", b"9" * 5000, b"1e999", b"nan", b"null", b"true", b"{}", b"[]", b'""', b"'",
    b"..", b"/", b"\\", b"\n", b"\r\n", b"\t", b"%", b"$", b"[" * 3000, b'{"a":' * 1500, b"(" * 3000, b"\x1b[2J",
    b"\xe2\x80\xae",
)  # fmt: skip
"""Values at which parsers stumble: limits of numbers, other types, halves of characters, deep nests."""


def mutated(data: bytes, others: Sequence[bytes], words: random.Random) -> bytes:
    """Alter an input in one to eight places; parts may come from the other inputs."""
    found = bytearray(data)
    for _ in range(words.choice((1, 1, 2, 4, 8))):
        at = words.randrange(len(found) + 1)
        size = words.choice((1, 1, 2, 4, 16, 64))
        match words.randrange(7):
            case 0:
                if at < len(found):
                    found[at] ^= 1 << words.randrange(8)
            case 1:
                del found[at : at + size]
            case 2:
                found[at:at] = words.choice(_ODD)
            case 3:
                odd = words.choice(_ODD)
                found[at : at + len(odd) or size] = odd
            case 4:
                found[at:at] = found[at : at + size] * words.choice((1, 2, 100))
            case 5:
                other = words.choice(others)
                start = words.randrange(len(other) + 1)
                found[at : at + size] = other[start : start + size]
            case _:
                found[at : at + size] = words.randbytes(size)
    return bytes(found)
