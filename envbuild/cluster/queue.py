"""Whether a job of Slurm goes on, of which only the number is left."""

from __future__ import annotations

import shutil
import subprocess

_PATIENCE = 20.0
_UNKNOWN = "invalid job id"
"""What ``squeue`` writes of a job that ended some minutes ago (slurm_errno.h, ESLURM_INVALID_JOB_ID)."""


def goes_on(job: str) -> bool:
    """Whether a job waits, runs or ends right now; also where nobody can say.

    Args:
        job: its number.
    """
    program = shutil.which("squeue")
    if program is None or not (job.isascii() and job.isdigit()):
        return program is None
    words = [program, "--noheader", "--jobs", job, "--format", "%i"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=_PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return True
    if done.returncode:
        return _UNKNOWN not in done.stderr.lower()
    return bool(done.stdout.strip())
