"""Lines that say the how-many-eth they are, as progress is logged: ``[3/12] trial 7 done``.

Which trial was third is luck where tasks run at once. The number says no more than the line's place, so that of lines
whose order does not count it does not count either.
"""

from __future__ import annotations

import re

from envbuild.core.patterns import lazy

MARK = "⟨n⟩"
"""What is in the place of such a number."""
_COUNTED = lazy(r"(?<![\w./-])(\d{1,6})( ?/ ?| of )(\d{1,6})(?![\w./])")
_LABEL = lazy(
    r"(?<![A-Za-z])(?!(?:done|finished|completed?|progress|ready|got)\b)[A-Za-z]+[ :=#]{1,3}\Z", re.IGNORECASE
)
"""``fold 3/12`` names what the line is about."""
_SHARE = lazy(r"(?<![\w.])(\d{1,3}(?:\.(\d{1,3}))?)(?= ?%)")
_MOST = 1000
"""Kinds of numbers that are followed."""


class Ordinals:
    """Counts the lines of one stream or file, in the order in which they came."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], int] = {}

    def without(self, text: str) -> str:
        """Return a line with a mark in the place of its number, and of the share of all that this is.

        Only if it is the line's place among those with the same total, from 1 on: no line is left out before.
        """
        found = _COUNTED.search(text)
        if found is None or len(self._seen) > _MOST or _LABEL.search(text, 0, found.start()) is not None:
            return text
        number, total = int(found[1]), int(found[3])
        key = found[2], found[3]
        if not 0 < number <= total or number != self._seen.get(key, 0) + 1:
            self._seen[key] = -1  # it counts something else
            return text
        self._seen[key] = number

        def marked(share: re.Match[str]) -> str:
            digits = len(share[2] or "")
            return MARK if f"{100 * number / total:.{digits}f}" == share[1] else share[0]

        before, after = (_SHARE.sub(marked, part) for part in (text[: found.start()], text[found.end() :]))
        return f"{before}{MARK}{found[2]}{found[3]}{after}"
