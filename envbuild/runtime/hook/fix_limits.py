"""Limits of time that are not reached, in an experiment (fix.py): what takes longer is waited for.

A wait that has come to its limit goes on, for as long again or ``_PATIENCE`` seconds, whichever is longer: those of
``threading``, ``queue``, ``multiprocessing``, ``concurrent.futures``, ``subprocess``, ``select`` and asyncio, and
alarms and timers (``signal``), locks (``acquire(timeout=)``) and what sockets do (``settimeout``). A program that asks
now and then whether others are done waits in vain; so one line may do that for ``_LINE`` seconds, and all together for
``_ALL``. What the project does not call keeps its limits: packages wait in threads of their own for nothing but the
next moment.
"""

from __future__ import annotations

import functools
import sys
import time
from _thread import get_ident

from .fix_clock import forget_cached, members_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

    from .fix_callers import Callers

_PATIENCE, _LINE, _ALL = 3.0, 4.0, 15.0
"""Seconds that a wait goes on at least, and that those of one line, and all, may do so in vain."""
_ORDER = f"{__name__.rpartition('.')[0]}.fix_order"
"""The module that is there if tasks are done in order: what it waits for is no limit of the program's."""
_LOOPS = ("asyncio.tasks", "asyncio.timeouts")
"""Modules that keep to limits of tasks by a loop's timers; ``asyncio.sleep`` is no limit."""


current: Limits | None = None
"""The one of this process, for copies of the standard library's modules that are imported later."""


