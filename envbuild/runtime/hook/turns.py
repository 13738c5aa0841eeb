"""Threads, forks and Pythons that begin their work a little later, so that others come first (``turns`` in vary.py).

On a machine that has little to do, threads that were begun one after another come to what they share in that order
nearly always: three runs are equal by luck. So of the first ``_MOST`` ones that a process begins each waits for up to
``_LATEST`` milliseconds before it does what it is for: the earlier ones longer in the second run, any of them in later
runs. Who begins them does not wait. Each waits a little in the midst of its work, too (interruptions.py), and those
that compute at once take turns more often. A program whose result depends on who comes first has a race. Pythons that
are started wait ten times as long before they begin, since their starts take longer; those that a shell starts, by
their place.

In the first run nothing waits, and all is called by the same ways: a thread that shows its stack shows the same one,
and objects have the same addresses where these are fixed.
"""

from __future__ import annotations

import os
import sys
from _thread import allocate_lock
from zlib import crc32

from . import vary
from .frameworks.starts import LATE
from .interruptions import Interruptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .process import Process

_MOST = 32
"""Threads and forks of one process that wait, which bounds what waiting costs."""
_LATEST = 4
"""Milliseconds, whole ones. A thread's start takes 0.05 of these, a switch between two that compute five."""
_INTERVAL, _SHORTEST = 0.001, 0.0002
"""Seconds after which a thread that waits for another may go on: in the second run, and at least. CPython has 0.005."""
_OF_PROGRAMS = 10
"""Times as long as a thread a Python waits, whose start takes 20 to 60 ms with the hook."""


def begin(process: Process) -> None:
    """Vary from now on; in a first run too, which gets to the same places by the same ways."""
    number, what = vary.wanted(os.environ)
    if "turns" in what:
        turns = Turns(number)
        turns.forks()
        intervals = sys.getswitchinterval(), max(_INTERVAL / max(number, 1), _SHORTEST)
        sys.setswitchinterval(intervals[number > 0])
        process.turn = turns.begin
        process.own_turn = turns.interrupt_own(process.path)
        process.late_program = turns.next_program
        late = os.environ.get(LATE, "")
        if late.isdigit() and len(late) < 4:
            process.own_wait = int(late) / 1000
        elif "exec " in process.path:  # another program, such as a shell, started it
            at = crc32(process.path.encode("utf-8", "surrogateescape")) % _MOST
            process.own_wait = turns.late(at) * _OF_PROGRAMS / 1000


class Turns:
    """Says how long each thread or fork of this process waits.

    Args:
        number: of the variation; 0 for none.
    """

    def __init__(self, number: int) -> None:
        self.number, self.begun, self.started = number, 0, 0

    def begin(self) -> Callable[[], None]:
        """Return what the thread calls that is begun next: it waits, and is interrupted from then on."""
        at, late = self.begun, self.next()

        def turn() -> None:
            wait(late)
            self._interrupt(at, wait)

        return turn

    def _interrupt(self, at: int, waits: Callable[[float], None]) -> None:
        """Interrupt the thread or fork that was begun as the one of a number."""
        if at < _MOST:
            Interruptions(self.number and self.number * _MOST + at, waits).begin()

    def interrupt_own(self, path: str) -> Callable[[], None]:
        """Return what interrupts the first thread of a Python that others started, by its place among these.

        For longer: of a pool's workers the first has done all tasks that are short before the others are there.
        """
        return lambda: self._interrupt(crc32(path.encode("utf-8", "surrogateescape")) % _MOST, wait_for_starts)

    def forks(self) -> None:
        """Have forked children wait from now on; their own ones are counted anew."""
        late = [0.0]

        def before() -> None:
            late[0] = self.next()

        def after() -> None:
            at, self.begun, self.started = self.begun - 1, 0, 0
            wait(late[0])
            self._interrupt(at, wait)

        os.register_at_fork(before=before, after_in_child=after)

    def next(self) -> float:
        """Return the seconds that the thread or fork that is begun next waits."""
        at, self.begun = self.begun, self.begun + 1
        return self.late(at) / 1000

    def next_program(self) -> str:
        """Return the milliseconds that the Python waits which is started next."""
        at, self.started = self.started, self.started + 1
        return str(self.late(at) * _OF_PROGRAMS)

    def late(self, at: int) -> int:
        """Return the milliseconds that the thread waits which is begun as the one of a number."""
        if not self.number or at >= _MOST:
            return 0
        return _LATEST - at % (_LATEST + 1) if self.number == 1 else vary.drawn(self.number * _MOST + at, _LATEST + 1)


def wait_for_starts(seconds: float) -> None:
    """Wait so much longer as a Python takes to start than a thread."""
    wait(seconds * _OF_PROGRAMS)


def wait(seconds: float) -> None:
    """Wait, by the real clock: an experiment may have fixed ``time.sleep``. Not when this Python has nearly ended."""
    if seconds and allocate_lock is not None:
        lock = allocate_lock()
        lock.acquire()
        lock.acquire(True, seconds)
