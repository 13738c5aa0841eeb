"""Event loops of asyncio with a time of their own, which is the same in each run of an experiment (fix.py).

The time of a loop goes on by one tick each time that it is asked for, the loop itself asks once in each round, and by
what the loop would have waited. It does wait where something comes from elsewhere: another thread runs, or a pipe or
socket is watched. So tasks that sleep, timers (``call_later``) and limits (``wait_for``) come in the same order in each
run. A line that gets the real time (``fix_callers``) has the loop's time go on as the machine's does from then on.
Loops of other packages (uvloop) keep theirs.
"""

from __future__ import annotations

import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .fix_callers import Callers

_monotonic = time.monotonic
_OWN = 1
"""Descriptors that each loop watches: the one that wakes it."""
_TICK = 0.001


class LoopTime:
    """The time of all loops of a process, in seconds.

    Args:
        callers: notes who asks for a time; None if the program is to get the machine's where it asks for the time
            itself, so that only the order of tasks is another one.
        tick: seconds at each question.
    """

    def __init__(self, callers: Callers | None, tick: float = _TICK) -> None:
        self.callers, self.tick, self.now = callers, tick, 1000.0
        self.real: float | None = None
        """The machine's time when the loops' began to follow it."""

    def install(self) -> None:
        """Give it to all loops that are made from now on; the modules are imported for that."""
        from asyncio import base_events, selector_events

        base: Any = base_events.BaseEventLoop
        selecting: Any = selector_events.BaseSelectorEventLoop
        made = selecting.__init__

        def begun(loop: Any, *arguments: Any, **options: Any) -> None:
            made(loop, *arguments, **options)
            loop._selector = _Selector(loop._selector, self)

        def now(loop: Any) -> float:
            frame = sys._getframe(1)
            if _outside(frame):
                if self.callers is None:
                    return _monotonic()
                self._asked("asyncio loop.time", frame)
            return self.read()

        selecting.__init__ = begun
        base.time = now
        for name in ("call_later", "call_at"):
            setattr(base, name, self._noted(getattr(base, name)))

    def read(self) -> float:
        """Return the time, a tick later than before."""
        if self.real is not None:
            begin, self.real = self.real, _monotonic()
            self.now += self.real - begin
        else:
            self.now += self.tick
        return self.now

    def _noted(self, original: Any) -> Callable[..., Any]:
        def scheduled(loop: Any, when: float, *arguments: Any, **options: Any) -> Any:
            frame = sys._getframe(1)
            if not frame.f_code.co_name.startswith("call_"):  # call_later calls call_at
                self._asked(f"asyncio loop.{original.__name__}", frame)
            if self.callers is None and original.__name__ == "call_at" and _outside(frame):
                when += self.now - _monotonic()
            return original(loop, when, *arguments, **options)

        return scheduled

    def _asked(self, call: str, frame: Any) -> None:
        if self.callers is not None and self.callers.real("clock", call, frame) and self.real is None:
            self.real = _monotonic()


def _outside(frame: Any) -> bool:
    """Whether a frame is not asyncio's."""
    return str(frame.f_globals.get("__name__")).partition(".")[0] != "asyncio"


class _Selector:
    """A selector that does not wait where nothing but the time goes on."""

    def __init__(self, selector: Any, time: LoopTime) -> None:
        self._selector, self._time = selector, time

    def __getattr__(self, name: str) -> Any:
        return getattr(self._selector, name)

    def select(self, timeout: float | None = None) -> Any:
        """Return what is ready; the loop's time goes on by what would have been waited in vain."""
        if not timeout or timeout < 0 or self._time.real is not None:
            return self._selector.select(timeout)
        waits = self._waits()
        found = self._selector.select(timeout if waits else 0)
        if not found:
            self._time.now += timeout
        return found

    def _waits(self) -> bool:
        """Whether something may come from elsewhere."""
        import threading

        return len(self._selector.get_map()) > _OWN or threading.active_count() > 1
