"""Another time for a command: a library to preload that moves the wall clock."""

from __future__ import annotations

import subprocess
from pathlib import Path

YEAR = 365 * 86_400
"""Seconds."""
_ELSEWHERE = Path(__file__).parents[1] / "reproducibility/elsewhere.c"


def moved_clock(folder: Path, seconds: int) -> dict[str, str]:
    """Compile the library into a folder; returns the variables of a command whose clock is ``seconds`` ahead."""
    library = folder / f"clock{seconds}.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", f"-DCLOCK={seconds}", "-o", library, _ELSEWHERE], check=True)
    return {"LD_PRELOAD": str(library)}
