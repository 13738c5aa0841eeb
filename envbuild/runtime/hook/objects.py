"""Shared objects that are loaded at the end of a process: those outside the image's locked content, with digests.

What is in the environment or in the system's folders is locked by the digests of wheels and packages, so that it is
only counted. The rest was compiled or brought by somebody: extensions built at run time, ``LD_PRELOAD``.
"""

from __future__ import annotations

import os
import sys

from ..guard import gate
from .observer import digest_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

COUNT = 100
SIZE = 1 << 26
"""Bytes; larger objects are listed without a digest."""
SYSTEM = ("/lib/", "/lib32/", "/lib64/", "/usr/", "/bin/", "/sbin/", "/opt/env/", "/dev/", "/memfd:", "/anon_hugepage")


def loaded(maps: str = "/proc/self/maps") -> dict[str, Any]:
    """Return ``locked``, the number of objects in locked folders, and ``others`` with path, size and digest."""
    try:
        with open(maps, encoding="utf-8", errors="surrogateescape") as stream:
            paths = executable(stream)
    except OSError:
        return {"locked": 0, "others": []}
    prefixes = (*SYSTEM, *(f"{path}/" for path in {sys.prefix, sys.base_prefix, gate.PREFIX} if path != "/"))
    others = sorted(path for path in paths if not path.startswith(prefixes))
    return {
        "locked": len(paths) - len(others),
        "others": [digest_file(path, SIZE) for path in others[:COUNT]],
    }


def executable(lines: Iterable[str]) -> set[str]:
    """Return the files of which a part is mapped as code, from the lines of proc_pid_maps(5)."""
    found = set()
    for line in lines:
        fields = line.rstrip("\n").split(None, 5)
        if len(fields) == 6 and "x" in fields[1] and fields[5].startswith("/"):
            path = fields[5].replace("\\012", "\n")
            found.add(path)
    return {path for path in found if os.path.basename(path)}
