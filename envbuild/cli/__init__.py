"""The command line: parse, wire, call, print. The only place that turns errors into exit codes."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal itself makes enumerations of its numbers: 4 ms
import errno
import gc
import os
import sys
from io import TextIOWrapper

TYPE_CHECKING = False  # ``typing`` takes a tenth of a short run, and a run begins before it
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

_GARBAGE = 100_000
"""New objects until one looks for garbage: at 700, to look at what is imported is a tenth of a short command."""
_SIGHUP, _SIGINT, _SIGPIPE = 1, 2, 13
"""Of all systems that envbuild runs on; ``signal`` makes enumerations of its numbers."""
_LEAST_MEMORY = 128 << 20
"""Bytes of address space below which Python itself may fail as it reports that there are no more: with tracebacks of
its own, an abort in a library, or (3.11) a loop without an end."""
_UNFLUSHED = 120
"""The interpreter's own exit code where the last of what was printed could not be written."""


def entry() -> NoReturn:
    """Run one command and end the process with its exit code; the console script."""
    gc.set_threshold(_GARBAGE)
    _open_closed_streams()
    _take_names_as_bytes()
    _take_own_rights()
    _write_whole_bytecode()
    _require_memory()
    ended: list[int] = []
    code = _run(sys.argv[1:], ended, last=True)
    _end(code, wait=not ended)


def _begin(arguments: Sequence[str]) -> None:
    """Begin a run with the local engine before anything else is imported; the process ends with the command."""
    from envbuild.cli import quick

    if quick.read(arguments) is not None and quick.may_be_local(os.environ):
        from envbuild.engine.local.helper import Helper

        try:
            helper = Helper()
        except OSError:  # the program's own start will report it
            return
        from envbuild.engine.local import early

        early.begin(arguments, os.environ, helper)
        bundle = early.bundle()
        if bundle is not None:
            from envbuild.cli.bundle import use

            use(*bundle)


