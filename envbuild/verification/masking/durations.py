"""Durations as programs print them, with a sign and a unit: what one of another size in each run says."""

from __future__ import annotations

import re

from envbuild.core.patterns import lazy

_DURATION = lazy(
    r"(?<![\w.])(?P<sign>-\s?)?(?P<number>(?:\d+(?:,\d+){0,6}(?:\.\d+)?|\.\d+)(?:e[-+]?\d+)?)\s?"
    r"(?P<unit>ns|[uµμ]s|ms|s|secs?|seconds?|min|mins|minutes?|h|hours?|milliseconds?|microseconds?)(?![\w/])",
    re.IGNORECASE,
)
_UNITS = {"n": 1e-9, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "s": 1.0, "h": 3600.0}
_IN_PARTS = lazy(r"\d\s?[dhm]\s?\d")
"""A duration of several units: ``1m 3s``."""
_MANY, _LONG = 100.0, 1.0
"""How many times as long a duration is, and how many seconds, from which on it is not by luck that it is longer."""
_EXPONENT = 300
"""Powers of ten that floats have."""
_LONGEST = 4096
"""Characters of a line that are looked at."""


def are_far_apart(one: str, other: str) -> bool:
    """Whether a duration in two lines has another sign, or is many times as long in one of them.

    ``0s`` is as long as a duration can be that is shown so: nearly a second.
    """
    if len(one) > _LONGEST or len(other) > _LONGEST:
        return False
    mine, theirs = ([*_DURATION.finditer(line)] for line in (one, other))
    if _IN_PARTS.search(one) is not None or _IN_PARTS.search(other) is not None:
        return False
    if len(mine) != len(theirs):
        return True
    return any(_far(*each) for each in zip(mine, theirs, strict=True))


def has_durations(line: str) -> bool:
    """Whether a line has any."""
    return len(line) <= _LONGEST and _DURATION.search(line) is not None


def _far(one: re.Match[str], other: re.Match[str]) -> bool:
    (mine, off), (theirs, other_off) = map(_seconds, (one, other))
    shorter, longer = sorted((mine + off, theirs + other_off))
    other_sign = (one["sign"] is None) != (other["sign"] is None) and (mine or theirs) > 0
    return other_sign or (max(mine, theirs) >= _LONG and longer > _MANY * shorter)


def _seconds(found: re.Match[str]) -> tuple[float, float]:
    """Return a duration without its sign, and what its last digit counts, both in seconds."""
    unit = found["unit"].lower()
    scale = _UNITS.get(unit[0], 0.0)
    if unit.startswith("m"):
        scale = 60.0 if unit.startswith("min") else 1e-6 if unit.startswith("mic") else 1e-3
    digits, _, exponent = found["number"].replace(",", "").lower().partition("e")
    scale *= 10.0 ** max(-_EXPONENT, min(_EXPONENT, int(exponent or 0)))
    return float(digits) * scale, 10.0 ** -len(digits.partition(".")[2]) * scale
