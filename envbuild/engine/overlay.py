"""What an overlay file system's own layer has, read from its folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence

from envbuild.engine.protocol import FileChange


def layer_changes(
    upper: str, lowers: Sequence[str], unlisted: Callable[[OSError], None] | None = None
) -> dict[str, FileChange]:
    """Return what an overlay's upper folder has, by absolute path. Sockets are no files.

    Args:
        upper: the container's own layer. A device 0:0 is the mark of what was removed.
        lowers: folders of the layers below it.
        unlisted: called for each folder that cannot be listed, what is in it is not in the result; and for each file of
            which nothing but the name can be read.

    Raises:
        OSError: the layer cannot be listed; without ``unlisted`` also if a folder in it cannot be.
    """
    found: dict[str, FileChange] = {}
    left = [""]
    while left:
        folder = left.pop()
        for entry in listed(f"{upper}{folder}", unlisted if folder else None):
            path = f"{folder}/{entry.name}"
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:  # removed meanwhile, by a process that is being ended
                continue
            except OSError as error:  # in a folder that may be listed and not searched
                if unlisted is None:
                    raise
                unlisted(error)
                found[path] = "created"
                continue
            if stat.S_ISSOCK(status.st_mode):
                continue
            if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
                found[path] = "deleted"
                continue
            below = any(os.path.lexists(f"{lower}{path}") for lower in lowers)
            found[path] = "changed" if below else "created"
            if entry.is_dir(follow_symlinks=False):
                left.append(path)
    return found


def listed(folder: str, unlisted: Callable[[OSError], None] | None) -> Iterator[os.DirEntry[str]]:
    """Yield the entries of a folder; if it cannot be listed call ``unlisted``, without that raise ``OSError``."""
    try:
        entries = os.scandir(folder)
    except OSError as error:
        if unlisted is None:
            raise
        unlisted(error)
        return
    with entries:
        yield from entries
