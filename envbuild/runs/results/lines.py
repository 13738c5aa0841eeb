"""Metrics that a program prints: lines of standard output that are JSON objects with numbers in them.

The capture receives bytes after they have been passed on, in whatever pieces they come, and holds nothing back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from envbuild.core.foreign_json import parse_json
from envbuild.runs.results.series import Collected

LINE = 1 << 14
"""Bytes; longer lines are no metrics."""
COUNT = 200_000
"""Lines that are parsed."""
STEPS: Final = ("global_step", "step", "iteration", "iter", "epoch")
"""Keys that state where a value belongs; the first one that is there counts, and none of them is a metric."""
_DEPTH = 4
_LARGEST = 1 << 53


class StdoutCapture:
    """Collects metrics from a stream; ``feed`` is called with each piece of it."""

    def __init__(self) -> None:
        self.found = Collected()
        self._rest = b""
        self._skipping = False
        self._left = COUNT

    def feed(self, data: bytes) -> None:
        """Take the next piece."""
        if self._left <= 0:
            return
        *lines, rest = (self._rest + data).split(b"\n")
        for line in lines:
            if not self._skipping:
                self._line(line)
            self._skipping = False
        if len(rest) > LINE:
            self._skipping, rest = True, b""
        self._rest = rest

    def finish(self) -> Collected:
        """Take what came after the last line break, and return all that was found."""
        if not self._skipping:
            self._line(self._rest)
        self._rest = b""
        return self.found

    def _line(self, line: bytes) -> None:
        line = line.strip().rpartition(b"\r")[2].strip()  # what a progress bar leaves is before it
        if len(line) > LINE or not (line.startswith(b"{") and line.endswith(b"}")):
            return
        self._left -= 1
        try:
            table = parse_json(line)
        except (ValueError, RecursionError):
            return
        numbers = list(_numbers(table))
        steps = {name: value for name, value in numbers if name in STEPS and value == int_of(value)}
        step = next((int(steps[name]) for name in STEPS if name in steps), None)
        for name, value in numbers:
            if name not in STEPS:
                self.found.add(name, step, value)


def int_of(value: float) -> int | None:
    """Return a whole number that a record can hold as a step, else None."""
    whole = abs(value) < _LARGEST and value == int(value)
    return int(value) if whole else None


def _numbers(table: dict[str, Any], prefix: str = "", depth: int = _DEPTH) -> Iterator[tuple[str, float]]:
    """Yield the numbers of an object, those of objects in it with dots in their names."""
    for name, value in table.items():
        if isinstance(value, dict) and depth:
            yield from _numbers(value, f"{prefix}{name}.", depth - 1)
        elif isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool)):
            try:
                yield f"{prefix}{name}", float(value)
            except OverflowError:
                continue
