"""A minimal init for when the guard is process 1: forward signals, reap, exit as the command does.

The command gets a process group of its own, in the terminal's foreground if there is one, so that Ctrl-C reaches
it once. Uses ``_signal``: ``signal`` would import ``enum``.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Faults belong to this process, and background terminal access must not stop it.
_OWN = ("SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGABRT", "SIGTRAP", "SIGSYS", "SIGTTIN", "SIGTTOU")


def supervise(command: Sequence[str], start: Callable[[Sequence[str]], int]) -> int:
    """Run the command as a child until it ends.

    Args:
        command: argument vector.
        start: becomes the command in the child; returns an exit code only on failure.

    Returns:
        Its exit code, or 128 + the signal that ended it.
    """
    import _signal as signal  # type: ignore[import-not-found]

    own = {getattr(signal, name) for name in _OWN}
    waited = set(signal.valid_signals()) - own - {signal.SIGKILL, signal.SIGSTOP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited | {signal.SIGTTIN, signal.SIGTTOU})
    child = os.fork()
    if child == 0:
        _take_terminal()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os._exit(start(command))
    while True:
        number = signal.sigwait(waited)
        if number == signal.SIGCHLD:
            code = _reap(child)
            if code is not None:
                return code
        else:
            _forward(child, number)


def _take_terminal() -> None:
    """Lead a new process group and put it into the foreground of the terminal, where there is one."""
    os.setpgid(0, 0)
    try:
        os.tcsetpgrp(0, os.getpid())
    except OSError:
        pass


def _reap(child: int) -> int | None:
    """Reap all dead children; return the exit code of the one that matters once it is among them."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == 0:
            return code
        if pid == child:
            code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _forward(child: int, number: int) -> None:
    try:
        os.kill(child, number)
    except OSError:
        pass
