"""A terminal, followed as far as programs use it that draw progress: carriage return, cursor up, colours."""

from __future__ import annotations

import re
from collections.abc import Callable

from envbuild.core.patterns import lazy

LONGEST_LINE = 1 << 16
"""Characters of a line; a longer one is cut, and nothing in it is masked."""
_REST = 8
"""Characters of a row behind a shorter one that was written over it, from which they count."""
_ROWS = 64
"""Rows up to which a cursor can be moved back."""
BINARY = lazy(r"[\x00-\x06\x0e-\x1a\x1c-\x1f]")
"""No text that a program prints holds these: such lines are compared as they are."""
_KERNEL = "[IPKernelApp] ERROR | KeyboardInterrupt caught in kernel.\n"
"""What a notebook's kernel prints if it is shut down before it waits again (ipykernel's kernelapp.py), in the middle of
whatever line is there."""
_TOKENS = lazy(rf"\n|\r|\x1b\[(\d*)A|\x1b\[[0-9;?]*[ -/]*[@-~]|\x08|{re.escape(_KERNEL)}")
_BAR_RATES = lazy(
    r"(?P<before>%\|[^|\n]*\| *[^\s|/\[]+/[^\s|/\[]+ \[|(?:\A|(?<=[\s:]))\d[\d.]*[kMGTPEZY]?(?P<unit> ?[^\W\d]+) \[)"
    r"(?P<rates>(?:\d+:)?\d{1,2}:\d\d(?(unit)|<(?:\?|(?:\d+:)?\d{1,2}:\d\d))"
    r", *(?:\?|\d[\d.]*(?:e[+-]?\d+)?[kMGTPEZY]?)(?:s/(?(unit)(?P=unit)| ?[^\W\d]+)|(?(unit)(?P=unit)| ?[^\W\d]+)/s))"
    r"(?=[],])"
)
"""What tqdm's bars show up to what the program adds: a bar or a count, elapsed, remaining, rate (tqdm/std.py).

All that has to be there: a program's own ``[00:45, 0.91 hits/query]`` is a result.
"""
PARTIAL = lazy(r"\x1b(?:\[[0-9;?]*)?\Z")


class Screen:
    """Rows of text as a terminal shows them at last; those too far up to be reached are given away.

    Binary data are not written over: in a row that has characters which no text has, all others are such too.

    Args:
        take: called with each row that cannot change any more.

    Attributes:
        dropped: messages by the clock that were left out.
    """

    def __init__(self, take: Callable[[str], None]) -> None:
        self._take = take
        self.dropped = 0
        self._rows = [""]
        self._covered = [""]
        self._at = 0
        self._return = False
        self._undo: tuple[str, str] | None = None

    def write(self, text: str) -> None:
        """Follow text and control characters."""
        place = 0
        for found in _TOKENS.finditer(text):
            self._put(text[place : found.start()])
            place = found.end()
            control = found[0]
            self._undo = None
            if control == "\n":
                self._down()
            elif BINARY.search(self._rows[self._at]) is not None:  # a byte as any other
                self._put(control)
            elif control == "\r":
                self._return = True
            elif control == _KERNEL:
                self.dropped += 1
            elif control.endswith("A"):
                self._at = max(0, self._at - int(found[1] or 1))
                self._return = True
            elif control.endswith("K"):
                self._covered[self._at] = ""
                if self._return or control.endswith("[2K"):
                    self._rows[self._at] = ""
        self._put(text[place:])

    def finish(self) -> None:
        """Give away what is left; an empty last row is no line."""
        *above, last = map(_shown, self._rows, self._covered)
        for row in above:
            self._take(row)
        if last:
            self._take(last)
        self._rows, self._covered, self._at = [""], [""], 0

    def _put(self, text: str) -> None:
        if not text:
            return
        if self._return:
            row, covered = self._rows[self._at], self._covered[self._at]
            self._undo = row, covered
            self._covered[self._at] = _without_rates(row) + covered[len(row) :]
            self._rows[self._at], self._return = "", False
        if self._undo is not None and BINARY.search(text) is not None:
            row, self._covered[self._at] = self._undo
            self._rows[self._at], self._undo = f"{row}\r{self._rows[self._at]}", None
        row = self._rows[self._at] + text
        if len(row) > LONGEST_LINE:
            for above in map(_shown, self._rows[: self._at], self._covered):
                self._take(above)
            self._rows, self._covered, self._at = self._rows[self._at :], self._covered[self._at :], 0
            while len(row) > LONGEST_LINE:
                self._take(row[:LONGEST_LINE])
                row = row[LONGEST_LINE:]
        self._rows[self._at] = row

    def _down(self) -> None:
        self._return = self._at + 1 < len(self._rows)
        self._at += 1
        if self._at == len(self._rows):
            self._rows.append("")
            self._covered.append("")
        if len(self._rows) > _ROWS:
            self._take(_shown(self._rows.pop(0), self._covered.pop(0)))
            self._at -= 1


def without_blanks(row: str) -> str:
    """Return a row without blanks at its end, which nobody sees."""
    text = row.rstrip()
    return row if text != row and BINARY.search(row) is not None else text


def is_in_bar(row: str, place: int) -> bool:
    """Whether a place in a row is among what a bar of tqdm's measures, behind what says how much is done."""
    bars = _BAR_RATES.finditer(row) if "%|" in row else ()
    return any(found["unit"] is None and found.start("rates") <= place < found.end("rates") for found in bars)


def _without_rates(row: str) -> str:
    """Return a row that is written over, with blanks in the place of what tqdm's bars measure.

    Bars within bars share a row where a program draws them without places of their own. What the shorter one leaves of
    the longer one may begin in the middle of a time, where nothing shows any more what its digits are.
    """
    if "[" not in row:
        return row
    return _BAR_RATES.sub(lambda found: found["before"] + " " * len(found["rates"]), row)


def _shown(row: str, covered: str) -> str:
    """Return what is seen of a row that was written over another one; a few characters are left by numbers of times."""
    rest = covered[len(row) :]
    return row + rest if len(rest.strip()) >= _REST else row
