"""The process that makes a program's namespaces (``program_process.py``), as envbuild sees it: start, wait, end.

It is a fresh interpreter, since a copy of this process would show the program this process's variables and memory. It
takes 20 ms until it can read a request, so a command that will need one starts it first (``early.py``), and imports
what else it needs meanwhile. One that gets no request ends with this process.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # signal itself makes enumerations of its numbers: 4 ms
import _socket as socket  # so does socket: 2.5 ms
import fcntl
import os
import struct
import sys

TYPE_CHECKING = False  # a run begins before ``typing`` is imported
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))  # noqa: PTH100, PTH120 - pathlib is not loaded yet
_START = """import sys
_place = sys.argv.pop(1)
for _name in ("envbuild", "envbuild.engine", "envbuild.engine.local", "envbuild.runtime"):
    sys.modules[_name] = _package = type(sys)(_name)
    _package.__path__ = [_place + "/" + _name.replace(".", "/")]
from envbuild.engine.local.program_process import main
main()"""
"""As a module it has bytecode: compiling 600 lines costs as much as the interpreter's own start. The packages have
nothing that it uses, and to import them takes 0.6 ms."""
_CHANNEL = 3
_ABOVE = 10
"""No descriptor below it is the other end of the socket, so that it can be moved to ``_CHANNEL``."""

_early: list[Helper] = []
_left: list[Helper] = []


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
        self._ended = False
        moved = -1
        try:
            moved = fcntl.fcntl(theirs, fcntl.F_DUPFD_CLOEXEC, _ABOVE)
            command = starter(prefix, _CHANNEL)
            # Here, not by the spawn: that would report the command as what is missing.
            nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            try:
                null = [(os.POSIX_SPAWN_DUP2, nothing, number) for number in (0, 1, 2)]
                self.pid = _spawned(command, [*null, (os.POSIX_SPAWN_DUP2, moved, _CHANNEL)])
            finally:
                os.close(nothing)
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
        rights = struct.pack(f"{len(streams)}i", *streams)
        sent = self.channel.sendmsg([line], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        self.channel.sendall(line[sent:])

    def has_ended(self) -> bool:
        """Whether it has ended."""
        return self._waited(os.WNOHANG)

    def wait(self) -> None:
        """Wait until it has ended."""
        self._waited(0)

    def _waited(self, how: int) -> bool:
        if not self._ended:
            try:
                self._ended = os.waitpid(self.pid, how)[0] != 0
            except ChildProcessError:  # who started envbuild has it ignore its children: the kernel keeps no status
                self._ended = how == 0 or not _exists(self.pid)
        return self._ended

    def end(self) -> None:
        """Make sure that it has ended, and with it the program's processes."""
        self.kill()
        self.wait()
        self.channel.close()

    def kill(self) -> None:
        """Kill it; the kernel ends the program's processes with it, also those that somebody has stopped."""
        if not self.has_ended():
            try:  # noqa: SIM105 - contextlib is not loaded yet
                os.kill(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def _spawned(command: list[str], actions: Sequence[Any]) -> int:
    """Start a process in a session of its own, without variables; returns its number."""
    signals = [signal.SIGPIPE, signal.SIGCHLD]
    try:
        return os.posix_spawn(command[0], command, {}, file_actions=actions, setsid=True, setsigdef=signals)
    except NotImplementedError:  # an old C library: the process makes the session itself
        return os.posix_spawn(command[0], command, {}, file_actions=actions, setsigdef=signals)


def _exists(number: int) -> bool:
    """Whether there is a process of this number, which is this user's."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


def leave(helper: Helper) -> None:
    """Let a process end by itself that has nothing left to do; ``wait_for_left`` waits for it."""
    helper.channel.close()
    _left.append(helper)
    for each in list(_left):
        if each.has_ended() and each in _left:
            _left.remove(each)


def wait_for_left() -> None:
    """Wait for the ends of processes that were left."""
    while _left:
        _left.pop().wait()


def keep_early(helper: Helper) -> None:
    """Keep a process that was started early for the next program."""
    _early.append(helper)


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
