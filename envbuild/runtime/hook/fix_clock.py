"""A clock that is the same in each run of an experiment (fix.py).

The functions of ``time``, ``datetime.now``, ``uuid.uuid1``, ``os.times``, ``resource.getrusage`` and ``os.wait4``
return a time that goes on by one millisecond at each call, and by what was slept. Threads that run nothing of the
program's have one that goes on for them alone: those of a notebook's kernel send what was printed, and look for their
parent once in a second. The standard library itself keeps the real one where it waits (``threading``, ``queue``,
``selectors``, ``asyncio``).
Those of ``time`` are bound methods: where one is an attribute of a class, as ``time.localtime`` is of
``logging.Formatter``, it is called without the object, like a function of C.

Where lines get what is real (``!``), each other line has a time of its own, which goes on by its own calls and by what
was slept: how often one asks may depend on the real time that another one gets, and must not move what the others get.
Their first times are as far apart as their lines are in the file, so that none of two follows at once.

``clock=START/TICK/SCALE`` in the variable sets the first time and the step in nanoseconds, and how many seconds go by
for one that is slept: a value that follows these exactly is a measurement (``verification.clockwork``).
"""

from __future__ import annotations

import os
import sys
import time
from types import MethodType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from .fix_callers import Callers

_START, _TICK, _SECOND = 1_700_000_000_000_000_000, 1_000_000, 1_000_000_000
_PARTS = 1000
"""Of a tick, one for each line of a file."""
_READERS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
_WAITING = frozenset(
    (
        "asyncio", "concurrent", "ftplib", "http", "multiprocessing", "queue", "select", "selectors", "signal",
        "smtplib", "socket", "socketserver", "ssl", "subprocess", "threading", "urllib", "xmlrpc",
    )
)  # fmt: skip
"""Modules of the standard library that wait by the clock; others return the time to the program."""
_JUDGING = frozenset(("http.cookiejar", "http.cookies", "http.server"))
"""Of these, the ones that do not wait: they leave out what is out of date, or give an answer its date."""


