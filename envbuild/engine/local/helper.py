"""The process that makes a program's namespaces (``program_process.py``), as envbuild sees it: start, wait, end.

It is a fresh interpreter, since a copy of this process would show the program this process's variables and memory. It
takes 20 ms until it can read a request, so a command that will need one starts it first (``start_early``), and imports
what else it needs meanwhile. One that gets no request ends with this process.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import sys
from collections.abc import Sequence

_PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))  # noqa: PTH100, PTH120 - pathlib is not loaded yet
_START = "import sys; sys.path.append(sys.argv.pop(1)); from envbuild.engine.local.program_process import main; main()"
"""As a module it has bytecode: compiling 600 lines costs as much as the interpreter's own start."""
_CHANNEL = 3
_ABOVE = 10
"""No descriptor below it is the other end of the socket, so that it can be moved to ``_CHANNEL``."""

_early: list[Helper] = []


def starter(prefix: Sequence[str], descriptor: int) -> list[str]:
    """Return the command that runs ``program_process.py``.

    Args:
        prefix: command that gives it a user namespace; empty for none.
        descriptor: its end of the socket.
    """
    flags = ["-I", "-S", *(["-B"] if sys.dont_write_bytecode else [])]
    return [*prefix, sys.executable, *flags, "-c", _START, _PACKAGES, str(descriptor)]


class Helper:
    """The process, and this side of the socket to it; raises ``OSError`` if it cannot be started."""

    def __init__(self, prefix: Sequence[str] = ()) -> None:
        self.channel, theirs = socket.socketpair()
        self._code: int | None = None
        moved = -1
        try:
            moved = fcntl.fcntl(theirs, fcntl.F_DUPFD_CLOEXEC, _ABOVE)
            command = starter(prefix, _CHANNEL)
            null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
            self.pid = os.posix_spawn(
                command[0],
                command,
                {},
                file_actions=[*null, (os.POSIX_SPAWN_DUP2, moved, _CHANNEL)],
                setsid=True,
                setsigdef=[signal.SIGPIPE],
            )
        except BaseException:
            self.channel.close()
            raise
        finally:
            theirs.close()
            if moved >= 0:
                os.close(moved)

    def ask(self, line: bytes, streams: Sequence[int]) -> None:
        """Send the request, with descriptors of what the program reads and writes.

        Args:
            streams: standard input, output and error.

        Raises:
            OSError: the process has ended.
        """
        sent = socket.send_fds(self.channel, [line], streams)
        self.channel.sendall(line[sent:])

    def has_ended(self) -> bool:
        """Whether it has ended."""
        if self._code is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = status if ended else None
        return self._code is not None

    def wait(self) -> None:
        """Wait until it has ended."""
        if self._code is None:
            self._code = os.waitpid(self.pid, 0)[1]

    def end(self) -> None:
        """Make sure that it has ended, and with it the program's processes."""
        if not self.has_ended():
            os.kill(self.pid, signal.SIGKILL)
            self.wait()
        self.channel.close()


def start_early() -> None:
    """Start the process that the next program will need; where that fails, the program's own start will report it."""
    try:
        _early.append(Helper())
    except (OSError, NotImplementedError):
        return


def take(prefix: Sequence[str]) -> Helper:
    """Return a process for a program: the one that was started early, or a new one.

    Args:
        prefix: command that gives it a user namespace; empty for none.
    """
    while _early:
        helper = _early.pop()
        if not prefix and not helper.has_ended():
            return helper
        helper.end()
    return Helper(prefix)
