"""Time whole processes, two or more in turn, so that ratios hold when the machine's speed drifts."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median


@dataclass(frozen=True, kw_only=True)
class Case:
    """One contestant.

    Attributes:
        name: how the table calls it.
        command: argument vector.
        prepare: called before each run, not timed.
        runs: how often at most; slow peers may run less often than the others.
        slow: a peer that takes long: run as often as ``--slow`` specifies, without a round that does not count.
        cpu: measure seconds of processors, the children's included, instead of the clock's: for costs that are small
            in a run that waits.
        note: what there is to report about the result, asked after each run.
    """

    name: str
    command: Sequence[str]
    cwd: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    prepare: Callable[[], None] = lambda: None
    runs: int = 99
    slow: bool = False
    cpu: bool = False
    note: Callable[[], str] = lambda: ""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """What was measured: seconds of each run in order, peak memory of the largest process in MB, and a remark.

    ``written_mb`` is what the process and its children gave the disk to write in one run, at most: pages that they
    wrote to, without those of files that they removed before the disk had them (proc_pid_io(5), ``write_bytes`` less
    ``cancelled_write_bytes``). What a daemon writes for them is not in it.
    """

    name: str
    seconds: tuple[float, ...]
    peak_mb: float
    written_mb: float
    note: str = ""

    @property
    def median(self) -> float:
        """The figure to quote, in seconds."""
        return median(self.seconds)


def run_case(case: Case) -> tuple[float, float, float]:
    """Run once; returns seconds, peak megabytes and those written.

    Raises:
        RuntimeError: it failed; the message has its output.
    """
    case.prepare()
    environment = {**os.environ, **case.environment}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # every start but the first finds compiled modules
    before = _written()
    began = time.perf_counter()
    process = subprocess.Popen(
        list(case.command),
        cwd=case.cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    if status:
        raise RuntimeError(f"{case.name} failed:\n{output.decode(errors='replace')[-3000:]}")
    if case.cpu:
        seconds = usage.ru_utime + usage.ru_stime
    return seconds, usage.ru_maxrss / 1000, (_written() - before) / 1e6


def _written() -> int:
    """Return the bytes that this process and the children it has waited for gave the disk."""
    found = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(found["write_bytes"]) - int(found["cancelled_write_bytes"])


def measure(cases: Sequence[Case], runs: int, *, slow: int = 3) -> list[Figure]:
    """Run all cases in turn (A B C A B C …), slow ones ``slow`` times; of several rounds, one before does not count.

    Slow ones are in the last rounds: most of them are builds of a daemon, which removes tens of thousands of files at
    their end, and an ext4 without a journal makes files several times as slowly for one to six minutes after that.
    """
    warmup = int(runs > 1)
    most = {case.name: min(case.runs, runs, slow) if case.slow else min(case.runs, runs) for case in cases}
    seconds: dict[str, list[float]] = {case.name: [] for case in cases}
    peaks: dict[str, float] = {case.name: 0.0 for case in cases}
    written: dict[str, float] = {case.name: 0.0 for case in cases}
    notes: dict[str, str] = {}
    for turn in range(-warmup, runs):
        for case in cases:
            late = case.slow and turn < runs - most[case.name]
            if late or turn >= (runs if case.slow else most[case.name]) or (turn < 0 and case.runs < runs):
                continue
            took, peak, wrote = run_case(case)
            if turn >= 0:
                seconds[case.name].append(took)
                peaks[case.name] = max(peaks[case.name], peak)
                written[case.name] = max(written[case.name], wrote)
                notes[case.name] = case.note()
    return [
        Figure(
            name=name,
            seconds=tuple(seconds[name]),
            peak_mb=peaks[name],
            written_mb=written[name],
            note=notes[name],
        )
        for name in seconds
    ]


def table(title: str, figures: Sequence[Figure]) -> str:
    """Render Markdown: the first figure is ours; the last column is ours ÷ theirs, by medians."""
    ours = figures[0]
    lines = [
        f"**{title}**",
        "",
        "| | median s | min–max s | runs | peak MB | written MB | ours ÷ this |",
        "|---|---|---|---|---|---|---|",
    ]
    for figure in figures:
        spread = f"{min(figure.seconds):.2f}–{max(figure.seconds):.2f}"
        text = ", ".join(filter(None, (figure.name, figure.note)))
        ratio = f"{ours.median / figure.median:.2f}"
        took = (
            f"{figure.median:.2f} | {spread} | {len(figure.seconds)} | {figure.peak_mb:.0f} | {figure.written_mb:.0f}"
        )
        lines.append(f"| {text} | {took} | {ratio} |")
    return "\n".join(lines) + "\n"
