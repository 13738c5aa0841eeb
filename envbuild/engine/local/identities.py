"""Whether this process can give files to all users that an image has.

Root of a user namespace may be the only user there (``unshare -r``, Charliecloud, enroot, Apptainer's ``--fakeroot`` of
a user to whom no identities are lent): the kernel then refuses every other owner (EINVAL). Source: user_namespaces(7).
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_SYSTEM = 1000
"""Identities below it are those of an operating system, which Debian's packages give files to."""


def gives_owners(tables: Path = Path("/proc/self")) -> bool:
    """Return whether it is root, and has the identities of a whole system.

    Args:
        tables: folder with the tables of identities that its user namespace has.
    """
    return os.geteuid() == 0 and all(_has_system(tables / f"{kind}_map") for kind in ("uid", "gid"))


def may_change_owners() -> bool:
    """Whether root has ``CAP_CHOWN``, the first capability; without it, a refusal says nothing about a file system."""
    with suppress(OSError, ValueError, IndexError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return bool(int(next(line for line in lines if line.startswith("CapEff:")).split()[1], 16) & 1)
    return True


def _has_system(table: Path) -> bool:
    try:
        ranges = sorted(tuple(map(int, line.split())) for line in table.read_text().splitlines())
    except (OSError, ValueError):
        return True  # without /proc nobody can look
    reached = 0
    for first, _, count in ranges:
        if first <= reached:
            reached = max(reached, first + count)
    return reached >= _SYSTEM
