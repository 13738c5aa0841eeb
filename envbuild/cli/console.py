"""What people see: aligned lines, progress on a terminal, colour only there, nothing with ``--quiet``."""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TextIO

from envbuild.core.progress import Advance
from envbuild.core.text import CONTROLS, harmless, human_bytes

if TYPE_CHECKING:
    from rich import progress

    from envbuild.cli.render.events import Line
    from envbuild.operations.events import Event

_STDERR = 2
STDOUT = "standard output"
"""Its name in messages."""
_LABEL = 10
_EVERY = 30.0
_LONG = 1.0
"""Seconds between two lines about a phase in a log, and how long it must take to get one at all."""
_BOLD, _DIM, _RED, _RESET = "\033[1m", "\033[2m", "\033[31m", "\033[0m"


def wants_colour(stream: TextIO) -> bool:
    """Return whether ``stream`` takes colour: a terminal, and neither ``NO_COLOR`` nor ``TERM=dumb`` is set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def wants_plain_lines() -> bool:
    """Return whether a continuous-integration service runs this, whose log is read by people later."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def describe(done: int, total: int | None, unit: str, seconds: float) -> str:
    """Describe how far a phase is: ``120 MB of 380 MB  31 MB/s`` or ``7 of 83 packages``.

    Args:
        done: units done.
        total: units in all, if known.
        unit: ``B`` for bytes, else a plural noun.
        seconds: since the phase began.
    """
    if unit != "B":
        return f"{done:,}{f' of {total:,}' if total else ''} {unit}"
    rate = human_bytes(int(done / max(seconds, 1e-3)))
    return f"{human_bytes(done)}{f' of {human_bytes(total)}' if total else ''}  {rate}/s"


class _Plain:
    """Lines about one phase for a log."""

    def __init__(self, name: str, total: int | None, unit: str) -> None:
        self._name, self._total, self._unit = name, total, unit
        self._began = self._reported = time.monotonic()
        self._done = 0
        self._lock = threading.Lock()

    def advance(self, amount: int) -> None:
        """Count, and report it now and then."""
        with self._lock:
            self._done += amount
            last = self._done == self._total  # finish() follows with the same amount
            if (now := time.monotonic()) - self._reported >= _EVERY and not last:
                self._reported = now
                self._report_progress(self._total)

    def finish(self) -> None:
        """Print its duration and rate, if it took long enough for anybody to wonder."""
        if time.monotonic() - self._began >= _LONG:
            self._report_progress(None)

    def _report_progress(self, total: int | None) -> None:
        seconds = time.monotonic() - self._began
        amount = describe(self._done, total, self._unit, seconds) if self._done else ""
        print_to(sys.stderr, f"{self._name:<20}{amount:<32}{seconds:.1f} s")