class Clock:
    """A time that goes on by calls, not by itself.

    Args:
        callers: notes who asks.
        setting: ``START/TICK/SCALE``; empty for what is usual.
    """

    def __init__(self, callers: Callers, setting: str = "") -> None:
        self.now, self.tick, self.scale = map(int, setting.split("/")) if setting else (_START, _TICK, 1)
        self.callers = callers
        self.aside = 0
        """By how much the time goes on for threads that run nothing of the program's, and for these alone."""
        self.counts: dict[str, int] = {}
        self._library = os.path.dirname(os.__file__) + os.sep

    def read(self, call: str, frame: FrameType | None) -> int | None:
        """Return the time for a call from a frame, in nanoseconds and a tick later than before; None: the real one."""
        place = self.callers.note("clock", call, frame)
        alone = self.callers.is_of_package_alone(frame)
        if not self.callers.wanted:
            if alone:
                self.aside += self.tick
                return self.now + self.aside
            self.now += self.tick
            return self.now
        if place in self.callers.wanted:
            return None
        self.counts[place] = count = self.counts.get(place, 0) + 1
        line = place.rpartition(":")[2]  # "None" of code that has none, such as some that an exception ends
        aside = self.aside if alone else 0
        return self.now + aside + count * self.tick + (int(line) if line.isdecimal() else 0) * (self.tick // _PARTS)

    def install(self) -> None:
        """Put the fixed time in the place of the clock's, for all but the standard library's own waiting."""
        for name in _READERS:
            for suffix, nanoseconds in (("", False), ("_ns", True)):
                self._replace(f"{name}{suffix}", nanoseconds)
        clock: Any = time
        sleep = time.sleep

        def slept(self: Clock, seconds: float) -> None:
            passed = int(seconds * 1e9) * self.scale
            if self.callers.is_of_package_alone(sys._getframe(1)):
                self.aside += passed
            else:
                self.now += passed
            sleep(seconds)

        clock.sleep = MethodType(slept, self)
        for name in ("clock_gettime", "clock_gettime_ns"):
            self._of_any(name)
        self._of_processes()
        for name in ("localtime", "gmtime", "ctime"):
            self._with_default(name)
        for name, before in (("strftime", 1), ("asctime", 0)):
            self._written(name, before)
        self._replace_datetime()
        self._replace_profiler()

    def _replace(self, name: str, nanoseconds: bool) -> None:
        original: Any = getattr(time, name)

        def replacement(self: Clock) -> Any:
            if self._waits(sys._getframe(1)):
                return original()
            now = self.read(f"time.{name}", sys._getframe(1))
            if now is None:
                return original()
            return now if nanoseconds else now / _SECOND

        setattr(time, name, MethodType(replacement, self))

    def _of_any(self, name: str) -> None:
        """Replace a function that is given which clock it is to read: all show the same time here."""
        original: Any = getattr(time, name)

        def replacement(self: Clock, clock: int) -> Any:
            now = self.read(f"time.{name}", sys._getframe(1))
            if now is None:
                return original(clock)
            return now if name.endswith("_ns") else now / _SECOND

        setattr(time, name, MethodType(replacement, self))

    def _of_processes(self) -> None:
        """Replace the times that processes have used: the clock's, and in the system as much as has passed."""
        import resource

        system, module, begin = os, resource, self.now
        times: Any = os.times
        usage: Any = resource.getrusage

        def all_times() -> Any:
            read = self.read("os.times", sys._getframe(1))
            if read is None:
                return times()
            now, passed = read / _SECOND, (read - begin) / _SECOND
            return os.times_result((now, passed, now, passed, now))

        def getrusage(who: int) -> Any:
            found = usage(who)
            now = self.read("resource.getrusage", sys._getframe(1))
            if now is None:
                return found
            return type(found)((now / _SECOND, (now - begin) / _SECOND, *found[2:]))

        def with_usage(name: str, wait: Any) -> Any:
            def waited(*arguments: Any) -> Any:
                child, status, found = wait(*arguments)
                now = self.read(f"os.{name}", sys._getframe(1))
                if now is not None:
                    found = type(found)((now / _SECOND, (now - begin) / _SECOND, *found[2:]))
                return child, status, found

            return waited

        system.times = all_times
        module.getrusage = getrusage
        for name in ("wait3", "wait4"):
            setattr(system, name, with_usage(name, getattr(system, name)))

    def _with_default(self, name: str) -> None:
        original: Any = getattr(time, name)

        def replacement(self: Clock, seconds: Any = None) -> Any:
            if seconds is None:
                now = self.read(f"time.{name}", sys._getframe(1))
                seconds = now / _SECOND if now is not None else None
            return original(seconds) if seconds is not None else original()

        setattr(time, name, MethodType(replacement, self))

    def _written(self, name: str, before: int) -> None:
        """Replace a function that writes the time; ``before`` is how many arguments it has without one."""
        original: Any = getattr(time, name)
        local: Any = time.localtime

        def replacement(self: Clock, *arguments: Any) -> Any:
            if len(arguments) == before:
                now = self.read(f"time.{name}", sys._getframe(1))
                if now is not None:
                    arguments = (*arguments, local(now / _SECOND))
            return original(*arguments)

        setattr(time, name, MethodType(replacement, self))

    def _replace_datetime(self) -> None:
        """Replace methods in the type itself: another class could not be pickled, and C code warns of its size."""
        import datetime
        import uuid
        import warnings

        uuid._generate_time_safe = None  # type: ignore[attr-defined]
        uuid._node = 0x0242AC110002  # type: ignore[attr-defined]
        kind, utc = datetime.datetime, datetime.timezone.utc
        members = members_of(kind)
        if not members:
            return
        real, moment = members["now"], members["fromtimestamp"]
        with warnings.catch_warnings(record=True) as deprecated:
            warnings.simplefilter("always")
            kind.utcnow()

        def at(call: str, cls: Any, zone: Any = None) -> Any:
            read = self.read(f"datetime.datetime.{call}", sys._getframe(2))
            if read is None:
                return real.__get__(None, cls)(zone)
            return moment.__get__(None, cls)(read / _SECOND, zone)

        def now(cls: Any, tz: Any = None) -> Any:
            return at("now", cls, tz)

        def today(cls: Any) -> Any:
            return at("today", cls)

        def utcnow(cls: Any) -> Any:
            for each in deprecated:
                warnings.warn(each.message, each.category, stacklevel=2)
            return at("utcnow", cls, utc).replace(tzinfo=None)

        members.update((each.__name__, classmethod(each)) for each in (now, today, utcnow))
        forget_cached(kind)

    def _replace_profiler(self) -> None:
        """Have profilers in C (``cProfile``) count a tick for each of their looks at the clock."""
        try:
            import _lsprof
        except ImportError:  # an interpreter without it
            return
        from itertools import count

        module: Any = _lsprof
        clock = self

        class Profiler(module.Profiler):  # type: ignore[misc]
            def __init__(self, timer: Any = None, timeunit: float = 0.0, *arguments: Any, **options: Any) -> None:
                if timer is None and clock.read("cProfile.Profile", sys._getframe(1)) is not None:
                    timer, timeunit = count().__next__, clock.tick / _SECOND
                super().__init__(timer, timeunit, *arguments, **options)

        module.Profiler = Profiler

    def _waits(self, frame: FrameType) -> bool:
        """Whether a frame is the standard library's own, which waits by the clock."""
        file = frame.f_code.co_filename
        library = file.startswith("<frozen") or (file.startswith(self._library) and "-packages" not in file)
        name = str(frame.f_globals.get("__name__"))
        return library and name.partition(".")[0] in _WAITING and name not in _JUDGING


def members_of(kind: type) -> dict[str, Any]:
    """Return the dictionary of a type that allows no changes; empty if this interpreter gives none."""
    import gc

    found = gc.get_referents(kind.__dict__)
    return found[0] if found and type(found[0]) is dict else {}


def forget_cached(kind: type) -> None:
    """Let the interpreter look up the methods of a type and of those derived from it anew."""
    import ctypes

    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))
