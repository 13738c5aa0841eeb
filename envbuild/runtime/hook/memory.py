"""Files that a program leaves in memory file systems: they go with the container, so the processes in it have to look.

Each process writes ``/run/envbuild/memory.json`` when it ends; the last one's word counts, since it sees what is there
at the end. Of folders of caches the files in them are reported by name; all else is judged on the host.
"""

from __future__ import annotations

import os

from ..digest import sha256
from ..guard import gate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

NAME = "memory.json"
COUNT = 1000
SIZE = 256 << 20
"""Bytes that are digested, all files together."""
_CACHE = ".cache"
_SKIPPED = frozenset((_CACHE, "__pycache__"))
CACHES = 1000
"""Files in folders of caches that are reported."""
_SHARED = "/dev/shm"  # noqa: S108 - where Linux has shared memory
_ENGINES = ("/proc/", "/sys/", "/run/", "/var/run/", "/dev/")
"""What engines mount for themselves."""


def keep(folder: str, mounts: str = "/proc/self/mounts") -> None:
    """Write what is in memory now; nothing if there is nothing, and nothing was reported before."""
    found = look(places(mounts))
    path = os.path.join(folder, NAME)
    if found["files"] or "caches" in found or os.path.exists(path):
        from ..fastjson import dumps

        gate.write_atomic(path, dumps(found) + "\n")


def places(mounts: str = "/proc/self/mounts") -> list[str]:
    """Return where memory file systems are mounted that programs may write to."""
    with open(mounts, encoding="utf-8", errors="surrogateescape") as stream:
        fields = [line.split(" ") for line in stream]
    return [
        entry[1]
        for entry in fields
        if entry[2] == "tmpfs" and (entry[1] == _SHARED or not f"{entry[1]}/".startswith(_ENGINES))
    ]


def look(folders: list[str]) -> dict[str, Any]:
    """Return path, size in bytes and SHA-256 (None beyond ``SIZE``) of the files, and how many more there are.

    ``caches``: the files in folders of caches, if there are any, of which nothing was read; ``more_caches``: how many
    more these have, if they are too many.
    """
    files: list[dict[str, Any]] = []
    caches: list[str] = []
    left, more = SIZE, 0
    for path, size in _walk(folders, caches):
        if len(files) == COUNT:
            more += 1
            continue
        digest = None
        if size <= left:
            left -= size
            try:
                with open(path, "rb", buffering=0) as stream:
                    digest = sha256(stream.readall())
            except FileNotFoundError:
                continue
            except OSError:
                pass
        files.append({"path": path, "size": size, "sha256": digest})
    found: dict[str, Any] = {"files": files, "left_out": more}
    if caches:
        found["caches"] = sorted(caches)[:CACHES]
    if len(caches) > CACHES:
        found["more_caches"] = len(caches) - CACHES
    return found


def _walk(folders: list[str], caches: list[str]) -> Iterator[tuple[str, int]]:
    left = list(folders)
    while left:
        try:
            entries = list(os.scandir(left.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _SKIPPED:
                    left.append(entry.path)
                elif entry.name == _CACHE:
                    caches += _names(entry.path)
            elif entry.is_file(follow_symlinks=False):
                try:
                    size = entry.stat(follow_symlinks=False).st_size
                except OSError:  # another process has removed it
                    continue
                yield entry.path, size


def _names(folder: str) -> list[str]:
    """Return the paths of all files in a folder and below it, in no order; what is gone or closed has none."""
    found: list[str] = []
    left = [folder]
    while left:
        try:
            entries = list(os.scandir(left.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                left.append(entry.path)
            else:
                found.append(entry.path)
    return found
