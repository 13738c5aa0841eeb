"""Text from outside as it may be printed."""

from __future__ import annotations


def plain(text: str) -> str:
    """Escape what would not stay on its line, or would speak to the terminal.

    Inside images ``envbuild.runtime.guard.check.plain`` does the same: nothing else of this package is there.
    """
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)