class Limits:
    """Waits that go on beyond their limits.

    Args:
        callers: notes who waits with a limit.
    """

    def __init__(self, callers: Callers) -> None:
        self.callers = callers
        self.left, self.of_lines = _ALL, dict[str, float]()
        self.monotonic = time.monotonic
        self._within: set[int] = set()
        self._alarms_set: dict[int, tuple[float, float, str]] = {}
        """When the program's alarms were to come, how much later they are to come, and the lines that set them."""

    def install(self) -> None:
        """Put these waits in the place of the libraries'; the modules are imported for that."""
        import multiprocessing.connection
        import select
        import selectors
        import subprocess
        import threading
        from multiprocessing import queues, synchronize

        global current
        current = self
        condition: Any = threading.Condition
        condition.wait = self._again(condition.wait, 0, lambda found: not found)
        thread: Any = threading.Thread
        join = thread.join
        thread.join = self._again(join, 0, lambda _, waiting: waiting.is_alive(), whose=True)
        self.of_queues(queues)
        program: Any = subprocess.Popen
        for name, at in (("wait", 0), ("communicate", 1)):
            setattr(program, name, self._again(getattr(program, name), at, None, (subprocess.TimeoutExpired,)))
        self.of_connections(multiprocessing.connection)
        chosen: Any = select
        chosen.select = self._again(chosen.select, 3, lambda found: not any(found))
        for kind in (selectors.SelectSelector, selectors.PollSelector, selectors.EpollSelector):
            selector: Any = kind
            selector.select = self._again(selector.select, 0, lambda found: not found)
        self._locks()
        self.of_locks(synchronize)
        self._futures()
        self._sockets()
        self._loops()
        self._alarms()

    def more(self, call: str, frame: FrameType | None, seconds: float) -> tuple[float, str]:
        """Note a limit, and return how many seconds later it is to be reached, and the line; 0: it stays as it is."""
        me = get_ident()
        if me in self._within or (_ORDER in sys.modules and sys.modules[_ORDER].is_waiting(me)):
            return 0.0, ""
        place = self.callers.note("limits", call, frame)
        return self._more_of(place, seconds), place

    def _more_of(self, place: str, seconds: float) -> float:
        """Return how many seconds later the limit of a line is to be reached; 0: it stays as it is."""
        if place in self.callers.wanted or not self.callers.is_of_project(place):
            return 0.0
        left = min(self.left, self.of_lines.setdefault(place, _LINE))
        return max(min(left, max(_PATIENCE, seconds)), 0.0)

    def spend(self, place: str, seconds: float) -> None:
        """Take from what a line may wait in vain, where it did."""
        self.callers.note_reached(place)
        self.left -= seconds
        self.of_lines[place] = self.of_lines.get(place, _LINE) - seconds

    def _again(
        self,
        original: Any,
        at: int,
        in_vain: Callable[..., bool] | None,
        errors: tuple[type[Exception], ...] = (),
        *,
        whose: bool = False,
        call: str = "",
    ) -> Any:
        """Return a wait that is begun again where its limit was reached.

        Args:
            original: waits.
            at: which of its arguments is the limit; the object itself is not counted.
            in_vain: whether what it returned shows that; with ``whose``, it is given the object too.
            errors: what shows it otherwise.
            whose: as above.
            call: what it is called in the record; by its module and name if empty.
        """
        call = call or f"{original.__module__}.{original.__qualname__}"
        method = not isinstance(original, type(len)) and original.__qualname__.find(".") > 0
        at += method

        @functools.wraps(original)
        def waited(*arguments: Any, **options: Any) -> Any:
            seconds = options.get("timeout", arguments[at] if len(arguments) > at else None)
            if not isinstance(seconds, (int, float)) or seconds <= 0 or _of_asyncio(sys._getframe(1)):
                return original(*arguments, **options)
            more, place = self.more(call, sys._getframe(1), seconds)
            if more <= 0:
                return original(*arguments, **options)
            me = get_ident()
            self._within.add(me)
            try:
                try:
                    found = original(*arguments, **options)
                except errors:
                    pass
                else:
                    given = (found, arguments[0]) if whose else (found,)
                    if in_vain is None or not in_vain(*given):
                        return found
                begin = self.monotonic()
                if original.__name__ == "communicate":  # what was to be sent is on its way
                    arguments, options = (*arguments[:1], None, *arguments[2:]), {**options}
                    options.pop("input", None)
                if "timeout" in options:
                    options["timeout"] = more
                else:
                    arguments = (*arguments[:at], more, *arguments[at + 1 :])
                try:
                    return original(*arguments, **options)
                finally:
                    spent = self.monotonic() - begin
                    if spent >= more:
                        self.spend(place, spent)
            finally:
                self._within.discard(me)

        return waited

    def _locks(self) -> None:
        """Reach the locks of C in their types: those that libraries have made are waited for by the program too."""
        import threading

        for kind, name in ((type(threading.Lock()), "Lock"), (type(threading.RLock()), "RLock")):
            members = members_of(kind)
            if "acquire" in members:
                members["acquire"] = self._again(
                    members["acquire"], 1, lambda found: not found, call=f"threading.{name}.acquire"
                )
                forget_cached(kind)

    def of_locks(self, module: Any) -> None:
        """The same for locks that processes share; ``module`` is ``multiprocessing.synchronize``, or a copy of it."""
        module.Condition.wait = self._again(module.Condition.wait, 0, lambda found: not found)
        shared = module.SemLock
        make_methods = shared._make_methods

        def made(lock: Any) -> None:
            make_methods(lock)
            lock.acquire = self._again(lock.acquire, 1, lambda found: not found, call="multiprocessing.Lock.acquire")

        shared._make_methods = made

    def _futures(self) -> None:
        """Give what goes through results more time from the beginning: it asks for the time between them itself."""
        from concurrent import futures
        from concurrent.futures import _base

        base: Any = _base
        base.Executor.map = self._through(base.Executor.map, base.TimeoutError)
        base.as_completed = self._through(base.as_completed, base.TimeoutError)
        futures.as_completed = base.as_completed

    def _through(self, original: Any, late: type[Exception]) -> Any:
        @functools.wraps(original)
        def begun(*arguments: Any, **options: Any) -> Any:
            if original.__name__ == "as_completed" and len(arguments) > 1:
                arguments, options = arguments[:1], {**options, "timeout": arguments[1]}
            seconds = options.get("timeout")
            if not isinstance(seconds, (int, float)) or seconds <= 0:
                return original(*arguments, **options)
            more, place = self.more(f"{original.__module__}.{original.__qualname__}", sys._getframe(1), seconds)
            if more <= 0:
                return original(*arguments, **options)
            return until(original(*arguments, **{**options, "timeout": seconds + more}), place, more)

        def until(results: Any, place: str, more: float) -> Any:
            try:
                yield from results
            except late:
                self.spend(place, more)
                raise

        return begun

    def of_queues(self, module: Any) -> None:
        """The same for queues of processes; ``module`` is ``multiprocessing.queues``, or a copy of it."""
        from queue import Empty

        module.Queue.get = self._again(module.Queue.get, 1, None, (Empty,))

    def of_connections(self, module: Any) -> None:
        """The same for pipes; ``module`` is ``multiprocessing.connection``, or a copy of it."""
        module.wait = self._again(module.wait, 1, lambda found: not found)

    def _sockets(self) -> None:
        """Receive and accept again where a limit was reached; its line is the one that set it.

        Where they send or connect, a part of it is on its way then: these have more time from the beginning.
        """
        import socket
        from weakref import WeakKeyDictionary

        kind: Any = socket.socket
        places: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        limit = kind.settimeout

        def limited(one: Any, seconds: Any) -> None:
            if isinstance(seconds, (int, float)) and seconds > 0:
                places[one] = self.callers.note("limits", "socket.settimeout", sys._getframe(1))
            limit(one, seconds)

        def again(original: Any) -> Any:
            @functools.wraps(original)
            def received(one: Any, *arguments: Any, **options: Any) -> Any:
                try:
                    return original(one, *arguments, **options)
                except TimeoutError:
                    seconds, place = one.gettimeout(), places.get(one, "")
                    more = self._more_of(place, seconds) if seconds else 0.0
                    if more <= 0:
                        raise
                begin = self.monotonic()
                limit(one, more)
                try:
                    return original(one, *arguments, **options)
                finally:
                    limit(one, seconds)
                    spent = self.monotonic() - begin
                    if spent >= more:
                        self.spend(place, spent)

            return received

        def longer(original: Any) -> Any:
            @functools.wraps(original)
            def sent(one: Any, *arguments: Any, **options: Any) -> Any:
                seconds, place = one.gettimeout(), places.get(one, "")
                more = self._more_of(place, seconds) if seconds else 0.0
                if more <= 0:
                    return original(one, *arguments, **options)
                begin = self.monotonic()
                limit(one, seconds + more)
                try:
                    return original(one, *arguments, **options)
                finally:
                    limit(one, seconds)
                    spent = self.monotonic() - begin
                    if spent >= seconds + more:
                        self.spend(place, spent)

            return sent

        kind.settimeout = limited
        for name in ("connect", "connect_ex", "send", "sendall", "sendto"):
            setattr(kind, name, longer(getattr(kind, name)))
        for name in ("recv", "recv_into", "recvfrom", "recvfrom_into", "accept"):
            setattr(kind, name, again(getattr(kind, name)))

    def _loops(self) -> None:
        """Set timers of asyncio that are limits later."""
        from asyncio import base_events

        loops: Any = base_events.BaseEventLoop
        for name in ("call_later", "call_at"):
            setattr(loops, name, self._later(getattr(loops, name)))

    def _later(self, original: Any) -> Any:
        @functools.wraps(original)
        def scheduled(loop: Any, when: float, callback: Any, *arguments: Any, **options: Any) -> Any:
            frame = sys._getframe(1)
            if frame.f_globals.get("__name__") not in _LOOPS or frame.f_code.co_name == "sleep":
                return original(loop, when, callback, *arguments, **options)
            seconds = when if original.__name__ == "call_later" else when - loop.time()
            more, place = self.more(f"asyncio.{frame.f_code.co_name}", frame, seconds)
            if more <= 0:
                return original(loop, when, callback, *arguments, **options)

            def reached(*given: Any) -> None:
                self.spend(place, more)
                callback(*given)

            return original(loop, when + more, reached, *arguments, **options)

        return scheduled

    def _alarms(self) -> None:
        import signal

        alarms: Any = signal
        alarm, timer = alarms.alarm, alarms.setitimer

        def later(which: int, seconds: float, call: str, frame: FrameType) -> float:
            when, spent, line = self._alarms_set.pop(which, (0.0, 0.0, ""))
            if line and self.monotonic() >= when:
                self.spend(line, spent)
            more, place = self.more(call, frame, seconds) if seconds > 0 else (0.0, "")
            if more > 0:
                self._alarms_set[which] = (self.monotonic() + seconds + more, more, place)
            return more

        def set_alarm(seconds: int) -> Any:
            return alarm(seconds + int(later(alarms.ITIMER_REAL, seconds, "signal.alarm", sys._getframe(1))))

        def set_timer(which: Any, seconds: float, interval: float = 0.0) -> Any:
            more = later(int(which), seconds, "signal.setitimer", sys._getframe(1))
            return timer(which, seconds + more, interval + more if interval > 0 else interval)

        alarms.alarm, alarms.setitimer = set_alarm, set_timer


def _of_asyncio(frame: FrameType) -> bool:
    """Whether a loop waits for whatever comes next (fix_loop.py is between), or a selector of Python does."""
    module = str(frame.f_globals.get("__name__"))
    return module.partition(".")[0] in ("asyncio", "selectors") or module.endswith(".fix_loop")
