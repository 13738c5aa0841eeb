"""Threads and forked processes that begin their work a little later, so that others come first (``turns`` in vary.py).

On a machine that has little to do, threads that were begun one after another come to what they share in that order
nearly always: three runs are equal by luck. So of the first ``_MOST`` ones that a process begins each waits for up to
``_LATEST`` milliseconds before it does what it is for: the earlier ones longer in the second run, any of them in later
runs. Who begins them does not wait. A program whose result depends on who comes first has a race.

In the first run nothing waits, and all is called by the same ways: a thread that shows its stack shows the same one.
"""

from __future__ import annotations

import os
from _thread import allocate_lock

from . import vary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .process import Process

_MOST = 32
"""Threads and forks of one process that wait, which bounds what waiting costs."""
_LATEST = 4
"""Milliseconds, whole ones. A thread's start takes 0.05 of these, a switch between two that compute five."""


def begin(process: Process) -> None:
    """Vary from now on; in a first run too, which gets to the same places by the same ways."""
    number, what = vary.wanted(os.environ)
    if "turns" in what:
        turns = Turns(number)
        turns.forks()
        process.late = turns.next


class Turns:
    """Says how long each thread or fork of this process waits.

    Args:
        number: of the variation; 0 for none.
    """

    def __init__(self, number: int) -> None:
        self.number, self.begun = number, 0

    def forks(self) -> None:
        """Have forked children wait from now on; their own ones are counted anew."""
        late = [0.0]

        def before() -> None:
            late[0] = self.next()

        def after() -> None:
            self.begun = 0
            wait(late[0])

        os.register_at_fork(before=before, after_in_child=after)

    def next(self) -> float:
        """Return the seconds that the thread or fork that is begun next waits."""
        at, self.begun = self.begun, self.begun + 1
        if not self.number or at >= _MOST:
            return 0.0
        if self.number == 1:
            return (_LATEST - at % (_LATEST + 1)) / 1000
        return vary.drawn(self.number * _MOST + at, _LATEST + 1) / 1000


def wait(seconds: float) -> None:
    """Wait, by the real clock: an experiment may have fixed ``time.sleep``."""
    if seconds:
        lock = allocate_lock()
        lock.acquire()
        lock.acquire(True, seconds)
