"""How much memory this process may still use: of the machine, and of the control groups that it is in.

Sources: proc(5), /proc/meminfo; Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_FILES = {"": ("memory.max", "memory.current"), "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes")}
"""Limit and use, by the folder below which the groups are: version 2 and version 1."""


def free_memory(root: Path = Path("/")) -> int:
    """Return bytes; 0 if the machine does not report them. A group's page cache counts as used.

    Args:
        root: where ``proc`` and ``sys`` are.
    """
    found = [_available(root / "proc/meminfo"), *_in_groups(root)]
    return max(min(found), 0)


def _available(table: Path) -> int:
    with suppress(OSError, ValueError, IndexError):
        for line in table.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return 0


def _in_groups(root: Path) -> Iterator[int]:
    """Yield what each group that has a limit leaves, those above included."""
    lines: list[str] = []
    with suppress(OSError):
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        kind = "memory" if "memory" in controllers.split(",") else "" if not controllers else None
        if kind is None:
            continue
        top = root / "sys/fs/cgroup" / kind
        parts = [part for part in path.split("/") if part]
        for count in range(len(parts), -1, -1):
            limit, used = (top.joinpath(*parts[:count], name) for name in _FILES[kind])
            with suppress(OSError, ValueError):  # no limit is the word "max" in version 2
                yield int(limit.read_text()) - int(used.read_text())
