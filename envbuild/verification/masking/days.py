"""Which times of day are none of the run: those of another day, and those that all runs have in the same place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timezone

from envbuild.core.patterns import lazy

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAME = rf"(?P<month>{'|'.join(_MONTHS)})[a-z]*\.?"
_IGNORING = re.IGNORECASE | re.ASCII
"""Without ASCII, the long s would be one of September's letters."""
_NEAR = 32
"""Characters before and behind a time in which its day may be."""
_BEFORE = (
    lazy(r"(?<![\d.,/-])(?P<year>\d{4})(?P<sep>[-/])(?P<month>\d\d)(?P=sep)(?P<day>\d\d)[T _]\s*\Z", re.ASCII),
    lazy(rf"(?<![a-z]){_NAME} +(?P<day>\d\d?),? +(?P<year>\d{{4}}),? +\Z", _IGNORING),
    lazy(rf"(?<![\d.,])(?P<day>\d\d?)[ -]{_NAME}[ -](?P<year>\d{{4}}),? +\Z", _IGNORING),
)
"""A date in front, as ISO 8601, C (``__DATE__``), and e-mails have it; ``07/11/2026`` may be of two days."""
_OPEN = lazy(rf"(?<![a-z]){_NAME} +(?P<day>\d\d?) +\Z", _IGNORING)
_YEAR = lazy(r" +(?:[A-Z]{3,4} +)?(?P<year>\d{4})(?![\w.:-])", re.ASCII)
"""The same with the time before the year: ``Sat Oct  7 12:35:07 2026``."""

_MOST = 1_000_000
"""Times of day of one text that are noted."""


class Clocks:
    """The times of day in one text, in their order.

    Whether one may be of the run depends on when that was: a timetable has some that are masked in one run alone. One
    that all runs have in the same place is no difference, so that it is masked in none.

    Args:
        data: places of those that are not masked.
    """

    def __init__(self, data: frozenset[int] = frozenset()) -> None:
        self._data = data
        self._found: list[str] = []
        self._count = 0

    def is_data(self, text: str) -> bool:
        """Whether the next time of day is not masked."""
        if self._count < _MOST:
            self._found.append(text)
        self._count += 1
        return self._count - 1 in self._data

    @property
    def found(self) -> tuple[str, ...]:
        """All so far; none if there are too many."""
        return tuple(self._found) if self._count <= _MOST else ()


def in_common(found: Sequence[Sequence[str]]) -> frozenset[int]:
    """Return the places of the times of day that several texts have in common; none if they have not equally many."""
    if len(found) < 2 or len({*map(len, found)}) != 1:
        return frozenset()
    return frozenset(at for at, texts in enumerate(zip(*found, strict=True)) if len({*texts}) == 1)


def noon_near(text: str, start: int, end: int) -> float | None:
    """Return the noon of the day that is named next to a time, in seconds since 1970, by UTC; None if there is none.

    Args:
        text: a line.
        start, end: where the time is in it.
    """
    before = text[max(0, start - _NEAR) : start]
    for pattern in _BEFORE:
        if (found := pattern.search(before)) is not None:
            return _noon(found["year"], found["month"], found["day"])
    opened, year = _OPEN.search(before), _YEAR.match(text, end)
    return _noon(year["year"], opened["month"], opened["day"]) if opened is not None and year is not None else None


def _noon(year: str, month: str, day: str) -> float | None:
    number = int(month) if month.isdigit() else _MONTHS.index(month.lower()) + 1
    try:
        return datetime(int(year), number, int(day), 12, tzinfo=timezone.utc).timestamp()
    except ValueError:
        return None
