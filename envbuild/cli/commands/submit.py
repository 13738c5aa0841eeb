"""``submit``, ``manifest``: jobs for Slurm and Kubernetes. Everything slow is imported inside the command."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from envbuild.cli.console import Console
from envbuild.cli.options import (
    PROGRAM_SETTINGS,
    Account,
    Constraint,
    GpuType,
    LockOption,
    Nodes,
    Partition,
    Program,
    Quiet,
    Tasks,
    TimeLimit,
    Variant,
    app,
)
from envbuild.cli.options import Platform as LockPlatform


class Runtime(str, Enum):
    """What runs images on the nodes of a cluster."""

    APPTAINER = "apptainer"
    PYXIS = "pyxis"


@app.command(context_settings=PROGRAM_SETTINGS, options_metavar="[OPTIONS]")
def submit(
    command: Program = None,
    lock: LockOption = None,
    variant: Variant = None,
    platform: LockPlatform = None,
    nodes: Nodes = 1,
    tasks: Tasks = 1,
    time: TimeLimit = "",
    partition: Partition = "",
    constraint: Constraint = "",
    account: Account = "",
    gpu_type: GpuType = "",
    array: Annotated[str, typer.Option("--array", metavar="NUMBERS", help="Job array, such as 0-9 or 1,3-7%2.")] = "",
    requeue: Annotated[bool, typer.Option("--requeue", help="Slurm may start the job again.")] = False,
    tcp: Annotated[bool, typer.Option("--tcp", help="The nodes share no folder: ranks meet over TCP.")] = False,
    container: Annotated[
        Runtime | None, typer.Option("--container", help="What runs the image; envbuild by default.")
    ] = None,
    image: Annotated[str, typer.Option("--image", metavar="IMAGE", help="For --container: a .sif or .sqsh file.")] = "",
    wait: Annotated[bool, typer.Option("--wait", "-W", help="Show its output; end with its exit code.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the script, submit nothing.")] = False,
    quiet: Quiet = False,
) -> None:
    """Submit a job to Slurm that runs a script in the locked image.

    CPUs and GPUs of each task come from the lock. --dry-run prints the script for sbatch."""
    from envbuild.operations.load_lock import lock_of_variant
    from envbuild.operations.submit import Job
    from envbuild.operations.submit import submit as operation

    job = Job(
        nodes=nodes, tasks=tasks, time=time, partition=partition, constraint=constraint, account=account,
        gpu_type=gpu_type, array=array, requeue=requeue, tcp=tcp,
        container=container.value if container else "", image=image,
    )  # fmt: skip
    found = operation(command or (), job, lock_of_variant(lock, variant, platform=platform), dry_run=dry_run)
    if dry_run:
        print(found.script, end="")
        return
    console = Console(quiet=quiet)
    output = found.output or ("slurm-%A_%a.out" if array else "slurm-%j.out")
    output = output.replace("%j", found.job).replace("%A", found.job)
    console.line("job", found.job, f"its output: {output}".replace("%a", "TASK"))
    if wait:
        _follow(console, found.job, None if array else output, found.project)


def _follow(console: Console, job: str, output: str | None, project: Path) -> None:
    """Show a job's output until it ends, and which rank failed; leave with its exit code."""
    from envbuild.operations.failed_rank import failed_rank
    from envbuild.operations.follow_job import follow

    stream = sys.stdout.buffer

    def show(chunk: bytes) -> None:
        stream.write(chunk)
        stream.flush()

    try:
        ended = follow(job, Path(output) if output else None, show)
    except KeyboardInterrupt:
        console.line("job", job, f"goes on; to end it: scancel {job}")
        raise
    console.line("ended", job, ", ".join(ended.states).lower(), f"exit {ended.code}")
    if ended.code and (failed := failed_rank(project, job)):
        place = f" on {failed.host}" if failed.host else ""
        console.line(
            "failed", f"rank {failed.rank}{place}", f"{failed.how}{'; its last lines:' if failed.lines else ''}"
        )
        for line in failed.lines:
            console.line("", f"  {line}")
    raise typer.Exit(ended.code)


class Platform(str, Enum):
    """Whose manifest."""

    KUBERNETES = "kubernetes"


class JobKind(str, Enum):
    """What runs the pods."""

    JOB = "job"
    JOBSET = "jobset"
    TRAINJOB = "trainjob"


@app.command(context_settings=PROGRAM_SETTINGS, options_metavar="[OPTIONS]")
def manifest(
    platform: Annotated[Platform, typer.Argument(help="Whose manifest.")],
    image: Annotated[str, typer.Option("--image", metavar="REF@sha256:…", help="The pushed image, by its digest.")],
    command: Program = None,
    lock: LockOption = None,
    variant: Variant = None,
    architecture: LockPlatform = None,
    kind: Annotated[JobKind, typer.Option("--kind", help="A Job, a JobSet, or Kubeflow's TrainJob.")] = JobKind.JOB,
    name: Annotated[str, typer.Option("--name", help="Name of the job; the lock's by default.")] = "",
    ranks: Annotated[int, typer.Option("--ranks", help="How many pods that work together.")] = 1,
    claim: Annotated[str, typer.Option("--claim", help="PersistentVolumeClaim that holds the project.")] = "",
    namespace: Annotated[str, typer.Option("--namespace", help="Namespace of all objects.")] = "",
    memory: Annotated[str, typer.Option("--memory", metavar="SIZE", help="Of each pod, such as 16Gi.")] = "",
    shared_memory: Annotated[str, typer.Option("--shared-memory", metavar="SIZE", help="Size of /dev/shm.")] = "1Gi",
    dra: Annotated[bool, typer.Option("--dra", help="Ask for GPUs by ResourceClaims (Kubernetes 1.34).")] = False,
    config_map: Annotated[
        bool, typer.Option("--config-map", help="The lock too, as a ConfigMap that pods see.")
    ] = False,
) -> None:
    """Print a job for Kubernetes that runs a script in the locked image.

    A Job, or for several ranks an Indexed Job. CPUs, GPUs and the kind of node
    come from the lock; a pod that the guard refuses ends the job.

    envbuild manifest --image REF@sha256:… kubernetes train.py"""
    from envbuild.operations.load_lock import lock_of_variant
    from envbuild.operations.manifest import Pods, kubernetes_manifest

    pods = Pods(
        name=name, image=image, ranks=ranks, claim=claim, namespace=namespace, memory=memory,
        shared_memory=shared_memory, kind=kind.value, claims=dra,
    )  # fmt: skip
    path = lock_of_variant(lock, variant, platform=architecture)
    print(kubernetes_manifest(command or (), pods, path, config_map=config_map), end="")