class Console:
    """Prints results to standard output and everything else to standard error.

    Args:
        quiet: print nothing but results asked for with ``--json`` and errors.
        verbose: also print details.
        as_json: the result is one JSON document on standard output; the lines for people go to standard error.
        stderr_only: standard output belongs to another program; all lines go to standard error.
    """

    def __init__(
        self, *, quiet: bool = False, verbose: bool = False, as_json: bool = False, stderr_only: bool = False
    ) -> None:
        self.quiet, self.verbose, self.as_json, self.stderr_only = quiet, verbose, as_json, stderr_only
        self.started = time.monotonic()
        self._bars: progress.Progress | None = None
        self._open = 0
        self._lock = threading.Lock()

    def line(self, label: str, *columns: str, elapsed: bool = False) -> None:
        """Print one aligned line: a label, then columns; ``elapsed`` adds the seconds since the command began."""
        if self.quiet:
            return
        stream = sys.stderr if self.as_json or self.stderr_only else sys.stdout
        label, text = harmless(label), harmless("  ".join(column for column in columns if column))
        if elapsed:
            text = f"{text:<68}  {time.monotonic() - self.started:.1f} s"
        if wants_colour(stream):
            label = f"{_BOLD}{label:<{_LABEL}}{_RESET}"
        print_to(stream, f"{label:<{_LABEL}}{text}".rstrip())

    def detail(self, text: str) -> None:
        """Print a dim line with ``--verbose``."""
        if self.verbose and not self.quiet:
            dim, reset = (_DIM, _RESET) if wants_colour(sys.stderr) else ("", "")
            print_to(sys.stderr, f"{' ' * _LABEL}{dim}{harmless(text)}{reset}")

    def report(self, event: Event) -> None:
        """Print the lines of an event that a use case reports; this makes a console an ``Events``."""
        from envbuild.cli.render.events import lines
        from envbuild.operations.events import JobRefused

        if isinstance(event, JobRefused):
            from envbuild.cli.interrupts import ignore_termination

            ignore_termination()
        self.print_lines(lines(event))

    def print_lines(self, lines: Iterable[Line]) -> None:
        """Print what a renderer made."""
        for line in lines:
            if line.detail:
                self.detail(*line.columns)
            elif line.aside:
                self.note(*line.columns)
            else:
                self.line(line.label, *line.columns, elapsed=line.elapsed)

    def note(self, text: str) -> None:
        """Print a line of envbuild's own next to a program's output: standard error, prefixed."""
        if not self.quiet:
            print_to(sys.stderr, f"envbuild: {harmless(text)}")

    def text(self, text: str, stream: TextIO | None = None) -> None:
        """Print a table or another text of several lines that a renderer made; by default to standard output."""
        with naming_stdout() if stream in (None, sys.stdout) else nullcontext():
            print(harmless(text), end="", file=stream or sys.stdout, flush=True)

    def result(self, value: Any) -> None:
        """Print the JSON result if one was asked for."""
        if self.as_json:
            import json

            text = json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)
            print_to(sys.stdout, CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text))

    @contextmanager
    def phase(self, name: str, total: int | None = None, *, unit: str = "B") -> Iterator[Advance]:
        """Show a bar with amount, rate and time left while the block runs, if standard error is a terminal.

        Phases of several threads share one display. In CI (``CI`` is set, as all services do) there are plain lines:
        one at the end of a phase that took a second, and one a half-minute during it.
        """
        if self.quiet or not sys.stderr.isatty():
            plain = _Plain(name, total, unit) if wants_plain_lines() and not self.quiet else None
            yield plain.advance if plain else lambda amount: None
            if plain:
                plain.finish()
            return
        bars = self._open_bars()
        task = bars.add_task(f"{name:<{_LABEL - 1}}", total=total, amount="")
        began = time.monotonic()

        def advance(amount: int) -> None:
            done = int(bars.tasks[bars.task_ids.index(task)].completed + amount)
            shown = describe(done, total, unit, time.monotonic() - began)
            bars.update(task, advance=amount, amount=shown)

        try:
            yield advance
        finally:
            bars.remove_task(task)
            self._close_bars()

    def _open_bars(self) -> progress.Progress:
        """Start the shared display, or join it."""
        from rich import progress
        from rich.console import Console as RichConsole

        with self._lock:
            if self._bars is None:
                self._bars = progress.Progress(
                    progress.TextColumn("{task.description}"),
                    progress.BarColumn(25),
                    progress.TextColumn("{task.fields[amount]}"),
                    progress.TimeRemainingColumn(),
                    console=RichConsole(stderr=True),
                    transient=True,
                )
                self._bars.start()
            self._open += 1
            return self._bars

    def _close_bars(self) -> None:
        """Leave the shared display; the last one out takes it down."""
        with self._lock:
            self._open -= 1
            if self._open == 0 and self._bars is not None:
                self._bars.stop()
                self._bars = None


def print_error(message: str, hint: str) -> None:
    """Print an error and the next command to type to standard error, at once: ranks of a job share it."""
    first, _, rest = harmless(message).partition("\n")
    if wants_colour(sys.stderr):
        first = f"{_RED}{first}{_RESET}"
    lines = [f"envbuild: {first}", *([rest] if rest else []), *([f"  → {harmless(hint)}"] if hint else [])]
    print_to(sys.stderr, "\n".join(lines))


def print_to(stream: TextIO, text: str) -> None:
    """Print text with a line end, at once; what standard error does not take is lost."""
    if stream is not sys.stderr:
        with naming_stdout():
            print(text, file=stream, flush=True)
        return
    with losing_stderr():
        print(f"{text}\n", end="", file=stream, flush=True)  # one write: ranks of a job share it


@contextmanager
def naming_stdout() -> Iterator[None]:
    """Give the error of a write its file's name: a disk is full, but which?"""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            error.filename = STDOUT
        raise


@contextmanager
def losing_stderr() -> Iterator[None]:
    """Drop what standard error does not take, and all after it: the exit code stays, which is the program's of ``run``.

    A log's disk may be full, a reader gone. A terminal that is closed ends the command as ever.
    """
    try:
        yield
    except OSError as error:
        if error.errno == errno.EIO:
            raise
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), _STDERR)
