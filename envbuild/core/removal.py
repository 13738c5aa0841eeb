"""Removal of a folder that a program could write, whatever it made of it and even while it still runs."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_DEPTH = 32
"""Levels of folders that are open at once; deeper ones are moved up."""
_STILL_OPEN = (".fuse_hidden", ".nfs")
"""How names begin that FUSE and NFS give to files that are removed while they are open (libfuse, lib/fuse.c; Linux,
fs/nfs/unlink.c). They go when the file is closed; who removes one before that gets another of its kind."""
_ROUNDS = 100_000
"""How deep folders may be; also an end to a program that makes new ones all the time."""


def remove_tree(path: Path) -> bool:
    """Remove a folder with all that is in it; returns whether it is gone. One that is absent is fine.

    Every step is relative to an open folder, and no link is followed: whatever takes the place of a name meanwhile,
    nothing outside is removed or changed. Folders that are closed to their owner are opened first. Depth does not
    matter: far below, what is in a folder is moved up before that folder goes. What the system refuses stays.
    """
    try:
        above = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return not os.path.lexists(path)
    try:
        if not _unlinked(above, path.name):
            with suppress(OSError), _opened(above, path.name) as top:
                _empty(top)
            with suppress(OSError):
                os.rmdir(path.name, dir_fd=above)
        return not _there(above, path.name)
    finally:
        os.close(above)


def remove_held(folder: Path, lock: int) -> bool:
    """Remove a folder together with the locked file in it that shows that it is in use, and close that file.

    Where a file that is open keeps its folder from going (FUSE, NFS), the folder goes after that.

    Args:
        lock: descriptor of the file.

    Returns:
        Whether the folder is gone.
    """
    gone = remove_tree(folder)
    os.close(lock)
    return gone or remove_tree(folder)


def _empty(top: int, depth: int = 0) -> None:
    """Remove what is in an open folder, until nothing more goes."""
    before: set[str] = set()
    for _ in range(_ROUNDS):
        names = set(os.listdir(top))
        if not names or names == before or (before and all(name.startswith(_STILL_OPEN) for name in names)):
            return
        before = names
        for name in names:
            if not _unlinked(top, name):
                with suppress(OSError):
                    if depth < _DEPTH:  # each level holds a folder open
                        with _opened(top, name) as folder:
                            _empty(folder, depth + 1)
                    else:
                        _raise_contents(top, name)
                    os.rmdir(name, dir_fd=top)


def _raise_contents(top: int, name: str) -> None:
    """Remove the files of a folder, and move its folders up next to it."""
    with _opened(top, name) as folder:
        for inner in os.listdir(folder):  # noqa: PTH208 - of an open folder
            if not _unlinked(folder, inner):
                with suppress(OSError):
                    with _opened(folder, inner):  # to move it, its owner needs the right to write to it
                        pass
                    os.rename(inner, os.urandom(16).hex(), src_dir_fd=folder, dst_dir_fd=top)


def _unlinked(folder: int, name: str) -> bool:
    """Remove a name that is no folder; False if it is one, or stays."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


@contextmanager
def _opened(above: int, name: str) -> Iterator[int]:
    """Open a folder, with all rights for its owner; raises ``OSError`` for what is none, a link included."""
    folder = _open(above, name)
    try:
        yield folder
    finally:
        os.close(folder)


def _open(above: int, name: str) -> int:
    try:
        folder = os.open(name, _FOLDER, dir_fd=above)
    except PermissionError:
        pass
    else:  # most are open to their owner: this needs no /proc, which some roots lack
        if os.fstat(folder).st_mode & 0o700 != 0o700:
            with suppress(OSError):
                os.fchmod(folder, 0o700)
        return folder
    place = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    try:
        mode = os.fstat(place).st_mode
        if stat.S_ISDIR(mode) and mode & 0o700 != 0o700:
            with suppress(OSError):
                os.chmod(f"/proc/self/fd/{place}", 0o700)  # noqa: PTH101 - this very folder
        return os.open(f"/proc/self/fd/{place}", _FOLDER & ~os.O_NOFOLLOW)
    finally:
        os.close(place)


def _there(above: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=above, follow_symlinks=False)
    except OSError:
        return False
    return True
