"""Lines of text that differ from run to run: by a time, a duration, an address, an identity, or otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from envbuild.core.patterns import lazy

_MOMENT = (
    r"\d{4}-\d\d-\d\d(?:[T _]\d\d[:.-]?\d\d(?:[:.-]?\d\d(?:[.,]\d+)?)?)?Z?(?:[+-]\d\d:?\d\d)?"
    r"|\b\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d+)?\b"
    r"|\b1[5-9]\d{8}(?:\.\d+|\d{3}|\d{6}|\d{9})?\b"
)
_MOMENTS = lazy(_MOMENT)
_TIMES = lazy(
    rf"{_MOMENT}|\b\d+(?:\.\d+)?(?:e-?\d+)?\s?(?:ns|us|[µμ]s|ms|s|sec|secs|seconds|min|h)(?:/\w+)?\b"
    r"|\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b|\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\s+\d{1,2}\b"
)
_LONG = 48
_IDENTITIES = lazy(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b|\b0x[0-9a-f]{6,}\b|\bpid[ =:]\d+\b", re.I)


class TextDifference(msgspec.Struct, frozen=True, kw_only=True):
    """The first line at which a text file of two runs differs."""

    path: str
    line: int
    before: str
    after: str


def lines_in_pairs(before: bytes, after: bytes) -> Iterator[tuple[int, str, str]]:
    """Yield the lines of two texts, each with its number from 1; nothing if one has more lines than the other."""
    mine, theirs = (text.decode("utf-8", "replace").replace("\r\n", "\n").split("\n") for text in (before, after))
    if len(mine) == len(theirs):
        for number, pair in enumerate(zip(mine, theirs, strict=True), 1):
            yield number, *pair


def difference_of(before: str, after: str) -> str:
    """Describe what makes two lines differ if it is something that differs in every run; else an empty text."""
    if _TIMES.sub("", before) == _TIMES.sub("", after):
        return "a time"
    if _IDENTITIES.sub("", before) == _IDENTITIES.sub("", after):
        return "an identity"
    both = [_IDENTITIES.sub("", _TIMES.sub("", line)) for line in (before, after)]
    return "a time and an identity" if both[0] == both[1] else ""


def short(line: str) -> str:
    """Cut a line for a sentence."""
    line = line.strip()
    return line if len(line) <= _LONG else f"{line[:47]}…"


def excerpts(before: str, after: str) -> tuple[str, str]:
    """Return two lines for a sentence: where they are long, without the moments in them that differ in every run."""
    one, other = (_MOMENTS.sub("…", line) for line in (before, after))
    return (one, other) if one != other and max(len(before), len(after)) > _LONG else (before, after)
