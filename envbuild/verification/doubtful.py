"""Which measurements are so by a name, or by a unit alone, that a result may have as well: ``half-life 3.5123 s``.

A text says what a number is only as well as its author chose the words. Where the words leave a doubt and the number is
written with enough digits, experiments decide (``operations.doubtful``): what a clock measures is another number in
each run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date

from envbuild.record.measurements import name_leaves_doubt, names_measuring
from envbuild.verification.printed import Masks, moment_of

MEASURED = frozenset(("times", "rates"))
"""What is masked in lines of which experiments are made."""
_DIGITS = 4
"""Significant digits from which on two measured times are hardly ever the same number."""
_DAY = r"20\d\d-\d\d-\d\d"
_NUMBER = re.compile(
    rf"(?<![\w.:/-])(?:{_DAY}(?:[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?)?|\d{{1,2}}:\d\d:\d\d(?:\.\d+)?"
    r"|(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[-+]?\d+)?)(?![:/-]?\d)",
    re.IGNORECASE,
)
_ONLY_DAY = re.compile(_DAY)
_OF_TIMES = frozenset((
    "at", "on", "by", "of", "the", "is", "was", "from", "to", "since", "until", "last", "first", "now", "today",
    "date", "datetime", "timestamp", "utc", "created", "changed", "modified", "saved", "updated", "generated",
    "written", "logged", "log", "starting", "finished", "finish", "completed", "done", "began", "begins", "ended",
    "run", "runs",
))  # fmt: skip
"""Words before dates and times of day of when something was done, beside those of measuring."""
_CLAUSES = re.compile(r"[,;|()\[\]{}\t]|\d[\d.,:%/e+-]*|\. ")
_WORD = re.compile(r"[a-z]+", re.IGNORECASE)
_DECISIVE = frozenset(("took", "takes", "taking", "elapsed", "in", "after", "within", "runtime", "walltime", "eta"))
_DECISIVE |= {"remaining", "left", "uptime", "wall", "cpu"}
"""Words right before a number that is measured."""
_WORDS = 3
_LINE = re.compile(r"line \d+$")
_AMOUNT = r"(?:\d[\d.,:]*(?:e[-+]?\d+)?)\s?[a-zµ]{0,7}"
_ALONE = re.compile(rf"\s*[\[(]?{_AMOUNT}[\])]?\s*", re.IGNORECASE)
_PAIR = re.compile(rf"\s*(?:- )?[\"']?(?P<key>[a-z_][\w.-]*)[\"']?\s*[:=]\s*[\"']?{_AMOUNT}[\"']?,?\s*", re.IGNORECASE)
"""A line of YAML, TOML and the like."""


def exact_numbers(text: str, masks: Masks) -> Iterator[tuple[str, str]]:
    """Yield the numbers, dates and times of day of a text, each with the text before it; no seconds since 1970.

    Args:
        text: one line.
        masks: of the run, which knows what is a date of about when it was.
    """
    for found in _NUMBER.finditer(text):
        plain = ":" not in found[0] and _ONLY_DAY.fullmatch(found[0]) is None
        if not plain or not masks.is_moment(moment_of(float(found[0].replace(",", "")))):
            yield found[0], text[: found.start()]


def by_midnight(one: str, other: str) -> bool:
    """Whether two values are days next to each other: one run may have been before midnight."""
    if _ONLY_DAY.fullmatch(one) is None or _ONLY_DAY.fullmatch(other) is None:
        return False
    try:
        return abs((date.fromisoformat(one) - date.fromisoformat(other)).days) < 2
    except ValueError:
        return False


def is_exact(number: str) -> bool:
    """Whether a number has so many significant digits that two measurements hardly ever give it."""
    digits = re.sub(r"(?i)e.*|[^\d]", "", number).lstrip("0")
    return len(digits) >= _DIGITS


def leaves_doubt(before: str) -> bool:
    """Whether the words before a number may name a result: not all of them are of measuring."""
    words = [word.lower() for word in _WORD.findall(_CLAUSES.split(before)[-1])][-_WORDS:]
    known = (word in _OF_TIMES or names_measuring(word) for word in words)
    return bool(words) and words[-1] not in _DECISIVE and not all(known)


def _key(name: str) -> str:
    return re.sub(r"\[[^\]]*\]", "", re.split(r"[.\s:/@]", name)[-1])


def key_leaves_doubt(name: str, *, moment: bool = False) -> bool:
    """Whether a key or the name of a column may be a result's as well, such as a bare ``time``, or ``trip_duration``.

    Args:
        name: with the place where it is, such as ``rows[3].time``.
        moment: it is the name of a date of about when the run was; what has no name at all may be a result too.
    """
    key = _key(name)
    return name_leaves_doubt(key) or (moment and (not key or leaves_doubt(f"{_in_words(key)} ")))


def _in_words(key: str) -> str:
    return re.sub(r"[^a-z]+", " ", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", key), flags=re.IGNORECASE)


def is_alone(text: str) -> bool:
    """Whether a line is nothing but a number with its unit, so that no word says what it is."""
    return _ALONE.fullmatch(text) is not None


def doubtful_in(text: str, name: str, masks: Masks, shown: str) -> bool:
    """Whether a text of a file has a number that may be a result.

    Args:
        text: one line.
        name: where it is: by a key, or a line.
        masks: of the run.
        shown: the text as it is compared: numbers in it are not left out.
    """
    sure = is_alone(text) or ((pair := _PAIR.fullmatch(text)) is not None and key_leaves_doubt(pair["key"]))
    if _LINE.search(name) is None:
        text, sure = f"{_in_words(_key(name))}: {text}", False
    return any(
        is_exact(number) and (sure or leaves_doubt(before)) and number not in shown
        for number, before in exact_numbers(text, masks)
    )
