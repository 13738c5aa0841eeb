"""Which rank this process is, from the variables that its launcher set. Pure: a table, and a function over it.

The launcher nearest to the process comes first: ``mpirun`` in a Slurm job starts its helpers as a Slurm step, so the
variables of both are there. The order is that of the hook (``runtime/hook/lineage.py``), which numbers ranks inside
the image.

Only variables of a *step* of Slurm count. A batch script has ``SLURM_PROCID=0`` and ``SLURM_NTASKS=8`` too, and is one
process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from envbuild.cluster.rank import LARGEST_WORLD, Rank
from envbuild.core.digest import sha256_json
from envbuild.core.foreign_json import parse_json
from envbuild.core.text import encodable
from envbuild.errors import UsageError

TENSORFLOW = "TF_CONFIG"
PMIX_FOLDER = "PMIX_SERVER_TMPDIR"
_DIGITS, _MOST_RESTARTS = 7, 1_000_000


class Launcher(msgspec.Struct, frozen=True, kw_only=True):
    """The variables of one launcher.

    Attributes:
        name: for people and records.
        rank, world: both must be set, or the launcher has not started this process.
        local, local_world, node: may be absent; empty if the launcher has no such variable.
        job: those that together name the job, the same in all ranks.
        restarts: how often the job was started before.
        passed: further ones that programs read, handed to the container as they are.
    """

    name: str
    rank: str
    world: str
    local: str = ""
    local_world: str = ""
    node: str = ""
    job: tuple[str, ...] = ()
    restarts: str = ""
    passed: tuple[str, ...] = ()


_SLURM = (
    # Not SLURM_JOBID and SLURM_STEPID: with those, an Open MPI in the image believes that srun has started it.
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_NTASKS",
    "SLURM_NNODES",
    "SLURM_NODELIST",
    "SLURM_JOB_NODELIST",
    "SLURM_JOB_NUM_NODES",
    "SLURM_STEP_NODELIST",
    "SLURM_STEP_NUM_NODES",
    "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_RESTART_COUNT",
)

LAUNCHERS = (
    # https://docs.pytorch.org/docs/stable/elastic/run.html (environment variables)
    Launcher(
        name="torchrun",
        rank="RANK",
        world="WORLD_SIZE",
        local="LOCAL_RANK",
        local_world="LOCAL_WORLD_SIZE",
        node="GROUP_RANK",
        job=("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT"),
        restarts="TORCHELASTIC_RESTART_COUNT",
        passed=(
            "GROUP_WORLD_SIZE",
            "ROLE_RANK",
            "ROLE_WORLD_SIZE",
            "ROLE_NAME",
            "TORCHELASTIC_RUN_ID",
            "TORCHELASTIC_RESTART_COUNT",
            "TORCHELASTIC_MAX_RESTARTS",
            "TORCHELASTIC_USE_AGENT_STORE",
        ),
    ),
    # https://docs.open-mpi.org/en/main/tuning-apps/environment-var.html
    Launcher(
        name="Open MPI",
        rank="OMPI_COMM_WORLD_RANK",
        world="OMPI_COMM_WORLD_SIZE",
        local="OMPI_COMM_WORLD_LOCAL_RANK",
        local_world="OMPI_COMM_WORLD_LOCAL_SIZE",
        job=("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
    ),
    # MPICH's Hydra and Intel MPI; srun --mpi=pmi2
    Launcher(
        name="PMI",
        rank="PMI_RANK",
        world="PMI_SIZE",
        local="MPI_LOCALRANKID",
        local_world="MPI_LOCALNRANKS",
        job=("SLURM_JOB_ID", "SLURM_STEP_ID", "PMI_JOBID"),
    ),
    Launcher(
        name="MVAPICH",
        rank="MV2_COMM_WORLD_RANK",
        world="MV2_COMM_WORLD_SIZE",
        local="MV2_COMM_WORLD_LOCAL_RANK",
        local_world="MV2_COMM_WORLD_LOCAL_SIZE",
        job=("MPIRUN_ID",),
    ),
    Launcher(
        name="Horovod",
        rank="HOROVOD_RANK",
        world="HOROVOD_SIZE",
        local="HOROVOD_LOCAL_RANK",
        local_world="HOROVOD_LOCAL_SIZE",
        node="HOROVOD_CROSS_RANK",
        job=("HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT"),
        passed=(
            "HOROVOD_CROSS_SIZE",
            "HOROVOD_CONTROLLER",
            "HOROVOD_CPU_OPERATIONS",
            "HOROVOD_GLOO_RENDEZVOUS_ADDR",
            "HOROVOD_GLOO_RENDEZVOUS_PORT",
            "HOROVOD_GLOO_IFACE",
        ),
    ),
    # https://slurm.schedmd.com/srun.html (output environment variables)
    Launcher(
        name="Slurm",
        rank="SLURM_PROCID",
        world="SLURM_STEP_NUM_TASKS",
        local="SLURM_LOCALID",
        node="SLURM_NODEID",
        job=("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"),
        restarts="SLURM_RESTART_COUNT",
        passed=_SLURM,
    ),
    # The names that jax.distributed's users and operators of Kubernetes have agreed on; JAX itself reads the address.
    Launcher(
        name="JAX",
        rank="JAX_PROCESS_ID",
        world="JAX_NUM_PROCESSES",
        job=("JAX_COORDINATOR_ADDRESS",),
    ),
)

_ALWAYS = ("JAX_COORDINATOR_ADDRESS", "JAX_COORDINATOR_PORT", "JAX_LOCAL_DEVICE_IDS", TENSORFLOW)
"""Handed over whoever the launcher is, if they are set."""


def find_rank(environment: Mapping[str, str], host: str) -> Rank | None:
    """Return this process's place in a job; None if no launcher has started it.

    Args:
        environment: this process's variables.
        host: this machine's name, used where the launcher does not name it.

    Raises:
        UsageError: the launcher's variables contradict each other.
    """
    for launcher in LAUNCHERS:
        if environment.get(launcher.rank) and environment.get(launcher.world):
            return _numbered(launcher, environment, host)
    if environment.get(TENSORFLOW):
        return _of_tensorflow(environment[TENSORFLOW], host)
    return None


def launcher_variables(rank: Rank, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a program needs to know its rank: the launcher's own, and PyTorch's for all others.

    Of ``TF_CONFIG`` alone nothing else is derived: a program that reads it numbers ranks in its own way.
    """
    launcher = next((each for each in LAUNCHERS if each.name == rank.launcher), None)
    if launcher is None:
        return {TENSORFLOW: environment[TENSORFLOW]}
    own = (launcher.rank, launcher.world, launcher.local, launcher.local_world, launcher.node)
    names = (*own, *launcher.passed, *_ALWAYS)
    found = {name: environment[name] for name in names if name and name in environment}
    found |= {"RANK": str(rank.rank), "WORLD_SIZE": str(rank.world)}
    if rank.local is not None:
        found["LOCAL_RANK"] = str(rank.local)
    if rank.local_world is not None:
        found["LOCAL_WORLD_SIZE"] = str(rank.local_world)
    return found


