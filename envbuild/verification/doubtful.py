"""Which measurements are so by a name, or by a unit alone, that a result may have as well: ``half-life 3.5123 s``.

A text says what a number is only as well as its author chose the words. Where the words leave a doubt and the number is
written with enough digits, experiments decide (``operations.doubtful``): what a clock measures is another number in
each run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from envbuild.record.measurements import kind_of, names_measuring
from envbuild.verification.printed import Masks, moment_of

_DIGITS = 4
"""Significant digits from which on two measured times are hardly ever the same number."""
_NUMBER = re.compile(r"(?<![\w.:/-])(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[-+]?\d+)?(?![:/-]?\d)", re.IGNORECASE)
_CLAUSES = re.compile(r"[,;|()\[\]{}\t]|\d[\d.,:%/e+-]*|\. ")
_WORD = re.compile(r"[a-z]+", re.IGNORECASE)
_DECISIVE = frozenset(("took", "takes", "taking", "elapsed", "in", "after", "within", "runtime", "walltime", "eta"))
_DECISIVE |= {"remaining", "left", "uptime", "wall", "cpu"}
"""Words right before a number that is measured."""
_BARE = frozenset(
    ("time", "times", "duration", "durations", "latency", "seconds", "secs", "sec", "s", "ms", "timestamp")
)
"""Names of columns and keys that data have as often as logs."""
_WORDS = 3


def exact_numbers(text: str, masks: Masks) -> Iterator[tuple[str, str]]:
    """Yield the numbers of a text that are no dates, each with the text before it.

    Args:
        text: one line.
        masks: of the run, which knows what is a date of about when it was.
    """
    for found in _NUMBER.finditer(text):
        if not masks.is_moment(moment_of(float(found[0].replace(",", "")))):
            yield found[0], text[: found.start()]


def is_exact(number: str) -> bool:
    """Whether a number has so many significant digits that two measurements hardly ever give it."""
    digits = re.sub(r"(?i)e.*|[^\d]", "", number).lstrip("0")
    return len(digits) >= _DIGITS


def leaves_doubt(before: str) -> bool:
    """Whether the words before a number may name a result: not all of them are of measuring."""
    words = [word.lower() for word in _WORD.findall(_CLAUSES.split(before)[-1])][-_WORDS:]
    return bool(words) and words[-1] not in _DECISIVE and not all(map(names_measuring, words))


def key_leaves_doubt(name: str) -> bool:
    """Whether a key or the name of a column may be a result's as well, such as a bare ``time``."""
    key = re.sub(r"\[[^\]]*\]", "", re.split(r"[.\s:/@]", name)[-1])
    return key.lower() in _BARE and kind_of(key) == "time"


def doubtful_in(text: str, masks: Masks) -> bool:
    """Whether a line of a file has a number that may be a result."""
    return any(is_exact(number) and leaves_doubt(before) for number, before in exact_numbers(text, masks))
