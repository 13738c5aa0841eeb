"""Small file systems of tests."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

_PATIENCE = 300.0


def unmount(folder: Path) -> None:
    """Unmount a folder once nobody uses it: a process that ends may need a while on a busy machine.

    Raises:
        AssertionError: somebody uses it still, after five minutes.
    """
    end = time.monotonic() + _PATIENCE
    while (done := subprocess.run(["umount", folder], capture_output=True, text=True, check=False)).returncode:
        assert time.monotonic() < end, done.stderr
        time.sleep(0.2)
