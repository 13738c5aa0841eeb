"""What an overlay file system's own layer has, read from its folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from envbuild.engine.protocol import FileChange


def layer_changes(upper: str, lowers: Sequence[str]) -> dict[str, FileChange]:
    """Return what an overlay's upper folder has, by absolute path; raises ``OSError`` for what cannot be read.

    Args:
        upper: the container's own layer. A device 0:0 stands for what was removed.
        lowers: folders of the layers below it.
    """
    found: dict[str, FileChange] = {}
    left = [""]
    while left:
        folder = left.pop()
        for entry in os.scandir(f"{upper}{folder}"):
            path = f"{folder}/{entry.name}"
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
                found[path] = "deleted"
                continue
            below = any(os.path.lexists(f"{lower}{path}") for lower in lowers)
            found[path] = "changed" if below else "created"
            if entry.is_dir(follow_symlinks=False):
                left.append(path)
    return found
