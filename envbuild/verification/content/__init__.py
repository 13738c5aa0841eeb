"""What files mean: digests of their content, without what containers and clocks add to the bytes.

Two files of other bytes and equal content are equal results: a format keeps the time of writing, a JSON file the time
it took. ``read`` opens formats by readers that run nothing in a file and stay within bounds; what it cannot open, or
is in doubt about, counts by its bytes.
"""

from __future__ import annotations

from envbuild.verification.content.canonical import Content, Difference, compare
from envbuild.verification.content.noted import leaves_noted, read_noted
from envbuild.verification.content.reader import (
    all_texts,
    identities,
    leaves,
    leaves_identities_out,
    read,
    read_file,
    wholes,
)

__all__ = [
    "Content", "Difference", "all_texts", "compare", "identities", "leaves", "leaves_identities_out", "leaves_noted",
    "read", "read_file", "read_noted", "wholes",
]  # fmt: skip
