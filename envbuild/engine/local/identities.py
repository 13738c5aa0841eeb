"""Whether this process can give files to all users that an image has.

Root of a user namespace may be the only user there (``unshare -r``, Charliecloud, enroot, Apptainer's ``--fakeroot`` of
a user to whom no identities are lent): the kernel then refuses every other owner (EINVAL). Root of a container may lack
``CAP_CHOWN``. Sources: user_namespaces(7); capabilities(7).
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_SYSTEM = 1000
"""Identities below it are those of an operating system, which Debian's packages give files to."""
CHOWN, SETGID, SETUID = 0, 6, 7
"""Numbers of capabilities (linux/capability.h)."""


def gives_owners(tables: Path = Path("/proc/self")) -> bool:
    """Return whether it is root, may give files away, and has the identities of a whole system.

    Args:
        tables: folder with the tables of identities that its user namespace has.
    """
    if os.geteuid() != 0 or not has(CHOWN):
        return False
    return all(_has_system(tables / f"{kind}_map") for kind in ("uid", "gid"))


def has(*capabilities: int, status: Path = Path("/proc/self/status")) -> bool:
    """Return whether this process has all of these capabilities; without ``/proc`` nobody can look, and it may try."""
    wanted = sum(1 << number for number in capabilities)
    with suppress(OSError, ValueError, IndexError, StopIteration):
        lines = status.read_text().splitlines()
        return int(next(line for line in lines if line.startswith("CapEff:")).split()[1], 16) & wanted == wanted
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
