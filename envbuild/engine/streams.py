"""Join this process's streams, terminal and signals with those of a program in a container.

Output is written the moment it arrives, without a buffer. Input is read by a separate thread, so that a program
that writes while it is being written to cannot block either side.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Protocol

CHUNK = 1 << 16
_STDIN, _STDOUT, _STDERR = 0, 1, 2
_FORWARDED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
"""Slurm and others announce the end of a job with SIGUSR1 or SIGUSR2."""


class Stream(Protocol):
    """The container's side: a two-way byte stream."""

    def read(self, limit: int) -> bytes:
        """Wait for the next bytes; empty at the end."""

    def write(self, data: bytes) -> None:
        """Send all of ``data``."""

    def end_input(self) -> None:
        """Close the program's standard input."""


Write = Callable[[int, memoryview], None]
"""Takes bytes for a descriptor."""


def tapped(write: Write, tap: Write) -> Write:
    """Return a ``write`` that passes on what it was given, once it is written."""

    def both(number: int, data: memoryview) -> None:
        write(number, data)
        tap(number, data)

    return both


@contextmanager
def copied_input(stream: Stream) -> Iterator[None]:
    """Copy descriptor 0 to the container while the block runs; its end closes the program's standard input."""
    stop, stopper = os.pipe()
    thread = threading.Thread(target=_feed, args=(stream, stop), name="standard input", daemon=True)
    thread.start()
    try:
        yield
    finally:
        os.close(stopper)
        # Blocked only if the program left input unread; then the thread ends with the connection.
        thread.join(timeout=0.2)
        if not thread.is_alive():
            os.close(stop)


@contextmanager
def raw_terminal() -> Iterator[None]:
    """Pass every key on to the container, Ctrl-C included, and restore the terminal afterwards."""
    import termios

    before = termios.tcgetattr(_STDIN)
    try:
        import tty as terminal

        terminal.setraw(_STDIN, termios.TCSANOW)
        yield
    finally:
        termios.tcsetattr(_STDIN, termios.TCSADRAIN, before)


@contextmanager
def resized(resize: Callable[[int, int], None]) -> Iterator[None]:
    """Send the container the terminal's size (columns, lines) now and whenever it changes."""

    def apply(number: int = 0, frame: FrameType | None = None) -> None:
        size = os.get_terminal_size(_STDOUT)
        resize(size.columns, size.lines)

    before = signal.signal(signal.SIGWINCH, apply)
    try:
        apply()
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)


_REPEATED = ("SIGTERM", "SIGHUP")
_ENDING = (*_REPEATED, "SIGINT", "SIGQUIT")
CONTINUE = "SIGCONT"
"""Follows a signal that shall end a program: one that is stopped gets that when it goes on."""


@contextmanager
def repeated_signals_ignored() -> Iterator[None]:
    """Let a SIGTERM or SIGHUP that a ``SignalRelay`` in this block has passed on end nothing else when it comes again.

    A launcher that ends a job signals every process, some of them twice (Slurm: the task, and srun passes its own on),
    and gives them time to end. The program has had the signal; what is left is to record its end.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (getattr(signal, name) for name in _REPEATED)}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)


class SignalRelay:
    """Sends the signals this process receives to the program; a second SIGINT becomes SIGKILL.

    SIGCONT follows those that shall end it, as timeout(1) and systemd have it: a program that somebody has stopped
    would never get them, and its run not end.

    Signals that arrive before ``open`` are kept until then. Only the main thread can relay signals. A SIGTERM or SIGHUP
    that was relayed, or has ended the program, is ignored from then on: ``repeated_signals_ignored`` ends that.
    """

    def __init__(self, send: Callable[[str], None]) -> None:
        self._send = send
        self._kept: list[str] = []
        self._open = False
        self._interrupts = 0
        self._before: dict[int, object] = {}
        self._received: set[str] = set()

    def __enter__(self) -> SignalRelay:
        """Take the signals over."""
        if threading.current_thread() is threading.main_thread():
            for name in _FORWARDED:
                number = getattr(signal, name)
                # Ignored on purpose, as nohup does: then the program shall not hear it either.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *error: object) -> None:
        """Give them back."""
        for number, handler in self._before.items():
            over = signal.Signals(number).name in self._received.intersection(_REPEATED)
            signal.signal(number, signal.SIG_IGN if over else handler)  # type: ignore[arg-type]

    def open(self) -> None:
        """The program runs: deliver what was kept, and everything from now on at once."""
        self._open = True
        while self._kept:
            self._send(self._kept.pop(0))

    def send(self, name: str) -> None:
        """Send a signal by name."""
        for each in (name, CONTINUE) if name in _ENDING else (name,):
            if self._open:
                self._send(each)
            else:
                self._kept.append(each)

    def ended(self, code: int) -> None:
        """Note the program's exit code, while signals are still relayed.

        A launcher that ends a job signals all of its processes: the program may have had what is still to come here.
        """
        self._received |= {name for name in _REPEATED if code == 128 + getattr(signal, name)}

    def _receive(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal; this may run in the middle of a blocked write."""
        name = signal.Signals(number).name
        self._received.add(name)
        if name == "SIGINT":
            self._interrupts += 1
            if self._interrupts > 1:
                name = "SIGKILL"
            elif sys.stderr.isatty():
                Sink(lambda: None).write(_STDERR, memoryview(b"\nenvbuild: interrupted; Ctrl-C again kills\n"))
        self.send(name)


class Sink:
    """Writes to this process's descriptors as a program would, and survives their closing."""

    def __init__(self, hang_up: Callable[[], None]) -> None:
        self._hang_up = hang_up
        self._closed: set[int] = set()

    def write(self, number: int, data: memoryview) -> None:
        """Write all of ``data`` to descriptor 1 or 2 (anything else counts as 1)."""
        number = _STDERR if number == _STDERR else _STDOUT
        while data and number not in self._closed:
            try:
                data = data[os.write(number, data) :]
            except BlockingIOError:  # another process left the descriptor non-blocking
                select.select([], [number], [])
            except OSError as error:
                self._closed.add(number)
                if number == _STDOUT:
                    if not (isinstance(error, BrokenPipeError) or error.errno == errno.EIO):  # closed terminal
                        text = f"envbuild: cannot write standard output: {error.strerror}; the program gets SIGHUP\n"
                        self.write(_STDERR, memoryview(text.encode()))
                    self._hang_up()


def _feed(stream: Stream, stop: int) -> None:
    """Copy descriptor 0 into the stream until it ends or ``stop`` closes."""
    poller = select.poll()
    poller.register(_STDIN, select.POLLIN)
    poller.register(stop, select.POLLIN)
    with suppress(OSError):  # the program or our own input is gone
        while stop not in dict(poller.poll()):
            data = os.read(_STDIN, CHUNK)
            if not data:
                stream.end_input()
                return
            stream.write(data)
