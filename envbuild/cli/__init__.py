"""The command line: parse, wire, call, print. The only place that turns errors into exit codes."""

from __future__ import annotations

import atexit
import errno
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (docs/reference/exit-codes.md).

    Args:
        arguments: the command line without the program's name; this process's own by default.
    """
    from envbuild.errors import EnvbuildError

    atexit.register(gc.freeze)  # a process that ends need not look for garbage: 10 ms of every command
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    ended: list[int] = []
    try:
        from envbuild.cli.app import invoke

        with _ended_like_ctrl_c(ended):
            code = invoke(arguments)
        if ended:  # typer turns the interrupt into a code of its own and says nothing
            raise KeyboardInterrupt
        sys.stdout.flush()
        return code
    except EnvbuildError as error:
        _tell(error.message, error.hint)
        return error.exit_code
    except KeyboardInterrupt:
        print("envbuild: interrupted; nothing half-written was kept", file=sys.stderr)
        return 128 + (ended or [signal.SIGINT])[0]
    except BrokenPipeError:
        # The reader went away (`envbuild runs | head`): no fault to report, but what was asked for may not be done.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 128 + signal.SIGPIPE
    except OSError as error:
        return _refused(error)
    except Exception as error:
        return _unexpected(error)


@contextmanager
def _ended_like_ctrl_c(ended: list[int]) -> Iterator[None]:
    """Let SIGTERM unwind as Ctrl-C does, so that containers and temporary files go; note either in ``ended``."""

    def stop(number: int, frame: object) -> None:
        ended.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, stop)}
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a job in the background ignores it
        before[signal.SIGINT] = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tell(message: str, hint: str) -> None:
    from envbuild.cli.console import print_error

    print_error(message, hint)


def _refused(error: OSError) -> int:
    """Report what the file system refused; any other fault of the system is unexpected."""
    from envbuild.errors import BuildError, UsageError

    name = error.filename2 or error.filename
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        _tell(f"no space left on device{f': {name}' if name else ''}", "free some, then rerun")
        return BuildError.exit_code
    if error.errno == errno.ENOENT and not _stands_somewhere():
        _tell("the current folder does not exist any more", "cd into one that does")
        return UsageError.exit_code
    if name and error.errno in (errno.EEXIST, errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR, errno.ENOTDIR):
        _tell(f"cannot read or write {name}: {error.strerror}", "check what it is and who may write it")
        return UsageError.exit_code
    return _unexpected(error)


def _stands_somewhere() -> bool:
    """Tell whether the working directory still exists."""
    try:
        os.getcwd()  # noqa: PTH109 - pathlib is not loaded yet
    except OSError:
        return False
    return True


def _unexpected(error: Exception) -> int:
    """Report a bug: the traceback, and what to send to whom."""
    import traceback

    from envbuild import __version__

    kernel = os.uname()
    host = f"Python {'.'.join(map(str, sys.version_info[:3]))}, {kernel.sysname} {kernel.release} {kernel.machine}"
    traceback.print_exception(error)
    print(
        f"envbuild: unexpected fault: {type(error).__name__}: {error}\n"
        f"  This is a bug in envbuild {__version__} ({host}).\n"
        "  → report it with the lines above and the command you typed",
        file=sys.stderr,
    )
    return 1
