"""Signals that end a command: it unwinds, and ends within a second even where something does not let go.

The first SIGINT, SIGTERM or SIGHUP raises ``KeyboardInterrupt`` in the main thread, so that containers and temporary
files go. Unwinding may wait for a thread that reads from a socket, or the main thread may be inside a library that
hears no signal; so a thread that waits for nothing but signals ends the process after ``GRACE`` seconds. A second
signal ends it at once. What is left then is removed by a separate process, or by the next command.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

GRACE = 0.5
"""Seconds from a signal to the end of the process, so that all is over within one."""

_TWICE = 0.05
"""Seconds in which a second signal counts as the first: uv, npm and timeout pass Ctrl-C on to a child that has it."""

_RELAYED = 3
"""So many Ctrl-C end envbuild even while it relays signals to a program: the second one is the program's SIGKILL."""

_UNWINDING = 0.4
"""Seconds of processor time that a command has to clean up after itself."""

_NO_LIMIT = 10 * 366 * 86400
"""Seconds of processor time that no command uses up; the kernel's timers take no number of them."""

OUT_OF_TIME = (signal.SIGXCPU, signal.SIGPROF)
"""Signals that end a command because its processor time is at its end."""
_NO_ROOM = 14
"""Exit code of such an end, ``BuildError``'s, without an import."""

allowed_time: list[int] = []
"""Seconds of processor time that this process has had at its start: with each SIGXCPU the kernel allows one more."""

_SHOW_CURSOR = b"\x1b[?25h"


@contextmanager
def ended_by_signals(ended: list[int], *, last: bool = False) -> Iterator[None]:
    """Let SIGINT, SIGTERM and SIGHUP end the block; their numbers are appended to ``ended``.

    A signal that was ignored when the command started, as ``nohup`` does, stays ignored. Does nothing in a thread.

    With ``last`` so does what announces the end of this process's processor time.

    Args:
        ended: receives the numbers.
        last: the process ends after this block: one that a signal ended is watched to its very end, since what it still
            prints may wait for a reader.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        ended.append(number)
        raise KeyboardInterrupt

    # In the background of a shell SIGINT is ignored; a caller's own handler is left alone.
    numbers = [signal.SIGTERM] + [signal.SIGHUP] * (signal.getsignal(signal.SIGHUP) != signal.SIG_IGN)
    numbers += [signal.SIGINT] * (signal.getsignal(signal.SIGINT) is signal.default_int_handler)
    if last:
        numbers += _signals_of_processor_time()
    before = {number: signal.signal(number, stop) for number in numbers}
    watch = _Watch(stop)
    try:
        yield
    finally:
        if not (last and ended):
            if signal.SIGPROF in before:
                signal.setitimer(signal.ITIMER_PROF, 0)
            watch.close()
            for number, handler in before.items():
                if not (last and signal.getsignal(number) is signal.SIG_IGN):
                    signal.signal(number, handler)


def _signals_of_processor_time() -> list[signal.Signals]:
    """Return the signals that announce the end of this process's processor time (``ulimit -t``); none without a limit.

    Where both limits are equal, as shells set them, the kernel sends SIGKILL and nothing before it (getrlimit(2)): a
    timer comes a little earlier. What this process starts inherits limits, and no timers.
    """
    try:
        soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    except OSError:  # a filter of system calls
        return []
    if soft == resource.RLIM_INFINITY or soft > _NO_LIMIT:
        return []
    allowed_time.append(soft)
    if soft != hard:
        return [signal.SIGXCPU]
    signal.setitimer(signal.ITIMER_PROF, max(soft - _UNWINDING - time.process_time(), 0.001))
    return [signal.SIGPROF]


def ignore_termination() -> None:
    """Let no SIGTERM change the exit code of a command that is about to end with an error: it is decided."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


class _Watch:
    """A thread that hears every signal, whatever the main thread does."""

    def __init__(self, stop: Callable[[int, FrameType | None], None]) -> None:
        self._stop = stop
        self._first: tuple[int, float] | None = None
        self._relayed = 0
        self._again = 0
        self._ours, self._theirs = os.pipe()
        os.set_blocking(self._theirs, False)
        self._wakeup = signal.set_wakeup_fd(self._theirs, warn_on_full_buffer=False)
        self._hook, sys.unraisablehook = sys.unraisablehook, self._unraisable
        self._thread = threading.Thread(target=self._listen, name="signals", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; a process that has unwound ends by itself."""
        sys.unraisablehook = self._hook
        signal.set_wakeup_fd(self._wakeup)
        theirs, self._theirs = self._theirs, -1  # a number that is closed may mean another file in a moment
        os.close(theirs)
        self._thread.join(1.0)

    def _listen(self) -> None:
        while True:
            left = None if self._first is None else max(0.0, self._first[1] + GRACE - time.monotonic())
            if not select.select([self._ours], [], [], left)[0]:
                assert self._first is not None  # noqa: S101 - there is no limit before the first signal
                _end_now(self._first[0])
            numbers = os.read(self._ours, 64)
            if not numbers:
                os.close(self._ours)
                return
            for number in numbers:
                self._hear(number)

    def _hear(self, number: int) -> None:
        now = time.monotonic()
        if number == 0:  # an interrupt was swallowed: raise it again, when the callback that swallowed it is over
            time.sleep(0.01)
            self._again += 1
            signal.pthread_kill(threading.main_thread().ident or 0, self._first[0] if self._first else signal.SIGINT)
        elif signal.getsignal(number) is not self._stop:
            self._relayed += number == signal.SIGINT
            if self._relayed >= _RELAYED:
                _end_now(number)
        elif self._again:
            self._again -= 1
        elif self._first is None:
            self._first = number, now
            with suppress(Exception):
                import subprocess  # noqa: F401 - so that nothing has to be imported at the end

                from envbuild.core import leftovers  # noqa: F401
        elif now > self._first[1] + _TWICE:
            _end_now(number)

    def _unraisable(self, what: Any) -> None:
        """Raise an interrupt again that came in the middle of a finalizer or of a weak reference's callback."""
        if what.exc_type is KeyboardInterrupt:
            with suppress(OSError):
                os.write(self._theirs, b"\0")
        else:
            self._hook(what)


def _end_now(number: int) -> None:
    """End this process without unwinding; what it leaves is removed behind its back."""
    with suppress(Exception):
        from envbuild.core import leftovers

        leftovers.remove_behind()
    why, hint, code = "interrupted", "", 128 + number
    if number in OUT_OF_TIME:
        why, code = f"out of processor time: the limit is {allowed_time[0]} seconds", _NO_ROOM
        hint = "  → raise the limit, then rerun: ulimit -t unlimited\n"
    with suppress(OSError):
        cursor = _SHOW_CURSOR if os.isatty(2) else b""
        if select.select([], [2], [], 0)[1]:  # nobody may be reading
            os.write(2, cursor + f"envbuild: {why}; what is left is removed in the background\n{hint}".encode())
    os._exit(code)
