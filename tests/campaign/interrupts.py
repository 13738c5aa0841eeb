"""Ctrl-C at random moments of every command: how long until it has ended, and until nothing of it runs any more.

Part of the commands get a second Ctrl-C soon after the first. After each the same command must succeed.
"""

from __future__ import annotations

import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.campaign import leaks
from tests.campaign.kills import ENGINES, Engine, Tally, Worker
from tests.campaign.workshop import Workshop
from tests.support.cli import ROOT, finish, listens

STEPS = ("lock", "build", "output", "load", "run", "verify", "push", "pull")
_STARTING = "Fatal Python error: init_"
_HANGS = 600.0
"""Seconds after which a command is taken to hang."""
LIMIT = 1.0
"""Seconds after which a command that somebody interrupted is late."""
_AGAIN = 0.15
"""Seconds until the second Ctrl-C: longer than the time in which it counts as the first."""


@dataclass(kw_only=True)
class Ends:
    """Seconds from Ctrl-C to the end: of the process, and of everything that it started."""

    once: list[float] = field(default_factory=list)
    twice: list[float] = field(default_factory=list)
    all_gone: list[float] = field(default_factory=list)
    forced: int = 0


@dataclass(kw_only=True)
class Interrupter(Worker):
    """Interrupts the commands of one project."""

    ends: dict[str, Ends] = field(default_factory=dict)
    steps: Sequence[str] = STEPS

    def _kill(self, step: str, words: Sequence[str], environ: dict[str, str]) -> None:
        delay = self.random.uniform(0.0, 1.1 * max(self.tally.typical(step), 0.4))
        twice = self.random.random() < 0.25
        process = self.project.start(*words, **environ)
        ended: list[float] = []
        waiting = threading.Thread(target=lambda: (process.wait(), ended.append(time.monotonic())))
        waiting.start()
        while not ended and not listens(process.pid):
            waiting.join(0.01)
        waiting.join(delay)
        if ended:
            finish(process)
            self.tally.late[step] += 1
            return
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        if twice:
            waiting.join(_AGAIN)
            began = time.monotonic()
            if not ended:
                process.send_signal(signal.SIGINT)
        waiting.join(_HANGS)
        self._note(step, process, (ended[0] if ended else began + _HANGS) - began, twice=twice)
        left = leaks.running(self.mark)
        while left and time.monotonic() < began + _HANGS:
            time.sleep(0.02)
            left = leaks.running(self.mark)
        self.ends.setdefault(step, Ends()).all_gone.append(time.monotonic() - began)

    def _note(self, step: str, process: subprocess.Popen[bytes], seconds: float, *, twice: bool) -> None:
        done = finish(process, timeout=_HANGS)
        ends = self.ends.setdefault(step, Ends())
        (ends.twice if twice else ends.once).append(max(seconds, 0.0))
        ends.forced += "in the background" in done.err
        with self.tally.lock:
            self.tally.kills[step] += 1
            self.tally.engines[self.engine.kind] += 1
            self.pids.append(process.pid)
        # An interrupt goes to the program once it runs: Python, in the middle of its start, ends with 1 and this text,
        # and later with a traceback, in which nothing is of the code that runs outside.
        of_program = step == "run" and done.code == 1 and _STARTING in done.err
        faulty = "Traceback" in done.err and (step != "run" or f'File "{ROOT}/' in done.err)
        if not of_program and (done.code not in (0, 130, -signal.SIGINT) or faulty):
            self.tally.fault(f"interrupted {step}: exit {done.code}\n{done.err}")
        if seconds > LIMIT:
            self.report(f"  late: {step} on {self.engine.kind}: {seconds:.2f} s after {'two' if twice else 'one'}")


def campaign(
    shop: Workshop,
    seed: int,
    count: int,
    report: Callable[[str], None],
    engines: Sequence[Engine] = ENGINES,
    minutes: float = float("inf"),
) -> tuple[Tally, dict[str, Ends]]:
    """Interrupt ``count`` commands, one after the other; returns what is wrong, and the seconds by command."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what it starts in the background
    tally = Tally(count=count, deadline=time.monotonic() + 60 * minutes)
    ends: dict[str, Ends] = {}
    (subject, *_) = shop.subjects
    worker = Interrupter.of(shop, subject, tally, seed, report, engines)
    worker.ends = ends
    worker.work()
    worker.settle()
    return tally, ends


def figures(tally: Tally, ends: dict[str, Ends]) -> list[str]:
    """Return the lines that state how long it took."""
    lines = ["command   n  median s  longest s  over 1 s  forced  second: n  longest s  all gone: longest s"]
    for step, each in ends.items():
        lines.append(_line(step, each))
    whole = Ends(
        once=[s for each in ends.values() for s in each.once],
        twice=[s for each in ends.values() for s in each.twice],
        all_gone=[s for each in ends.values() for s in each.all_gone],
        forced=sum(each.forced for each in ends.values()),
    )
    by_engine = ", ".join(f"{kind} {number}" for kind, number in sorted(tally.engines.items()))
    return [*lines, _line("all", whole), f"{by_engine}; {len(tally.faults)} faults"]


def _line(step: str, ends: Ends) -> str:
    median = statistics.median(ends.once) if ends.once else 0.0
    late = sum(seconds > LIMIT for seconds in ends.once)
    return (
        f"{step:<8} {len(ends.once):>3}  {median:>8.2f}  {max(ends.once, default=0):>9.2f}  {late:>8}  {ends.forced:>6}"
        f"  {len(ends.twice):>9}  {max(ends.twice, default=0):>9.2f}  {max(ends.all_gone, default=0):>19.2f}"
    )
