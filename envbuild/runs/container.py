"""What a run asks of the engine: mounts, variables, limits and GPUs, of the lock's and the caller's wishes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from envbuild.engine.protocol import ContainerRun, ContainerRunner, Gpus, Mount, OwnFiles
from envbuild.errors import UsageError
from envbuild.lockfile import layout
from envbuild.lockfile.discovery import STATE_FOLDER
from envbuild.lockfile.model import Lock
from envbuild.record.model import Record

if TYPE_CHECKING:
    from envbuild.runs.request import RunRequest

EMPTY = "empty"
"""Folder below ``.envbuild`` in which nothing is."""
HOME = "/tmp/home"  # noqa: S108 - a path in the container, on a memory file system of its own
USER = "envbuild"
"""Constant, so that it cannot reach a result; also what getpass finds for a user without a passwd entry."""

_LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo", "TP_SOCKET_IFNAME": "lo"}
"""Without a network there is no other interface; libraries that search for one fail without it."""
DATE, _DATE = "SOURCE_DATE_EPOCH", "315532800"
"""What Matplotlib, Sphinx and others write as the date of a document: 1980-01-01, the first that zip files can hold."""
_CPU_MODEL = "QEMU_CPU"
"""From which QEMU's user-mode emulators take the CPU: linux-user/main.c."""
_UNBOUND = {"OMPI_MCA_hwloc_base_binding_policy": "none", "PRTE_MCA_hwloc_default_binding_policy": "none"}
"""``mpirun`` of Open MPI up to 4, and of 5, binds two processes to one core each: fewer than the lock has threads."""
_AS_ROOT = {f"{prefix}_ALLOW_RUN_AS_ROOT{suffix}": "1" for prefix in ("OMPI", "PRTE") for suffix in ("", "_CONFIRM")}
"""``mpirun`` refuses root, whose mistakes could damage a system; a container of a run has none."""


def container_run(
    request: RunRequest,
    record: Record,
    command: Sequence[str],
    folder: Path,
    owner: tuple[int, int],
    gpus: Gpus | None,
    tap: Callable[[int, memoryview], None] | None = None,
    ended: Callable[[OwnFiles], None] | None = None,
    ready: Callable[[], None] | None = None,
) -> ContainerRun:
    """Describe the container to run; ``tap`` sees its output, ``ended`` its own files at the end."""
    return ContainerRun(
        image=request.image,
        command=tuple(command),
        environment=added_environment(request, record.id, record.options.tty),
        mounts=_mounts(request, folder),
        workdir=record.directory,
        user=f"{owner[0]}:{owner[1]}",
        network=record.options.network,
        cpus=request.cpus,
        cpuset=request.cpuset,
        memory=request.memory,
        interactive=request.watcher is None,
        tty=record.options.tty,
        scratch=(HOME,),
        labels={"envbuild.run": record.id},
        gpus=gpus,
        watcher=request.watcher,
        tap=tap,
        hostname=request.hostname,
        skipped_pids=request.skipped_pids,
        ready=ready,
        address=request.address,
        ended=ended,
        limit=request.limit,
        stacks=0 if request.limit is None else _stacks_signal(),
        emulator=request.emulator[0] if request.emulator else None,
        compared=bool(request.verification),
    )


def _stacks_signal() -> int:
    from envbuild.runs.time_limit import STACKS_SIGNAL

    return STACKS_SIGNAL


def locked_gpus(lock: Lock) -> Gpus | None:
    """Return the GPUs that a lock asks for: as many as it specifies, or all of the host if it sets no exact number."""
    gpu = lock.hardware.gpu
    if gpu is None:
        return None
    return Gpus(count=gpu.count) if lock.hardware.policy_of("gpu.count").startswith("exact") else Gpus()


def chosen_gpus(request: RunRequest, engine: ContainerRunner) -> Gpus | None:
    """Return the GPUs to ask the engine for."""
    if not isinstance(request.gpus, str):
        return request.gpus
    gpus, gpu = locked_gpus(request.lock), request.lock.hardware.gpu
    if gpu is None or gpus is None or not engine.is_local():
        return gpus
    from envbuild.runs import gpus as run_gpus

    if wants_missing_gpus(request.lock, engine):
        return None
    if gpus.count and not lacks_gpu_driver():
        if request.placement is not None:
            return run_gpus.share(request.lock.hardware, gpus, *request.placement)
        return run_gpus.fitting(request.lock.hardware, gpus)
    return gpus


