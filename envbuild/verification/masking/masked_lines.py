"""Masks lines where they stand: in the tables of profilers and tests, behind the time of the line before, in blocks.

Which rows a profiler prints, and in which order, is a measurement, so that such a table is masked as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from envbuild.core.patterns import lazy
from envbuild.verification.masking.log_blocks import HandlerTimes, LogBlocks, MemoryTable, QueryTimes, Samples
from envbuild.verification.masking.masks import BY_CLOCK, PROFILE, PROFILE_OF_SAMPLES, SLOWEST, Masked, Masks
from envbuild.verification.masking.tables import Shown, Tables

_STAMP = lazy(r"\[?(?:\d[\d/.-]*[ T])?\d{1,2}:\d\d:\d\d(?:[.,]\d+)?(?: [AP]M)?\]?(?= )")
"""The time in front of a line of a log."""
_RULER = lazy(r"-{3,}(?:  -{3,}){5,}")
_TIMED = r"\d+\.\d{3}"
_REPORTS = (
    # PyTorch's profiler: ``key_averages().table()``
    (lazy(r"\s*Name\s+Self CPU %\s+Self CPU\s.*"), lazy(r"\s*\S.*\s[\d.]+%\s+[\d.]+(?:us|ms|s)\s.*|[- ]+")),
    # ``pstats``: ``print_stats()``
    (
        lazy(r"\s*ncalls\s+tottime\s+percall\s+cumtime\s+percall\s+filename:lineno\(function\)"),
        lazy(rf"\s*\d+(?:/\d+)?(?:\s+{_TIMED}){{4}} (?:\S.*:\d+\(.*\)|\{{.*\}})"),
    ),
    # Lightning's ``SimpleProfiler``
    (
        lazy(
            r"\|\s+Action\s+\|\s+Mean duration \(s\)\s+\|\s+Num calls\s+\|\s+Total time \(s\)\s+\|\s+Percentage %\s+\|"
        ),
        lazy(r"\|\s+\S[^|]*(?:\|\s+(?:\d[\d.e+-]*|-)\s+){3}\|\s+\d[\d.e+-]*\s*%?\s+\||-{20,}"),
    ),
    # Megatron-LM's timers
    (
        lazy(r"(?:\(min, max\) |max )?times? across ranks \(ms\):"),
        lazy(r"\s+[\w-]+ \.{3,}: \(?\d[\d.]*(?:, \d[\d.]*\))?|\s+[\w-]+:|\s+rank +\d+: \d[\d.]*"),
    ),
)
"""Heads of the tables that profilers print, and their rows: sorted by time, the slowest only, as wide as these are."""


_HEAD_OF_SLOWEST = lazy(r"={2,} slowest (?:\d+ )?durations ={2,}")
_SLOW = lazy(r"\d+\.\d\ds (?:call    |setup   |teardown) \S.*")
_HIDDEN = lazy(r"\((\d+) durations < [\d.e-]+s hidden\.(?:  Use -vv to show these durations\.)?\)")
"""What pytest prints with ``--durations``: parts of tests by how long they took, and how many were too fast for that.
Source: src/_pytest/runner.py, ``pytest_terminal_summary``."""


class _Slowest:
    """Holds the slowest tests that pytest prints back until their end; only how many there are does not depend on time.

    Attributes:
        held: lines of the table so far; None outside of one.
    """

    def __init__(self) -> None:
        self.held: list[str] | None = None
        self._hidden = 0

    def take(self, row: str) -> bool:
        """Whether a line belongs to a table, which begins behind its head."""
        if self.held is None:
            if _HEAD_OF_SLOWEST.fullmatch(row) is not None:
                self.held, self._hidden = [], 0
            return False
        hidden = _HIDDEN.fullmatch(row) if self.held[-1:] in ([], [""]) else None
        if self._hidden or (self.held[-1:] == [""] and hidden is None):
            return False
        if hidden is not None:
            self._hidden = int(hidden[1])
        elif row and _SLOW.fullmatch(row) is None:
            return False
        self.held.append(row)
        return True

    def finish(self) -> Iterator[tuple[str, Masked]]:
        """Yield the lines that were held back: the last has the number of all."""
        held, self.held = self.held or [], None
        behind = [held.pop()] if held[-1:] == [""] else []
        shown = sum(_SLOW.fullmatch(row) is not None for row in held)
        for row in held[:-1]:
            yield row, Masked("", frozenset([SLOWEST]))
        if held:
            yield held[-1], Masked(f"⟨{shown + self._hidden} durations⟩", frozenset(["times"]))
        yield from ((row, Masked(row, frozenset())) for row in behind)


class Lines:
    """Masks lines; in tables, columns of measurements; and the tables of profilers as a whole: which rows are in them,
    and where, is a measurement.

    Args:
        masks: what to mask elsewhere.
    """

    def __init__(self, masks: Masks) -> None:
        self._tables, self._reports = Tables(), _Reports(masks)

    def take(self, row: str) -> Iterator[tuple[str, Masked]]:
        """Yield what is known by now of a line and of those that were held back, each with its masked form."""
        for shown in self._tables.take(row):
            yield from self._reports.take(shown)

    def finish(self) -> Iterator[tuple[str, Masked]]:
        """Yield lines that were held back."""
        for shown in self._tables.finish():
            yield from self._reports.take(shown)
        yield from self._reports.finish()


class _Reports:
    """Masks lines, and the tables of profilers as a whole.

    Args:
        masks: what to mask elsewhere.
    """

    def __init__(self, masks: Masks) -> None:
        self._masks = masks
        self._rows: re.Pattern[str] | None = None
        self._within = False
        self._held: Shown | None = None
        self._stamp = ""
        self._slowest = _Slowest()
        self._blocks, self._samples, self._memory = LogBlocks(), Samples(), MemoryTable()
        self._handlers, self._query = HandlerTimes(), QueryTimes()

    def take(self, shown: Shown) -> Iterator[tuple[str, Masked]]:
        """Yield what is known by now of a line and of one that was held back, each with its masked form."""
        row, within = shown.text, self._slowest.held is not None
        if self._slowest.take(row):
            return
        if within:
            yield from self._slowest.finish()
            self._slowest.take(row)
        if self._rows is not None and self._rows.fullmatch(row) is not None:
            yield self._masked(shown, report=True)
            ruler = _RULER.fullmatch(row) is not None
            if ruler and self._within:  # the last line of the table: what looks like a row behind it is none
                self._rows = None
            self._within = not ruler
            return
        self._within = False
        self._rows = next((rows for head, rows in _REPORTS if head.fullmatch(row) is not None), None)
        held, self._held = self._held, None
        if held is not None:
            yield self._masked(held, report=self._rows is not None)
        if _RULER.fullmatch(row) is not None:
            self._held = shown
        else:
            yield self._masked(shown, report=self._rows is not None)

    def finish(self) -> Iterator[tuple[str, Masked]]:
        """Yield lines that were held back."""
        if self._held is not None:
            yield self._masked(self._held, report=False)
        self._held = None
        yield from self._slowest.finish()

    def _masked(self, shown: Shown, *, report: bool) -> tuple[str, Masked]:
        if self._blocks.has(shown.common):
            return shown.text, Masked("⟨log⟩", frozenset([BY_CLOCK]))
        if self._samples.has(shown.common):
            return shown.text, Masked("⟨profile⟩", frozenset([PROFILE_OF_SAMPLES]))
        if (row := self._memory.masked(shown.common)) is not None:
            return shown.text, Masked(row, frozenset(["memory"]))
        times = self._handlers.masked(shown.text), self._query.masked(shown.text)
        if (row := times[0] or times[1]) is not None:
            return shown.text, Masked(row, frozenset(["times"]))
        masked = self._masks.mask(self._stamped(shown.common))
        if report and not masked.left_out:
            masked = Masked(PROFILE, frozenset(["times"]))
        elif shown.kinds:
            masked = Masked(
                masked.text,
                masked.kinds | shown.kinds,
                masked.guessed or shown.guessed,
                masked.names,
                shown.guessed,
                masked.strange,
            )
        return shown.text, masked

    def _stamped(self, line: str) -> str:
        """Return a line with its time where blanks say that it is that of the line before.

        rich leaves a time out that it would write twice (``_log_render.py``, ``omit_repeated_times``), which depends on
        when the second ended; it does not know what others print meanwhile.
        """
        if (found := _STAMP.match(line)) is not None:
            self._stamp = found[0]
            return line
        width = len(self._stamp)
        if width and line.startswith(" " * (width + 1)) and line[width + 1 : width + 2] not in ("", " "):
            return f"{self._stamp}{line[width:]}"
        return line
