"""Text for people: amounts, counts, and text from outside as it may be printed."""

from __future__ import annotations


def plain(text: str) -> str:
    """Escape what would not stay on its line, or would speak to the terminal.

    Inside images ``envbuild.runtime.guard.check.plain`` does the same: nothing else of this package is there.
    """
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def human_bytes(count: int) -> str:
    """Write a number of bytes with decimal units and about three significant digits: ``359 MB``."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 999.5 or unit == "TB":
            return f"{value:.0f} {unit}" if unit == "B" or value >= 9.95 else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError("unreachable")


def plural(count: int, noun: str) -> str:
    """Write a count with its noun: ``1 file``, ``3 files``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