def wants_missing_gpus(lock: Lock, engine: ContainerRunner) -> bool:
    """Return whether a lock wants GPUs where plainly none are: no driver here, and an engine of here that lists none.

    None are then asked for: the container starts, and the guard in it refuses with its table, which is clearer than the
    engine could.
    """
    return lock.hardware.gpu is not None and engine.is_local() and lacks_gpu_driver() and not engine.gpu_support()


def lacks_gpu_driver() -> bool:
    """Return whether this machine plainly has no driver; the probe is imported for locks with GPUs alone."""
    from envbuild.host.probe import lacks_gpu_driver

    return lacks_gpu_driver()


def gpu_option(request: RunRequest) -> str:
    """Write the caller's choice of GPUs as ``--gpus`` takes it; empty for: as locked."""
    if isinstance(request.gpus, str):
        return ""
    return "none" if request.gpus is None else str(request.gpus)


def added_environment(request: RunRequest, identity: str, tty: bool) -> dict[str, str]:
    """Return the variables of this run that are not locked; none of them may matter to a result."""
    added = {"HOME": HOME, "USER": USER, "LOGNAME": USER, "ENVBUILD_RUN_ID": identity}
    if (request.network or request.lock.run.network) == "none":
        added |= _LOOPBACK
    added |= _UNBOUND | _AS_ROOT
    if "nccl" in request.lock.frameworks:
        from envbuild.runs.nccl import dump_variables

        added |= dump_variables(request)
    if DATE not in request.lock.environment:
        added[DATE] = _DATE
    if tty:
        added["TERM"] = os.environ.get("TERM", "xterm")
    if not request.controls:
        added["ENVBUILD_CONTROLS"] = "off"
    if request.allow:
        added["ENVBUILD_ALLOW"] = ",".join(request.allow)
    if not request.guard:
        added["ENVBUILD_GUARD"] = "off"
    if request.emulator and request.emulator[0].cpu:
        added[_CPU_MODEL] = request.emulator[0].cpu
    if request.without:
        added["ENVBUILD_WITHOUT"] = ",".join(request.without)
    return {**added, **request.own_variables, **request.environment}


def _mounts(request: RunRequest, folder: Path) -> tuple[Mount, ...]:
    """Return the project, its inputs over it, the folder for guard and hook, and what the caller asked for."""
    project = request.project
    mounts = [Mount(source=request.mounted, target=layout.WORKSPACE, read_only=request.lock.run.workspace == "ro")]
    for entry in request.lock.inputs:
        source = project / entry.path
        if not source.exists():
            raise UsageError(f"the input {entry.path} of {request.lock_path.name} does not exist in {project}")
        mounts.append(Mount(source=source, target=f"{layout.WORKSPACE}/{entry.path.strip('/')}", read_only=True))
    mounts.append(Mount(source=folder, target=layout.RUN_DIR))
    return (*mounts, *_version_control(request), *_own_state(request), *request.own_mounts, *request.mounts)


def _version_control(request: RunRequest) -> Iterator[Mount]:
    """Yield what keeps the project's ``.git`` from being written: its settings make git on the host run programs.

    A link cannot be protected so, and the caller may mount something else there. A copy of the project has its own.
    """
    path = request.project / ".git"
    if is_own(request, path.name) and path.exists() and not path.is_symlink():
        yield Mount(source=path, target=f"{layout.WORKSPACE}/.git", read_only=True)


def _own_state(request: RunRequest) -> Iterator[Mount]:
    """Yield the empty folder that the program finds in the place of envbuild's own: records are not its to change."""
    if is_own(request, STATE_FOLDER):
        empty = request.project / STATE_FOLDER / EMPTY
        yield Mount(source=empty, target=f"{layout.WORKSPACE}/{STATE_FOLDER}", read_only=True)


def is_own(request: RunRequest, name: str) -> bool:
    """Whether the program sees a folder of the project itself, not of a copy, and the caller mounts nothing there."""
    target = f"{layout.WORKSPACE}/{name}"
    return request.workspace is None and not any(mount.target.rstrip("/") == target for mount in request.mounts)
