"""Words by which a text says what day it is, without a whole date: ``Sunday``, ``29 November``, ``week 48``, ``Q4``."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip


def path_without_day(path: str, day: datetime) -> str:
    """Return a path without the year, and the month and day behind it, that are of this day: ``2026/11-29/a.log``.

    Not where a time of day follows, which is masked with its date.
    """
    rest = rf"(?P<between>[/_.-]?)(?:{day.month:02}(?P<inner>[/_.-]?){day.day:02}(?!\d))?(?![-_T]?\d)"
    return re.sub(rf"(?<!\d){day.year}(?:{rest})", r"⟨day⟩\g<between>", path)


def in_year(text: bytes, year: int, like: bytes, other: int) -> bytes:
    """Return the lines of a text with another year in the place of theirs, where the same line of ``like`` has that."""
    lines, known = text.split(b"\n"), like.split(b"\n")
    mine, theirs = str(year).encode(), str(other).encode()
    if len(lines) != len(known) or mine == theirs:
        return text
    pattern = re.compile(rb"(?<!\d)" + mine + rb"(?!\d)")
    return b"\n".join(
        pattern.sub(theirs, line) if theirs in same and mine not in same else line
        for line, same in zip(lines, known, strict=True)
    )


def without_day(text: str, day: datetime) -> str:
    """Return a text without what says that it is this day; what says another one stays."""
    weekday, month = _DAYS[day.weekday()], _MONTHS[day.month - 1]
    now = (day, day + timedelta(minutes=1))  # no result: it is when the run began, or the minute after that
    minutes = "|".join(each.strftime(form) for each in now for form in ("%I:%M ?%p", "%H:%M"))
    number, week = rf"0?{day.day}(?:st|nd|rd|th)?", day.isocalendar()[1]
    patterns = (
        rf"\b(?:{weekday}|{weekday[:3]})\b",
        rf"(?<![\w/:-])(?:{number}\.?[ -])?(?:{month}|{month[:3]})\b\.?(?:[ -]{number}\b)?(?:,?[ -]{day.year}\b)?",
        rf"\b(?:week|kw|w)[ -]?0?{week}\b",
        rf"\bQ{(day.month + 2) // 3}\b",
        rf"(?:©|\(c\)|&copy;|\bcopyright)\s*{day.year}\b",
        rf"(?<=⟨day 1⟩)(?:,? (?:at )?)(?:{minutes})(?![\d:])",
    )
    for at, pattern in enumerate(patterns):
        text = re.sub(pattern, f"⟨day {at}⟩", text, flags=re.IGNORECASE)
    return text
