"""One suspect made the same in all runs, to see whether it is the cause (``ENVBUILD_FIX``, set by ``envbuild verify``).

The value is ``entropy`` or ``clock``, or both with a comma between, and after ``@`` the seconds after which a process
is ended: with a clock that stands nearly still a program may wait for ever. A run with it is an experiment and no run
of the program: nothing of it is kept.

``entropy``: ``os.urandom`` and ``os.getrandom``, and so ``secrets``, ``uuid.uuid4`` and ``random.SystemRandom``,
generators of ``random`` without a seed, and ``/dev/urandom`` opened by Python give a stream that follows from the
process's seed and the thread's name. What C or C++ draws is not reached.

``clock``: the functions of ``time``, ``datetime.now`` and ``uuid.uuid1`` tell a time that goes on by one millisecond at
each call, and by what was slept. The standard library itself keeps the real one where it waits (``threading``,
``queue``, ``selectors``, ``asyncio``).
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from .process import Process

VARIABLE = "ENVBUILD_FIX"
_START, _TICK = 1_700_000_000_000_000_000, 1_000_000
_DEVICES = frozenset(("/dev/urandom", "/dev/random", "/proc/sys/kernel/random/uuid", "/proc/sys/kernel/random/boot_id"))
_READERS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
_OURS = frozenset(("uuid", "timeit", "random", "datetime", "logging"))
"""Modules of the standard library that get the fixed clock: they tell the time to the program."""


def begin(process: Process) -> None:
    """Fix what the variable says. There is no way back."""
    text, _, limit = os.environ.get(VARIABLE, "").partition("@")
    wanted = text.split(",")
    if limit.isdigit():
        import faulthandler

        faulthandler.dump_traceback_later(int(limit), exit=True)
    if "entropy" in wanted:
        Entropy(process).install()
    if "clock" in wanted:
        Clock().install()


class Entropy:
    """A stream of bytes for each thread that is the same in each run."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.counts: dict[str, int] = {}
        os.register_at_fork(after_in_child=self.counts.clear)

    def bytes(self, size: int) -> bytes:
        """Return the next bytes of this thread's stream."""
        from hashlib import sha256

        threading = sys.modules.get("threading")
        name = threading.current_thread().name if threading is not None else ""
        found = b""
        while len(found) < size:
            self.counts[name] = count = self.counts.get(name, 0) + 1
            found += sha256(f"{self.process.seed('entropy')} {name} {count}".encode()).digest()
        return found[:size]

    def install(self) -> None:
        """Put the stream in the place of the system's entropy."""
        import builtins
        import io
        import random

        system: Any = os
        generators: Any = random
        files: Any = builtins

        def urandom(size: int, flags: int = 0, /) -> bytes:
            return self.bytes(size)

        original_seed: Any = random.Random.seed
        original_open = builtins.open

        def seed(generator: Any, a: Any = None, *arguments: Any, **options: Any) -> None:
            if a is None and not isinstance(generator, random.SystemRandom):
                a = int.from_bytes(self.bytes(32), "big")
            original_seed(generator, a, *arguments, **options)

        def opened(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            if not isinstance(file, (str, os.PathLike)) or os.fspath(file) not in _DEVICES:
                return original_open(file, mode, *arguments, **options)
            if "random/" in str(os.fspath(file)):
                text = self.bytes(16).hex()
                data = "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:])) + "\n"
                return io.BytesIO(data.encode()) if "b" in mode else io.StringIO(data)
            return _Device(self)

        system.urandom = system.getrandom = generators._urandom = urandom
        generators.Random.seed = seed
        generators.seed = generators._inst.seed
        files.open = opened


class _Device:
    """``/dev/urandom``, opened."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy

    def read(self, size: int = 0) -> bytes:
        """Return the next bytes."""
        return self._entropy.bytes(size)

    def close(self) -> None:
        """Nothing is open."""

    def __enter__(self) -> _Device:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Clock:
    """A time that goes on by calls, not by itself."""

    def __init__(self) -> None:
        self.now = _START
        self._library = os.path.dirname(os.__file__) + os.sep

    def install(self) -> None:
        """Put the fixed time in the place of the clock's, for all but the standard library's own waiting."""
        for name in _READERS:
            for suffix, nanoseconds in (("", False), ("_ns", True)):
                self._replace(f"{name}{suffix}", nanoseconds)
        clock: Any = time
        sleep = time.sleep

        def slept(seconds: float) -> None:
            self.now += int(seconds * 1e9)
            sleep(seconds)

        clock.sleep = slept
        for name in ("localtime", "gmtime", "ctime"):
            self._with_default(name)
        strftime, localtime = time.strftime, time.localtime

        def written(form: str, at: Any = None) -> str:
            return strftime(form, localtime() if at is None else at)

        clock.strftime = written
        self._replace_datetime()

    def _replace(self, name: str, nanoseconds: bool) -> None:
        original: Any = getattr(time, name)

        def told() -> Any:
            if self._waits(sys._getframe(1)):
                return original()
            self.now += _TICK
            return self.now if nanoseconds else self.now / 1e9

        setattr(time, name, told)

    def _with_default(self, name: str) -> None:
        original: Any = getattr(time, name)

        def told(seconds: Any = None) -> Any:
            if seconds is None:
                self.now += _TICK
                seconds = self.now / 1e9
            return original(seconds)

        setattr(time, name, told)

    def _replace_datetime(self) -> None:
        import datetime
        import uuid

        uuid._generate_time_safe = None  # type: ignore[attr-defined]
        uuid._node = 0x0242AC110002  # type: ignore[attr-defined]
        kind, clock = datetime.datetime, self

        class Meta(type):
            def __instancecheck__(cls, value: object) -> bool:
                return isinstance(value, kind)

        def at(zone: Any = None) -> Any:
            clock.now += _TICK
            return kind.fromtimestamp(clock.now / 1e9, zone)

        fixed = Meta(
            "datetime",
            (kind,),
            {
                "now": staticmethod(lambda tz=None: at(tz)),
                "today": staticmethod(lambda: at()),
                "utcnow": staticmethod(lambda: at(datetime.timezone.utc).replace(tzinfo=None)),
            },
        )
        datetime.datetime = fixed  # type: ignore[misc, assignment]

    def _waits(self, frame: FrameType) -> bool:
        """Whether a frame is the standard library's own, which waits by the clock."""
        file = frame.f_code.co_filename
        library = file.startswith("<frozen") or (file.startswith(self._library) and "-packages" not in file)
        return library and str(frame.f_globals.get("__name__")).partition(".")[0] not in _OURS
