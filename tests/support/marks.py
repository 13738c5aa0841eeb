"""Marks of processes (``envbuild.core.process_mark``)."""

from __future__ import annotations

import subprocess
import sys


def mark_of_ended() -> str:
    """Return the mark of a process that has ended; the test needs the marker ``subprocess``."""
    program = "from envbuild.core.process_mark import mark; print(mark())"
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.strip()
