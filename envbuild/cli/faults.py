"""What ended a command and is no error of its own: limits, what the file system refused, and bugs.

Imported when that has happened.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from envbuild import __version__
from envbuild.cli.console import STDOUT, print_error
from envbuild.core.fs import NO_SPACE, SYSTEM_FOLDERS, is_full, no_space, way_out
from envbuild.core.limits import behind, explained, processor_time
from envbuild.errors import BuildError, EngineError, EnvbuildError, UsageError

_FAILING = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EREMOTEIO, errno.EUCLEAN)
"""What a failing disk answers, and a network's whose server does not (NFS mounted ``soft``)."""

_NO_TEMPORARY = "No usable temporary directory found in "
"""How ``tempfile`` begins its error; it writes five bytes into each folder to find out."""

_PATH_MAX = 4096
"""Bytes of a path that system calls take, with the zero at its end (limits.h of Linux)."""
_SHOWN = 60
"""Characters of it that are enough to know it by."""


def limited(error: Exception) -> int:
    """Report a limit of this process, and return the exit code; 0 if there is none of that kind."""
    found = explained(error)
    if found is None:
        return 0
    print_error(*found)
    return BuildError.exit_code


def limited_behind(error: EnvbuildError) -> int:
    """Report the limit that brought an error of envbuild's own about, and return the exit code; 0 if none did."""
    found = behind(error)
    if found is None:
        return 0
    print_error(*found)
    return error.exit_code if isinstance(error, EngineError) else BuildError.exit_code


def out_of_time(most: int) -> int:
    """Report that this process's processor time is used up, of which it had so many seconds; returns the exit code."""
    print_error(*processor_time(most))
    return BuildError.exit_code


def refused(error: OSError) -> int:
    """Report what the file system refused, or a limit; any other fault of the system is unexpected."""
    name = error.filename2 or error.filename
    if error.errno in (*NO_SPACE, errno.EFBIG) and not name and _is_stuck(sys.stdout):
        name = error.filename = STDOUT
    if error.errno in NO_SPACE:
        name = name or _full_folders()
        print_error(f"{no_space(error.errno, on=' on device')}{f': {name}' if name else ''}", "free some, then rerun")
        return BuildError.exit_code
    if error.errno in _FAILING:
        print_error(
            f"a disk does not answer as it should{f', at {name}' if name else ''}: {error.strerror}",
            "read what the kernel says: dmesg; or use another disk, for the store: export ENVBUILD_STORE=FOLDER",
        )
        return BuildError.exit_code
    if error.errno == errno.ENOENT and str(error.strerror).startswith(_NO_TEMPORARY):
        return limited(OSError(errno.EFBIG, "")) or _no_temporary_folder(str(error.strerror))
    if error.errno == errno.ENOENT and not _directory_exists():
        print_error("the current folder does not exist any more", "cd into one that does")
        return UsageError.exit_code
    if error.errno == errno.ENOENT and name and _store_of(str(name)):
        print_error(f"the store lost {name} during the command", "rerun; what is missing there is made again")
        return BuildError.exit_code
    if error.errno == errno.EROFS and (store := _store_of(str(name))):
        print_error(f"the store {store} cannot be written: {error.strerror}", way_out(error.errno))
        return UsageError.exit_code
    if name and error.errno in (errno.EEXIST, errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR, errno.ENOTDIR):
        print_error(f"cannot read or write {name}: {error.strerror}", "check what it is and who may write it")
        return UsageError.exit_code
    if name and error.errno == errno.ENAMETOOLONG:
        print_error(*_too_long(str(name)))
        return UsageError.exit_code
    if name and error.errno in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
        print_error(
            f"cannot use {name}: {error.strerror}", "choose another disk; for the store: export ENVBUILD_STORE=FOLDER"
        )
        return UsageError.exit_code
    if str(name).startswith(("/dev/", "/proc/")) and error.errno in (errno.ENOENT, errno.ENXIO, errno.ENODEV):
        print_error(f"cannot use {name}: {error.strerror}", SYSTEM_FOLDERS)
        return EngineError.exit_code
    return limited(error) or unexpected(error)


def _full_folders() -> str:
    """Name the folders that envbuild writes to whose disk takes nothing more; empty if all do again."""
    import tempfile

    found = []
    with suppress(OSError):
        found.append(Path.cwd())
    with suppress(UsageError):
        root = _default_root()
        found += [each for each in (root, *root.parents) if each.is_dir()][:1]
    with suppress(OSError):
        found.append(Path(tempfile.gettempdir()))
    return ", ".join(dict.fromkeys(str(folder) for folder in found if is_full(folder)))


def _is_stuck(stream: TextIO | None) -> bool:
    """Whether a stream does not take what waits in its buffer."""
    try:
        if stream is not None:
            stream.flush()
    except (OSError, ValueError):
        return True
    return False


def _no_temporary_folder(found: str) -> int:
    folders = found.removeprefix(_NO_TEMPORARY).strip()
    print_error(
        f"temporary files can be written in none of these folders: {folders.strip('[]')}",
        "make room in one of them, or choose another one: export TMPDIR=FOLDER",
    )
    return BuildError.exit_code


def _too_long(path: str) -> tuple[str, str]:
    """Return what is too long, the path or one of its names, cut, and what to do (path_resolution(7))."""
    length, longest = len(os.fsencode(path)), max(path.split("/"), key=len)
    if length >= _PATH_MAX:
        return f"a path of {length} bytes is too long: {path[:_SHOWN]}…", "use folders of shorter names"
    length = len(os.fsencode(longest))
    return f"a file's name of {length} bytes is too long: {longest[:_SHOWN]}…", "use a shorter one"


def _store_of(path: str) -> str:
    """Return the store's folder if a path is below it, else an empty text."""
    try:
        root = str(_default_root())
    except UsageError:
        return ""
    return root if path.startswith(f"{root}/") else ""


def _default_root() -> Path:
    """Return the store's folder; raises ``UsageError`` as ``store.objects.default_root`` does."""
    from envbuild.store.objects import default_root

    return default_root()


def _directory_exists() -> bool:
    """Return whether the working directory still exists."""
    try:
        os.getcwd()  # noqa: PTH109 - pathlib is not loaded yet
    except OSError:
        return False
    return True


def unexpected(error: Exception) -> int:
    """Report a bug: the traceback, and what to send to whom."""
    import traceback

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
