"""``submit --wait``: what a job of Slurm prints while it runs, and how it ended.

Slurm is asked by ``scontrol``, which needs no accounting. It forgets a job some minutes after its end (MinJobAge).
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from envbuild.core.uninterrupted import uninterrupted
from envbuild.errors import EngineError

_LAST = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "LAUNCH_FAILED", "NODE_FAIL", "OUT_OF_MEMORY"}
    | {"PREEMPTED", "RECONFIG_FAIL", "REVOKED", "TIMEOUT"}
)
"""States of a job that has ended (squeue's manual page, JOB STATE CODES)."""
_LINE = re.compile(r"^JobId=(\d+) .*?\bJobState=([A-Z_]+) .*?\bExitCode=(\d+):(\d+) ", re.MULTILINE)
_TASK = re.compile(
    r"^JobId=\d+ ArrayJobId=\d+ ArrayTaskId=(\d+) .*?\bJobState=([A-Z_]+) .*?(?:\bBatchHost=(\S+) |$)", re.MULTILINE
)
_TERMINATED = 143
"""Exit code for what Slurm ended without naming a signal: as for SIGTERM, which it sends."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 5.0
"""Seconds between two questions to the controller, which serves all users; each pause is longer than the last."""
_GLANCE = 0.2
"""Seconds between two looks at the output."""
_PATIENCE = 120.0
_CHUNK = 1 << 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """How a job ended.

    Attributes:
        states: of its tasks, in Slurm's words.
        code: exit code as a shell has it; 0: all completed.
        tasks: of an array, how the tasks ended that Slurm still knows, by number: ``timeout on node2``.
    """

    states: tuple[str, ...]
    code: int
    tasks: Mapping[int, str] = field(default_factory=dict, compare=False)


def follow(
    job: str, output: Path | None, show: Callable[[bytes], object], look: Callable[[], object] = lambda: None
) -> Ended:
    """Wait for a job's end.

    Args:
        job: its number.
        output: the file that it writes; None: show nothing.
        show: gets what the job writes, in its order.
        look: called at each look at the output.

    Raises:
        EngineError: Slurm does not answer, or no longer knows the job.
    """
    pause, asked, ended = _FIRST_PAUSE, 0.0, None
    with ExitStack() as stack:
        source: int | None = None
        while ended is None:
            time.sleep(_GLANCE)
            if time.monotonic() - asked >= pause:
                asked, pause = time.monotonic(), min(pause * 1.2, _LONGEST_PAUSE)
                ended = _ended(_answer(job))
            if source is None and output is not None and (source := _opened(output)) is not None:
                stack.callback(os.close, source)
            while source is not None and (chunk := os.read(source, _CHUNK)):
                show(chunk)
            look()
    return ended


def _opened(path: Path) -> int | None:
    """Open a regular file that may not be there yet."""
    try:
        found = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(found).st_mode):
        return found
    os.close(found)
    return None


def _answer(job: str) -> str:
    """Return what ``scontrol`` prints of a job, a line for each of its tasks."""
    program = shutil.which("scontrol")
    if program is None:
        raise EngineError("there is no scontrol on this machine", f"see how the job ends: squeue -j {job}")
    try:
        done = subprocess.run(
            [program, "--oneliner", "show", "job", job], capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"scontrol did not answer: {error}", f"see how the job ends: squeue -j {job}") from None
    if done.returncode:
        reason = done.stderr.strip()[:2000]
        raise EngineError(f"Slurm does not know job {job}: {reason}", f"see how it ended: sacct -j {job}")
    return done.stdout


def _ended(answer: str) -> Ended | None:
    """Read an answer; None if a task goes on."""
    tasks = [(state, int(code), int(signal)) for _, state, code, signal in _LINE.findall(answer)]
    if not tasks or any(state not in _LAST for state, *_ in tasks):
        return None
    codes = (
        code or (128 + signal if signal else _TERMINATED * (state != "COMPLETED")) for state, code, signal in tasks
    )
    places = {
        int(number): f"{state.lower().replace('_', ' ')}{f' on {node}' if node else ''}"
        for number, state, node in _TASK.findall(answer)
    }
    return Ended(states=tuple(dict.fromkeys(state for state, *_ in tasks)), code=max(codes), tasks=places)


def cancel(job: str) -> None:
    """End a job; one that has ended is fine.

    A second signal does not keep the job: ``timeout`` sends SIGTERM to its command and to its process group, and a user
    presses Ctrl-C twice. Once begun, scancel goes on by itself, outside of that group.

    Raises:
        KeyboardInterrupt: one came meanwhile.
    """
    program = shutil.which("scancel")
    if program is None:
        return
    quiet = subprocess.DEVNULL
    with suppress(OSError, subprocess.TimeoutExpired):
        begun, interrupt = uninterrupted(
            lambda: subprocess.Popen([program, job], stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
        )
        if interrupt is not None:
            raise interrupt
        begun.wait(_PATIENCE)
