"""Refresh a table that is kept as data: show what changed, write it or only check it."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

from envbuild.core.fs import atomic_write


def refresh(path: Path, after: bytes, *, check: bool) -> int:
    """Print a table's changes as a unified diff, and write it.

    Args:
        path: of the table, which may not exist yet.
        after: its new bytes, UTF-8.
        check: write nothing.

    Returns:
        The exit code: 1 if only checked and the table would change, else 0.
    """
    before = path.read_bytes() if path.exists() else b""
    lines = difflib.unified_diff(
        before.decode().splitlines(), after.decode().splitlines(), "before", "after", "", "", 2, ""
    )
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    if before != after and not check:
        atomic_write(path, after)
    return int(before != after and check)
