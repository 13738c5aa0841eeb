"""The command line: parse, wire, call, print. The only place that turns errors into exit codes."""

from __future__ import annotations

import atexit
import errno
import gc
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from envbuild.cli.interrupts import ended_by_signals


def entry() -> NoReturn:
    """Run one command and end the process with its exit code; the console script."""
    atexit.register(gc.freeze)  # a process that ends need not look for garbage: 10 ms of every command
    ended: list[int] = []
    code = _run(list(sys.argv[1:]), ended, last=True)
    if ended:  # the interpreter would wait for every thread of a pool, whatever it waits for itself
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(code)
    sys.exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (docs/reference/exit-codes.md).

    Args:
        arguments: the command line without the program's name; this process's own by default.
    """
    return _run(list(sys.argv[1:] if arguments is None else arguments), [])


def _run(arguments: Sequence[str], ended: list[int], *, last: bool = False) -> int:
    """Run one command; the numbers of the signals that ended it are appended to ``ended``.

    Args:
        last: the process ends then.
    """
    try:
        code = _invoked(arguments, ended, last=last)
    except KeyboardInterrupt:
        if not ended:
            ended.append(signal.SIGINT)
    except OSError as error:  # of reporting an error
        if error.errno != errno.EIO:
            raise
        _drop_streams()
        return 128 + signal.SIGHUP
    if not ended:
        return code
    try:
        print("envbuild: interrupted; nothing half-written was kept", file=sys.stderr, flush=True)
    except OSError:  # the terminal is closed
        _drop_streams()
    return 128 + ended[0]


def _invoked(arguments: Sequence[str], ended: list[int], *, last: bool) -> int:
    """Turn errors into exit codes; one that an interrupt brought about is part of the interrupt."""
    from envbuild.errors import EnvbuildError

    try:
        from envbuild.cli.app import invoke

        with ended_by_signals(ended, last=last):
            code = invoke(arguments)
        if not ended:  # typer turns the interrupt into a separate code and prints nothing
            sys.stdout.flush()
        return code
    except EnvbuildError as error:
        if not ended:
            _print_error(error.message, error.hint)
        return error.exit_code
    except BrokenPipeError:
        # The reader went away (`envbuild runs | head`): no fault to report, but what was asked for may not be done.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 128 + signal.SIGPIPE
    except OSError as error:
        if error.errno == errno.EIO and not error.filename:  # the terminal is closed
            _drop_streams()
            return 128 + signal.SIGHUP
        return 1 if ended else _refused(error)
    except Exception as error:
        return 1 if ended else _unexpected(error)


def _drop_streams() -> None:
    """Let what is still printed go nowhere: the interpreter flushes both streams as it ends."""
    for number in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def _print_error(message: str, hint: str) -> None:
    from envbuild.cli.console import print_error

    print_error(message, hint)


def _refused(error: OSError) -> int:
    """Report what the file system refused; any other fault of the system is unexpected."""
    from envbuild.errors import BuildError, UsageError

    name = error.filename2 or error.filename
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        _print_error(f"no space left on device{f': {name}' if name else ''}", "free some, then rerun")
        return BuildError.exit_code
    if error.errno == errno.ENOENT and not _directory_exists():
        _print_error("the current folder does not exist any more", "cd into one that does")
        return UsageError.exit_code
    if name and error.errno in (errno.EEXIST, errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR, errno.ENOTDIR):
        _print_error(f"cannot read or write {name}: {error.strerror}", "check what it is and who may write it")
        return UsageError.exit_code
    return _unexpected(error)


def _directory_exists() -> bool:
    """Return whether the working directory still exists."""
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
