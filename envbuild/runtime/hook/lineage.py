"""Which process this is, among all that one run starts, and the seed that belongs to it.

A process has a *path*; the main process's is empty and its seed is the root seed itself. Otherwise

    seed = first 32 bits of SHA-256("ROOT/PATH" or "ROOT/PATH/INHERITED")

so that streams differ between processes and repeat between runs. Paths:

- ``rank N``: process N > 0 of a distributed job (the launcher's variable, ``RANKS``);
- ``rank 1.0``: the same where a launcher tells the numbers of node and process only;
- ``worker 2.1``: a ``multiprocessing`` child by its identity, the same for fork, spawn and forkserver;
- ``fork 3``: the third child that the parent made with ``os.fork``;
- ``exec 1f0c…``: another Python started by a Python of the run, by the digest of its arguments;
- ``task 3.1``: a task of a pool, whichever worker takes it (tasks.py).

A forked child inherits the parent's generators. Their state at the fork (INHERITED) goes into the child's seed, so
that a seed which the script set by itself still decides its children's numbers.

``ENVBUILD_PROCESS`` = ``PID:RANK:PATH`` tells a process its parent's place; equal PIDs mean a re-exec.
"""

from __future__ import annotations

from ..digest import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

VARIABLE = "ENVBUILD_PROCESS"

# torchrun, Open MPI, MPICH and Intel MPI, PMIx, MVAPICH2, Horovod, Slurm. The launcher nearest to the process first.
RANKS = (
    "RANK",
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
    "PMIX_RANK",
    "MV2_COMM_WORLD_RANK",
    "HOROVOD_RANK",
    "SLURM_PROCID",
)


def derive(root: int, path: str, inherited: str = "") -> int:
    """Return the 32-bit seed of a process; ``root`` itself for the main process."""
    if not path and not inherited:
        return root
    return int(sha256("/".join(part for part in (str(root), path, inherited) if part).encode())[:8], 16)


def rank(environment: Mapping[str, str]) -> str:
    """Return the process's number in a distributed job, or an empty string."""
    for name in RANKS:
        value = environment.get(name, "")
        if value.isascii() and value.isdigit():
            return value
    return _tensorflow_rank(environment.get("TF_CONFIG", "")) or _local_rank(environment)


def place(environment: Mapping[str, str], pid: int, arguments: Sequence[str]) -> str:
    """Return this process's path from what its parent and its launcher left in the environment.

    Args:
        environment: the process environment.
        pid: this process's number.
        arguments: the interpreter's whole command line.
    """
    own = rank(environment)
    base = f"rank {own}" if own.strip("0") else ""
    parts = environment.get(VARIABLE, "").split(":", 2)
    if len(parts) != 3:
        return base
    parent, parent_rank, parent_path = parts
    if own != parent_rank:
        return base
    if parent == str(pid):
        return parent_path
    if any("multiprocessing" in argument or "loky" in argument for argument in arguments):
        # Its arguments are numbers of descriptors; its identity comes with its task.
        return _join(parent_path, "worker")
    return _join(parent_path, "exec " + sha256("\0".join(arguments[1:]).encode("utf-8", "surrogateescape"))[:16])


def announce(environment: Mapping[str, str], pid: int, path: str) -> str:
    """Return the value of ``VARIABLE`` for this process's children."""
    return f"{pid}:{rank(environment)}:{path}"


def worker(path: str, identity: Sequence[int]) -> str:
    """Return the path of a ``multiprocessing`` child: its identity counts from the process that is no child."""
    parts = []
    for part in path.split("/") if path else ():
        if part.startswith(("worker", "fork")):
            break
        parts.append(part)
    return "/".join([*parts, "worker " + ".".join(map(str, identity))])


def fork(path: str, number: int) -> str:
    """Return the path of the ``number``-th child that ``os.fork`` made."""
    return _join(path, f"fork {number}")


def _join(path: str, part: str) -> str:
    return f"{path}/{part}" if path else part


def _local_rank(environment: Mapping[str, str]) -> str:
    """Return ``LOCAL_RANK``, after the node's number if that is not 0: all that PyTorch Lightning tells."""
    local, node = environment.get("LOCAL_RANK", ""), environment.get("NODE_RANK", "")
    if not (local.isascii() and local.isdigit()):
        return ""
    return f"{node}.{local}" if node.isascii() and node.isdigit() and node.strip("0") else local


def _tensorflow_rank(text: str) -> str:
    """Read ``task.index`` of ``TF_CONFIG``; workers only: a chief is its job's first process."""
    if not text:
        return ""
    from ..fastjson import loads

    try:
        task = loads(text)["task"]
        return str(int(task["index"]) + 1) if task["type"] != "chief" else "0"
    except (ValueError, KeyError, TypeError):
        return ""
