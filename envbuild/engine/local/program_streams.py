"""What passes between envbuild and a program of the local engine: reports, input, output, the terminal."""

from __future__ import annotations

import _socket as socket  # socket itself makes enumerations of its numbers: 2.5 ms
import errno
import fcntl
import os
import select
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from envbuild.core import quick_json
from envbuild.core.limits import explained
from envbuild.engine.protocol import ContainerRun
from envbuild.engine.streams import CHUNK, Write, copied_input
from envbuild.errors import EngineError

_STDIN, _STDOUT = 0, 1
_DESCRIPTOR = struct.Struct("i")


class Answers:
    """What the program's processes report, and the terminal they give."""

    def __init__(self) -> None:
        self._rest = b""
        self._table: dict[str, Any] = {}
        self.terminal = -1

    def take(self, channel: socket.socket) -> bool:
        """Read what there is; False at the end."""
        try:
            data, rights, _, _ = channel.recvmsg(1 << 16, socket.CMSG_SPACE(_DESCRIPTOR.size))
        except OSError:
            return False
        for _, _, packed in rights:
            (self.terminal,) = _DESCRIPTOR.unpack(packed)
            os.set_inheritable(self.terminal, False)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._table = {**quick_json.loads(line), **self._table}  # the first of each word: a program has no say
        return bool(data)

    @property
    def started(self) -> bool:
        """Whether the program has started."""
        return bool(self._table.get("started"))

    @property
    def over(self) -> bool:
        """Whether all its processes have ended."""
        return bool(self._table.get("over"))

    @property
    def ended(self) -> int:
        """The exit code, if it is there already; -1 if not."""
        return int(self._table.get("code", -1))

    @property
    def has_result(self) -> bool:
        """Whether there is an exit code, or a refusal."""
        return not self._table.keys().isdisjoint(("code", "failed"))

    def code(self) -> int:
        """Return the exit code.

        Raises:
            EngineError: the program was not started.
        """
        if "failed" in self._table:
            raise _refused(str(self._table["failed"]), int(self._table["reason"]))
        if "code" not in self._table:
            raise EngineError("the program's process ended before the program did", "run it again")
        return int(self._table["code"])

    def close(self) -> None:
        """Close the terminal."""
        if self.terminal >= 0:
            os.close(self.terminal)
            self.terminal = -1


class _Terminal:
    """A terminal's other side, as ``copied_input`` writes to it."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def read(self, limit: int) -> bytes:
        """Return nothing: reading is done elsewhere."""
        return b""

    def write(self, data: bytes) -> None:
        """Write all of it."""
        while data:
            data = data[os.write(self._answers.terminal, data) :]

    def end_input(self) -> None:
        """Send what a terminal sends at the end of input."""
        self.write(b"\x04")


class _Input:
    """The program's standard input: nothing, this process's own, or a pipe where that one is a terminal."""

    def __init__(self, request: ContainerRun) -> None:
        self._tty = request.tty
        self._writer = -1
        self.theirs = -1
        if request.interactive and not request.tty:
            if _is_terminal(_STDIN):
                self.theirs, self._writer = os.pipe()
            elif _is_open(_STDIN):
                self.theirs = os.dup(_STDIN)

    def started(self) -> None:
        """Close what only the program needs."""
        if self.theirs >= 0:
            os.close(self.theirs)
            self.theirs = -1

    @contextmanager
    def copied(self, answers: Answers) -> Iterator[None]:
        """Copy this process's input while the block runs, where that is needed."""
        if self._tty:
            with copied_input(_Terminal(answers)):
                yield
        elif self._writer >= 0:
            with copied_input(self):
                yield
        else:
            yield

    def read(self, limit: int) -> bytes:
        """Return nothing."""
        return b""

    def write(self, data: bytes) -> None:
        """Write all of it to the program."""
        while data:
            data = data[os.write(self._writer, data) :]

    def end_input(self) -> None:
        """Close the program's input."""
        if self._writer >= 0:
            os.close(self._writer)
            self._writer = -1


@contextmanager
def program_input(request: ContainerRun) -> Iterator[_Input]:
    """Give what the program reads as its standard input, closed at the end."""
    made = _Input(request)
    try:
        yield made
    finally:
        made.started()
        with suppress(OSError):
            made.end_input()


def copy(
    channel: socket.socket,
    readers: Mapping[int, int],
    answers: Answers,
    write: Write,
    started: Callable[[], None],
) -> None:
    """Pass output on until the program's processes have ended, and all of it is read."""
    announced = False
    poll, control = select.poll(), channel.fileno()  # ``selectors`` takes 0.7 ms of each run
    watched = {control, *readers}
    for each in watched:
        poll.register(each, select.POLLIN)
    while watched:
        for number, _ in poll.poll():
            if number == control:
                if not answers.take(channel) or answers.over:
                    poll.unregister(control)
                    watched.discard(control)
                elif answers.terminal >= 0 and answers.terminal not in watched:
                    poll.register(answers.terminal, select.POLLIN)
                    watched.add(answers.terminal)
                if answers.started and not announced:
                    announced = True
                    started()
                continue
            data = _read(number)
            if data:
                write(readers.get(number, _STDOUT), memoryview(data))
            else:
                poll.unregister(number)
                watched.discard(number)
                if number != answers.terminal:
                    os.close(number)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, CHUNK)
    except OSError as error:
        if error.errno == errno.EIO:  # a terminal whose program has ended
            return b""
        raise


def resize(answers: Answers, columns: int, lines: int) -> None:
    """Set the size of the program's terminal, in characters."""
    import termios

    with suppress(OSError):
        fcntl.ioctl(answers.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


def _is_terminal(number: int) -> bool:
    try:
        return os.isatty(number)
    except OSError:
        return False


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


_WHOLE = "if the image should have it, look whether somebody removed files in the store: envbuild store verify"


def _refused(what: str, reason: int) -> EngineError:
    """Describe what the kernel refused."""
    message = f"the local engine cannot {what}: {os.strerror(reason)}"
    if reason in (errno.EMFILE, errno.ENFILE, errno.EAGAIN) and (limit := explained(OSError(reason, ""))):
        return EngineError(*limit)
    if what.startswith("start "):
        message = f"cannot {what}: {os.strerror(reason)}"
        return EngineError(message, _WHOLE if reason == errno.ENOENT else "")
    if what.endswith("through the emulator"):
        needs = "emulation needs Linux 6.7 or newer and a user namespace"
        return EngineError(message, f"{needs}; without them run on a machine of the lock's platform")
    return EngineError(message, "use another engine: ENVBUILD_ENGINE=docker envbuild run …")