def pmix_variables(rank: Rank, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which MPI in a container finds the PMIx server of a step (``srun --mpi=pmix``).

    Open MPI asks Slurm's server only where it finds that ``srun`` has started it. The server's own folder
    (``PMIX_FOLDER``) has to be there too. Ranks of one machine are in containers of their own, so that they share no
    memory: messages go over TCP.

    Returns:
        Nothing if there is no such server. Source: openpmix, src/client/pmix_client.c; Open MPI 4.1,
        orte/mca/schizo/slurm/schizo_slurm.c.
    """
    names = ("PMIX_NAMESPACE", "PMIX_RANK", PMIX_FOLDER)
    if rank.launcher != "Slurm" or not all(environment.get(name) for name in names):
        return {}
    found = {name: value for name, value in environment.items() if name.startswith("PMIX_")}
    found |= {name: environment[name] for name in ("SLURM_JOBID", "SLURM_STEPID") if name in environment}
    return {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,tcp"} | found


def job_key(rank: Rank) -> str:
    """Return 32 hexadecimal digits that are the same in all ranks of a job; several starts in one job share them."""
    return sha256_json([rank.launcher, rank.world, rank.job])[:32]


def _numbered(launcher: Launcher, environment: Mapping[str, str], host: str) -> Rank:
    """Read the variables of a launcher that numbers its ranks."""
    world = _number(environment, launcher.world, LARGEST_WORLD + 1)
    rank = _number(environment, launcher.rank, world)
    local_world = _optional(environment, launcher.local_world, LARGEST_WORLD + 1)
    node = _optional(environment, launcher.node, LARGEST_WORLD)
    nodes: tuple[str, ...] = ()
    if launcher.name == "Slurm":
        nodes, local_world = _of_slurm(environment, node)
    return Rank(
        launcher=launcher.name,
        rank=rank,
        world=world,
        local=_optional(environment, launcher.local, local_world or world),
        local_world=local_world,
        node=node,
        host=nodes[node] if node is not None and node < len(nodes) else host,
        nodes=nodes,
        job=encodable("/".join(environment.get(name, "") for name in launcher.job).strip("/")),
        restarts=_optional(environment, launcher.restarts, _MOST_RESTARTS) or 0,
    )


def _of_slurm(environment: Mapping[str, str], node: int | None) -> tuple[tuple[str, ...], int | None]:
    """Return the nodes of this step, and how many of its tasks run on this one."""
    from envbuild.cluster.hostlist import expand_counts, expand_hosts

    name = "SLURM_STEP_NODELIST"
    try:
        nodes = expand_hosts(encodable(environment.get(name, "")))
        name = "SLURM_STEP_TASKS_PER_NODE"
        counts = expand_counts(environment.get(name, ""))
    except ValueError as error:
        raise UsageError(f"{name}: {error}", "start it with srun, or unset it") from None
    return nodes, counts[node] if node is not None and node < len(counts) else None


def _of_tensorflow(text: str, host: str) -> Rank | None:
    """Read ``TF_CONFIG``: the chief first, then workers, then parameter servers; None for an evaluator.

    Source: https://www.tensorflow.org/guide/distributed_training (TF_CONFIG).
    """
    try:
        value = parse_json(text.encode())
        cluster, task = value["cluster"], value["task"]
        addresses = {
            kind: [encodable(str(each)) for each in cluster.get(kind, ())] for kind in ("chief", "worker", "ps")
        }
        kind, index = str(task["type"]), int(task["index"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UsageError(f"{TENSORFLOW} has no cluster and task", "unset it, or set both parts") from None
    if kind not in addresses:
        return None
    before = {"chief": 0, "worker": len(addresses["chief"]), "ps": len(addresses["chief"]) + len(addresses["worker"])}
    world = sum(map(len, addresses.values()))
    if not 0 <= index < len(addresses[kind]) or world > LARGEST_WORLD:
        raise UsageError(f"{TENSORFLOW}: task {kind} {index} is not in its cluster", "correct cluster or task")
    return Rank(launcher=TENSORFLOW, rank=before[kind] + index, world=world, host=host, job=_digest(addresses))


def _digest(addresses: Mapping[str, Any]) -> str:
    return sha256_json(dict(addresses))[:16]


def _number(environment: Mapping[str, str], name: str, end: int) -> int:
    """Return a variable as a number from 0 to below ``end``; raises ``UsageError`` for anything else."""
    text = environment[name].strip()
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS and int(text) < end):
        raise UsageError(
            f"the launcher's variable {name} is {environment[name]!r}; expected a number below {end}",
            f"start it with a launcher, or unset {name}",
        )
    return int(text)


def _optional(environment: Mapping[str, str], name: str, end: int) -> int | None:
    return _number(environment, name, end) if name and environment.get(name) else None