def _open_closed_streams() -> None:
    """Open nothing in place of standard streams that are closed.

    Else files that are opened get their numbers, and what this process or one that it starts prints goes into them.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            descriptor = os.open(os.devnull, os.O_RDWR)  # the lowest that is free
            os.set_inheritable(descriptor, True)
            stream = open(  # noqa: SIM115 - for the process's life
                descriptor, mode, encoding="utf-8", errors="backslashreplace", closefd=False
            )
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def _take_names_as_bytes() -> None:
    """Start again in Python's UTF-8 mode where the locale is of another encoding; only what is printed is in that one.

    Names of files, arguments and values of variables are bytes, which the program gets as they are: decoded as Latin-1,
    and encoded as UTF-8 for an image, they would be others. UTF-8 with PEP 383 keeps all bytes.
    """
    if sys.getfilesystemencoding() == "utf-8":
        for stream in (sys.stdout, sys.stderr):
            if stream.encoding != "utf-8" and stream.errors == "strict" and isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
    elif sys.executable and not sys.flags.utf8_mode:
        os.environ.setdefault("PYTHONIOENCODING", f"{sys.stdout.encoding}:backslashreplace")
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606


def _take_own_rights() -> None:
    """Undo what would keep this process from its own files, and from hearing of signals and of its children's ends.

    A process that is started by a thread which blocks signals has them blocked, for good and unnoticed. One that
    ignores them, as ``nohup`` has it, goes on to do so.
    """
    os.umask(os.umask(0o077) & ~0o700)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())


def _write_whole_bytecode() -> None:
    """Write no bytecode where files have a largest size: Python leaves what fits, and fails at that from then on."""
    import resource

    try:
        if resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY:
            sys.dont_write_bytecode = True
    except OSError:  # a filter of system calls: limits are met where they are
        pass


def _require_memory() -> None:
    """End the process with a message where it may have too little memory to fail with one."""
    import resource

    for letter, which in (("v", resource.RLIMIT_AS), ("d", resource.RLIMIT_DATA)):
        try:
            most = resource.getrlimit(which)[0]
        except OSError:
            return
        if 0 <= most < _LEAST_MEMORY:  # RLIM_INFINITY is -1
            from envbuild.errors import BuildError

            _print_error(
                f"the limit of memory is {most} bytes, and envbuild itself needs {_LEAST_MEMORY}",
                f"raise it, then rerun: ulimit -{letter} unlimited",
            )
            os._exit(BuildError.exit_code)


def _end(code: int, *, wait: bool) -> NoReturn:
    """End the process as the interpreter does, but for taking its modules apart: 10 ms of every command.

    Args:
        wait: for the threads that are not daemons; after a signal nobody waits for those of a pool.
    """
    if wait:
        import atexit
        import threading

        threading._shutdown()  # type: ignore[attr-defined]  # what the interpreter calls for it
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:  # it was closed when the process started
                stream.flush()
        except (OSError, ValueError):
            code = code or _UNFLUSHED
    os._exit(code)


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
        if last:
            _begin(arguments)
        code = _invoked(arguments, ended, last=last)
    except KeyboardInterrupt:
        if not ended:
            ended.append(_SIGINT)
        if last:
            _end_begun()
    except OSError as error:  # of reporting an error
        if error.errno != errno.EIO:
            raise
        _drop_streams()
        return 128 + _SIGHUP
    if not ended:
        return code
    from envbuild.cli.interrupts import OUT_OF_TIME, allowed_time

    try:
        if ended[0] in OUT_OF_TIME:
            from envbuild.cli.faults import out_of_time

            return out_of_time(allowed_time[0])
        print("envbuild: interrupted; nothing half-written was kept", file=sys.stderr, flush=True)
    except OSError:  # the terminal is closed
        _drop_streams()
    return 128 + ended[0]


def _invoked(arguments: Sequence[str], ended: list[int], *, last: bool) -> int:
    """Turn errors into exit codes; one that an interrupt brought about is part of the interrupt."""
    from envbuild.cli.interrupts import ended_by_signals
    from envbuild.errors import EnvbuildError

    try:
        with ended_by_signals(ended, last=last):
            code = _invoke(arguments)
        if not ended:  # typer turns the interrupt into a separate code and prints nothing
            sys.stdout.flush()
        return code
    except EnvbuildError as error:
        if ended:
            return error.exit_code
        if error.__context__ is not None:
            from envbuild.cli.faults import limited_behind

            if code := limited_behind(error):
                return code
        _print_error(error.message, error.hint)
        return error.exit_code
    except BrokenPipeError:
        # The reader went away (`envbuild runs | head`): no fault to report, but what was asked for may not be done.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 128 + _SIGPIPE
    except OSError as error:
        if error.errno == errno.EIO and not error.filename and _terminal_is_closed():
            _drop_streams()
            return 128 + _SIGHUP
        return 1 if ended else _fault(error)
    except Exception as error:
        return 1 if ended else _fault(error)


def _invoke(arguments: Sequence[str]) -> int:
    """Run a command line; most of ``run`` do without typer (``quick``)."""
    from envbuild.cli import quick

    values = quick.read(arguments)
    if values is not None:
        try:
            quick.load_msgspec()
            if "envbuild.cli.bundle" in sys.modules:
                from envbuild.core.types import defer

                defer()
            from envbuild.cli.running import run_program

            return run_program(**values)
        finally:
            _end_begun()
            if "envbuild.cli.bundle" in sys.modules:
                sys.modules["envbuild.cli.bundle"].keep()
    from envbuild.cli.app import invoke

    return invoke(arguments)


def _end_begun() -> None:
    """End the run that this command has begun, if it is not the one that was run."""
    end = getattr(sys.modules.get("envbuild.engine.local.early"), "end", None)
    if end is not None:
        end()


def _terminal_is_closed() -> bool:
    """Whether a standard stream is a terminal that is gone; a disk that fails answers EIO too, and is none."""
    import fcntl
    import termios

    for number in (0, 1, 2):
        try:
            fcntl.ioctl(number, termios.TCGETS, bytes(256))
        except OSError as error:
            if error.errno == errno.EIO:
                return True
    return False


def _drop_streams() -> None:
    """Let what is still printed go nowhere: the interpreter flushes both streams as it ends."""
    for number in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def _fault(error: Exception) -> int:
    from envbuild.cli import faults

    if isinstance(error, OSError):
        return faults.refused(error)
    return faults.limited(error) or faults.unexpected(error)


def _print_error(message: str, hint: str) -> None:
    from envbuild.cli.console import print_error

    print_error(message, hint)
