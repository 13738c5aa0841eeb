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
_FAILING = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EREMOTEIO, errno.EUCLEAN)
"""What a failing disk answers, and a network's whose server does not (NFS mounted ``soft``)."""
_UNFLUSHED = 120
"""The interpreter's own exit code where the last of what was printed could not be written."""


def entry() -> NoReturn:
    """Run one command and end the process with its exit code; the console script."""
    gc.set_threshold(_GARBAGE)
    _open_closed_streams()
    _take_names_as_bytes()
    _take_own_rights()
    ended: list[int] = []
    code = _run(sys.argv[1:], ended, last=True)
    _end(code, wait=not ended)


def _begin(arguments: Sequence[str]) -> None:
    """Begin a run with the local engine before anything else is imported; the process ends with the command."""
    from envbuild.cli import quick

    if quick.read(arguments) is not None and quick.may_be_local(os.environ):
        from envbuild.engine.local import early

        early.begin(arguments, os.environ)


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
    except OSError as error:  # of reporting an error
        if error.errno != errno.EIO:
            raise
        _drop_streams()
        return 128 + _SIGHUP
    if not ended:
        return code
    try:
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
        if not ended:
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
        return 1 if ended else _refused(error)
    except Exception as error:
        return 1 if ended else _limited(error) or _unexpected(error)


def _invoke(arguments: Sequence[str]) -> int:
    """Run a command line; most of ``run`` do without typer (``quick``)."""
    from envbuild.cli import quick

    values = quick.read(arguments)
    if values is not None:
        quick.load_msgspec()
        from envbuild.cli.running import run_program

        try:
            return run_program(**values)
        finally:
            if "envbuild.engine.local.early" in sys.modules:
                sys.modules["envbuild.engine.local.early"].end()
    from envbuild.cli.app import invoke

    return invoke(arguments)


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


def _print_error(message: str, hint: str) -> None:
    from envbuild.cli.console import print_error

    print_error(message, hint)


def _limited(error: Exception) -> int:
    """Report a limit of this process, and return the exit code; 0 if there is none of that kind."""
    from envbuild.core.limits import explained
    from envbuild.errors import BuildError

    found = explained(error)
    if found is None:
        return 0
    _print_error(*found)
    return BuildError.exit_code


def _store_of(path: str) -> str:
    """Return the store's folder if a path is below it, else an empty text."""
    from envbuild.errors import UsageError
    from envbuild.store.objects import default_root

    try:
        root = str(default_root())
    except UsageError:
        return ""
    return root if path.startswith(f"{root}/") else ""


def _refused(error: OSError) -> int:
    """Report what the file system refused, or a limit; any other fault of the system is unexpected."""
    from envbuild.core.fs import NO_SPACE, SYSTEM_FOLDERS, no_space, way_out
    from envbuild.errors import BuildError, EngineError, UsageError

    name = error.filename2 or error.filename
    if error.errno in NO_SPACE:
        _print_error(f"{no_space(error.errno, on=' on device')}{f': {name}' if name else ''}", "free some, then rerun")
        return BuildError.exit_code
    if error.errno in _FAILING:
        _print_error(
            f"a disk does not answer as it should{f', at {name}' if name else ''}: {error.strerror}",
            "read what the kernel says: dmesg; or use another disk, for the store: export ENVBUILD_STORE=FOLDER",
        )
        return BuildError.exit_code
    if error.errno == errno.ENOENT and not _directory_exists():
        _print_error("the current folder does not exist any more", "cd into one that does")
        return UsageError.exit_code
    if error.errno == errno.EROFS and (store := _store_of(str(name))):
        _print_error(f"the store {store} cannot be written: {error.strerror}", way_out(error.errno))
        return UsageError.exit_code
    if name and error.errno in (errno.EEXIST, errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR, errno.ENOTDIR):
        _print_error(f"cannot read or write {name}: {error.strerror}", "check what it is and who may write it")
        return UsageError.exit_code
    if name and error.errno in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
        _print_error(
            f"cannot use {name}: {error.strerror}", "choose another disk; for the store: export ENVBUILD_STORE=FOLDER"
        )
        return UsageError.exit_code
    if str(name).startswith(("/dev/", "/proc/")) and error.errno in (errno.ENOENT, errno.ENXIO, errno.ENODEV):
        _print_error(f"cannot use {name}: {error.strerror}", SYSTEM_FOLDERS)
        return EngineError.exit_code
    return _limited(error) or _unexpected(error)


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
