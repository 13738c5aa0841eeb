"""A job for Slurm: options, and the script for ``sbatch``. Pure.

Every value of a ``#SBATCH`` line is matched in full and needs no quotes; every word of the command is quoted for the
shell. Source of the options: https://slurm.schedmd.com/sbatch.html.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import jinja2

from envbuild.core.package_data import template_dir
from envbuild.errors import UsageError

_TIME = re.compile(r"\d{1,6}|\d{1,4}:\d\d(?::\d\d)?|\d{1,4}-\d{1,2}(?::\d\d){0,2}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_NAMES = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.,-]{0,254}")
_CONSTRAINT = re.compile(r"[A-Za-z0-9\[(][A-Za-z0-9_.&|()\[\]*:,=-]{0,254}")
_GPU_TYPE = _NAME
_RANGE = r"[0-9]{1,7}(?:-[0-9]{1,7}(?::[0-9]{1,7})?)?"
_ARRAY = re.compile(rf"(?=.{{1,255}}\Z){_RANGE}(?:,{_RANGE})*(?:%[0-9]{{1,6}})?")
ARRAY_TASK = "SLURM_ARRAY_TASK_ID"
_FILE = re.compile(r"[A-Za-z0-9_.+/-]{1,4000}")
_REFERENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/#@-]{0,1000}")
Container = Literal["", "apptainer", "pyxis"]
_MOST_NODES, _MOST_TASKS = 65_536, 4_096
_PORT = 29500


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """What to ask Slurm for; an empty text leaves the choice to Slurm.

    Attributes:
        nodes, tasks: number of nodes, and of tasks (ranks) on each.
        time: as Slurm writes it: ``30`` (minutes), ``2:00:00``, ``1-12``.
        partition: one, or several with commas.
        constraint: features of nodes, such as ``h200&ib``.
        account: who pays.
        gpu_type: type of GPU in the cluster's own words, such as ``h200``.
        array: numbers of the tasks of a job array, such as ``0-9`` or ``1,3-7%2`` (two at once).
        requeue: let Slurm start the job again after a failed node or preemption.
        exclusive: no other job on its nodes, so that the tasks of an array are spread over nodes.
        tcp: ranks meet over TCP, since the nodes share no folder.
        container: program of the cluster that runs the image; empty: ``envbuild run`` does.
        image: what it runs: a file of Apptainer's or enroot's (``.sif``, ``.sqsh``), for pyxis also a reference.
    """

    nodes: int = 1
    tasks: int = 1
    time: str = ""
    partition: str = ""
    constraint: str = ""
    account: str = ""
    gpu_type: str = ""
    array: str = ""
    requeue: bool = False
    exclusive: bool = False
    tcp: bool = False
    container: Container = ""
    image: str = ""


def check(job: Job) -> Job:
    """Return a job whose values fit into a script; raises ``UsageError`` naming the option that does not."""
    texts = (
        ("--time", job.time, _TIME, "minutes, HOURS:MINUTES:SECONDS or DAYS-HOURS"),
        ("--partition", job.partition, _NAMES, "names of partitions with commas between"),
        ("--constraint", job.constraint, _CONSTRAINT, "features of nodes such as h200&ib"),
        ("--account", job.account, _NAME, "the name of an account"),
        ("--gpu-type", job.gpu_type, _GPU_TYPE, "a type of GPU as the cluster names it, such as h200"),
        ("--array", job.array, _ARRAY, "numbers such as 0-9 or 1,3-7%2"),
        ("--image", job.image, _REFERENCE if job.container == "pyxis" else _FILE, "a file without spaces in its path"),
    )
    for option, text, pattern, expected in texts:
        if text and not pattern.fullmatch(text):
            raise UsageError(f"{option}: expected {expected}, found {text!r}", "see the manual page of sbatch")
    for option, number, most in (("--nodes", job.nodes, _MOST_NODES), ("--tasks-per-node", job.tasks, _MOST_TASKS)):
        if not 1 <= number <= most:
            raise UsageError(f"{option}: expected a number from 1 to {most}, found {number}", "one by default")
    if bool(job.container) != bool(job.image):
        raise UsageError("--container and --image belong together", "--container apptainer --image digits.sif")
    if job.container and job.tcp:
        raise UsageError(f"--tcp: ranks do not meet under {job.container}", "leave --tcp or --container out")
    return job


def script(
    job: Job,
    *,
    name: str,
    lock: str,
    digest: str,
    folder: str,
    cpus: int,
    gpus: int,
    words: Sequence[str],
    output: str = "",
    verb: Literal["run", "verify"] = "run",
) -> str:
    """Return the script for ``sbatch``.

    Args:
        job: checked here.
        name: the lock's name, which the job gets.
        lock, digest: the lock's file name, and the SHA-256 of its bytes.
        folder: the project on the nodes, absolute.
        cpus, gpus: of each task, as the lock asks for them; no GPUs: 0.
        words: what follows ``envbuild run``; with ``container`` the program and its arguments.
        output: file for what it prints, without spaces; empty: Slurm's default.
        verb: the command of envbuild that each task starts.

    Raises:
        UsageError: a value does not fit.
    """
    if not all(word.isprintable() for word in (folder, lock, *words)):
        raise UsageError("a folder, file or argument holds control characters", "rename it, or pass it in a file")
    check(job)
    if job.container and not _FILE.fullmatch(folder):
        raise UsageError(
            f"{folder!r} cannot be mounted by {job.container}: expected letters, digits and ._+-/", "rename the folder"
        )
    engine = jinja2.Environment(
        loader=jinja2.FileSystemLoader(template_dir() / "slurm"),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701 - a shell script; values are matched or quoted
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    engine.filters["quote"] = shlex.quote
    return (
        engine.get_template("job.sh.j2")
        .render(
            lock=lock,
            digest=digest,
            directives=list(_directives(job, name, cpus, gpus, output)),
            folder=folder,
            cpus=cpus,
            words=list(words),
            tcp=job.tcp,
            array=job.array,
            container=job.container,
            image=job.image,
            gpus=gpus,
            port=_PORT,
            verb=verb,
        )
        .rstrip("\n")
        + "\n"
    )


def _directives(job: Job, name: str, cpus: int, gpus: int, output: str) -> Iterator[tuple[str, str]]:
    """Yield names and values of the options; without a value: empty."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"the lock's name {name!r} is no name for a job", "use letters, digits, dots and dashes")
    yield "job-name", name
    yield "nodes", str(job.nodes)
    yield "ntasks-per-node", str(job.tasks)
    yield "cpus-per-task", str(cpus)
    if output:
        yield "output", output
    if gpus:
        yield "gpus-per-task", f"{job.gpu_type}:{gpus}" if job.gpu_type else str(gpus)
    for option in ("time", "partition", "constraint", "account"):
        if value := getattr(job, option):
            yield option, value
    if job.array:
        yield "array", job.array
    if job.exclusive:
        yield "exclusive", ""
    if job.requeue:
        yield "open-mode", "append"  # or the output of the first start would be lost
    yield ("requeue" if job.requeue else "no-requeue"), ""
