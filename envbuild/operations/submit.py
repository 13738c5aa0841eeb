"""``submit``: a job for Slurm from a lock, written and handed to ``sbatch``."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from envbuild.cluster import batch
from envbuild.cluster.batch import Job as Job
from envbuild.core.digest import sha256_file
from envbuild.core.fs import folder_below
from envbuild.errors import EngineError, UsageError
from envbuild.lockfile.discovery import STATE_FOLDER
from envbuild.operations.load_lock import LoadedLock, load_lock

JOBS = "jobs"
"""Folder below ``.envbuild`` for what jobs print."""
_PLAIN = re.compile(r"[A-Za-z0-9_./-]{1,4000}")
_PATIENCE = 120.0
"""Seconds that ``sbatch`` gets to answer: a busy controller makes it try again and again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Submission:
    """A job: its script, where it writes (empty: Slurm's default), its number (empty: not submitted), its project."""

    script: str
    output: str
    job: str
    project: Path


def submit(command: Sequence[str], job: Job, lock: Path | None, *, dry_run: bool) -> Submission:
    """Write the script of a job that runs a program in a lock's image, and submit it.

    Args:
        command: what follows ``envbuild run``.
        job: what to ask for.
        lock: the lock's file; None: search upward from the working directory.
        dry_run: only write the script.

    Raises:
        UsageError: a value does not fit into the script, or there is no program.
        LockError: there is no lock, it is invalid, or it is stale.
        EngineError: there is no ``sbatch`` here, or it refused.
    """
    if not command:
        raise UsageError("submit: there is no program", "envbuild submit --nodes 2 train.py")
    loaded = load_lock(lock, option=True)
    path = loaded.path.resolve()
    output = output_of(path.parent, array=bool(job.array))
    text = script_of(job, loaded, output, _words(command, job, path))
    return Submission(script=text, output=output, job="" if dry_run else sbatch(text), project=path.parent)


def script_of(
    job: Job, loaded: LoadedLock, output: str, words: Sequence[str], verb: Literal["run", "verify"] = "run"
) -> str:
    """Return the script for sbatch; CPUs and GPUs are the lock's, as ``batch.script`` documents the rest."""
    path, gpu = loaded.path.resolve(), loaded.lock.hardware.gpu
    return batch.script(
        job,
        name=loaded.lock.name,
        lock=path.name,
        digest=sha256_file(path),
        folder=str(Path.cwd()),
        cpus=loaded.lock.determinism.threads,
        gpus=gpu.count if gpu else 0,
        output=output,
        words=words,
        verb=verb,
    )


def _words(command: Sequence[str], job: Job, lock: Path) -> list[str]:
    """Return what follows ``envbuild run``; under another program that runs the image: what the guard starts."""
    if not job.container:
        return ["--lock", str(lock), *(("-e", batch.ARRAY_TASK) if job.array else ()), *command]
    is_script = command[0].endswith(".py") or command[0] in ("-m", "-c")
    return ["python", *command] if is_script else [*command]


def output_of(project: Path, *, array: bool) -> str:
    """Return where the job writes, relative to this folder: not among the project's files, where it would be a result.

    Empty if that cannot be written as a word of Slurm's.
    """
    with suppress(OSError), folder_below(project, STATE_FOLDER, JOBS, make=True):
        pass
    name = os.path.relpath(project / STATE_FOLDER / JOBS)
    return f"{name}/{'%A_%a' if array else '%j'}.out" if _PLAIN.fullmatch(name) else ""


def sbatch(text: str) -> str:
    """Give a script to ``sbatch``; returns the job's number."""
    program = shutil.which("sbatch")
    if program is None:
        raise EngineError("there is no sbatch on this machine", "run it on a login node, or print it: --dry-run")
    try:
        done = subprocess.run(
            [program, "--parsable"], input=text, capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"sbatch did not answer: {error}", "try again: sinfo shows the cluster's state") from None
    if done.returncode:
        raise EngineError(f"sbatch refused the job: {done.stderr.strip()[:2000]}", "see the script: --dry-run")
    return done.stdout.strip().partition(";")[0]
