"""Which process this is, among all that one run starts, and the seed that belongs to it.

A process has a *path*; the main process's is empty and its seed is the root seed itself. Otherwise

    seed = first 32 bits of SHA-256("ROOT/PATH" or "ROOT/PATH/INHERITED")

so that streams differ between processes and repeat between runs. Paths:

- ``rank N``: process N > 0 of a distributed job (the launcher's variable, ``RANKS``);
- ``rank 1.0``: the same where a launcher sets the numbers of node and process only;
- ``worker 2.1``: the first ``multiprocessing`` child that the second one made in its main thread, the same for fork,
  spawn and forkserver; ``worker 1 of threads``: made in another one; ``pool worker 3``: of a pool, whose workers come
  and go at moments that are a race, so that others are counted without them;
- ``fork 3``: the third child that the parent's main thread made with ``os.fork``; ``fork 1 of threads``: other threads;
- ``exec train.py.2``: another Python that a Python of the run started: its script, its module or a digest of its code,
  and how many of that name the parent had started from its main thread. Arguments do not count: they hold names of
  temporary files, ports, connection files;
- ``exec train.py 1f0c….1``: the same, started from another thread. The order of such starts may be a race, so the
  arguments count, with volatile parts masked, and the number is per name and arguments. Threads that start programs
  whose masked arguments are equal, at the same time, are not distinguished reliably;
- ``exec run.sh.1/train.py 1f0c…``: a Python that another program started, itself started by a Python of the run;
- ``interpreter 2``: a further interpreter of a process (``InterpreterPoolExecutor``), by its number;
- ``task 3.1``: a task of a pool, whichever worker takes it (tasks.py); ``ray task ID``, ``task 2/actor``: of Ray.

A forked child inherits the parent's generators. Their state at the fork (INHERITED) goes into the child's seed, so
that a seed which the script set by itself still decides its children's numbers.

``ENVBUILD_PROCESS`` = ``PID:RANK:PROGRAM:PATH`` holds the parent's place, and the child's name and number; equal PIDs
mean a re-exec. PROGRAM is empty where the start was not seen (``os.system``). A Python gets the variable whatever
environment the program gives it (frameworks/starts.py); one without it, below a process whose environment has the
guard's marker (``env -i python train.py`` in a shell), has the place ``exec train.py 1f0c…``, of its arguments alone.
"""

from __future__ import annotations

from ..digest import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

VARIABLE = "ENVBUILD_PROCESS"
UNSEEN = "0:::"
"""The variable's value for a process of the run whose environment does not have it."""
_PYTHONS = ("python", "pypy")
_SHELLS = frozenset(("sh", "bash", "dash", "ash", "zsh", "ksh"))
_VOLATILE = (
    r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",  # a UUID
    r"(?<!\d)\d{4}[-_.]\d\d[-_.]\d\d(?!\d)",  # a date
    r"(?<!\d)\d\d[-:_.]\d\d[-:_.]\d\d(?:[._]\d{3,9})?(?!\d)",  # a time, of Ray's sessions with microseconds
    r"(?<!\d)\d{8}[-_T]\d{4,6}(?!\d)",  # both without separators
    r"\b(?=[a-fA-F]*[0-9])[0-9a-fA-F]{8,}\b|\d{8,}",
    r"tmp[a-z0-9_]{8}(?![a-z0-9_])",
)

_OF_WORKERS = ("from multiprocessing.", "from multiprocess.")

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
    parts = environment.get(VARIABLE, "").split(":", 3)
    if len(parts) != 4:
        return base
    parent, parent_rank, started, parent_path = parts
    if own and own != parent_rank:
        return base
    if parent == str(pid):
        beside = _interpreter()
        return _join(parent_path, beside) if beside else parent_path
    if is_worker(arguments):
        # Its arguments are numbers of descriptors; its identity comes with its task.
        return _join(parent_path, "worker")
    name = program(arguments)
    if name == started.rpartition(".")[0].partition(" ")[0]:
        return _join(parent_path, f"exec {started}")
    through = f"{started}/" if started else ""
    return _join(parent_path, f"exec {through}{name} {_digest(arguments[1:])}")


def _interpreter() -> str:
    """Return the place of a further interpreter of this process; its first one, also after ``exec``, has none."""
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            found = __import__(name).get_current()
        except ImportError:
            continue
        number = int(found[0] if isinstance(found, tuple) else found)
        return f"interpreter {number}" if number else ""
    return ""


def is_beside(path: str) -> bool:
    """Whether a path is that of a further interpreter of a process."""
    return path.rpartition("/")[2].startswith("interpreter ")


def announce(environment: Mapping[str, str], pid: int, path: str, started: str = "") -> str:
    """Return the value of ``VARIABLE`` for this process's children; ``started`` is one child's name and number."""
    return f"{pid}:{rank(environment)}:{started}:{path}"


def is_python(names: Sequence[str]) -> bool:
    """Whether one of some names or paths of a program is that of a Python."""
    return any(name.rpartition("/")[2].startswith(_PYTHONS) for name in names)


def is_bare(arguments: Sequence[str]) -> bool:
    """Whether a Python with a command line reads no start-up files: ``-S``, alone or among other letters."""
    values = iter(arguments[1:])
    for word in values:
        if not word.startswith("-") or word in ("-", "--") or word.startswith("--"):
            return False
        for at, letter in enumerate(word[1:], 2):
            if letter == "S":
                return True
            if letter in "cm":
                return False
            if letter in "WX":  # the rest is its value, or the next word
                if at == len(word):
                    next(values, None)
                break
    return False


def is_worker(arguments: Sequence[str]) -> bool:
    """Whether a command line is that of a ``multiprocessing`` child, or loky's, multiprocess'; helpers included."""
    return any(
        word == "--multiprocessing-fork" or word.startswith(_OF_WORKERS) or "loky.backend" in word for word in arguments
    )


def started(counts: dict[str, int], arguments: Sequence[str], *, ordered: bool) -> str:
    """Return the name and the number of a program that is started now.

    Args:
        counts: how many were started so far; the new one is added.
        arguments: its command line.
        ordered: whether this thread's starts always come in the same order.
    """
    key = program(arguments)
    if not ordered:
        key += f" {_digest(arguments[1:])}"
    counts[key] = counts.get(key, 0) + 1
    return f"{key}.{counts[key]}"


def program(arguments: Sequence[str]) -> str:
    """Name what a command line runs: the script of an interpreter, its module, or a digest of its code; else itself."""
    words = list(arguments)
    base = words[0].rpartition("/")[2] if words else ""
    python = is_python((base,))
    if not python and base not in _SHELLS:
        return _plain(base)
    valued = "WX" if python else "oO"
    place = 1
    while place < len(words):
        word = words[place]
        place += 1
        if not word.startswith("-") or word == "-":
            return _plain(word.rpartition("/")[2])
        for index, letter in enumerate(word[1:] if not word.startswith("--") else "", 2):
            if letter == "c":
                code = word[index:] if python and word[index:] else "".join(words[place : place + 1])
                return f"{'' if python else 'sh'}-c-{_digest([code])[:8]}"
            if letter == "m" and python:
                return _plain(word[index:] or "".join(words[place : place + 1]))
            if letter in valued:
                place += not word[index:]
                break
        place += word == "--check-hash-based-pycs"
    return _plain(base)


def mask(text: str) -> str:
    """Return a text without what varies between runs: UUIDs, long numbers, temporary names, ports, times."""
    import re

    for pattern in _VOLATILE:
        text = re.sub(pattern, "*", text)
    return re.sub(r"(?<!\d)\d{5}(?!\d)", lambda found: "*" if 32768 <= int(found[0]) <= 60999 else found[0], text)


def _digest(arguments: Sequence[str]) -> str:
    return sha256("\0".join(map(mask, arguments)).encode("utf-8", "surrogateescape"))[:16]


def _plain(name: str) -> str:
    """Return a name for a path: volatile parts masked, and no character that separates parts."""
    name = mask(name) if len(name) >= 8 and any(letter.isdigit() or letter == "_" for letter in name) else name
    return "".join(letter if letter.isalnum() or letter in "._-*" else "_" for letter in name)


def worker_of(place: str, number: str, *, pooled: bool) -> str:
    """Return the path of the ``multiprocessing`` child that a process, or a task, made as its ``number``-th."""
    if not pooled and place.rpartition("/")[2].startswith("worker "):
        return f"{place}.{number}"
    return _join(place, f"{'pool ' if pooled else ''}worker {number}")


def worker(path: str, identity: Sequence[int]) -> str:
    """Return the path of a ``multiprocessing`` child by its identity, counted from the process that is no child."""
    parts = []
    for part in path.split("/") if path else ():
        if part.startswith(("worker", "fork")):
            break
        parts.append(part)
    return "/".join([*parts, "worker " + ".".join(map(str, identity))])


def fork(path: str, number: str) -> str:
    """Return the path of the child that ``os.fork`` made as its process's ``number``-th."""
    return _join(path, f"fork {number}")


def _join(path: str, part: str) -> str:
    return f"{path}/{part}" if path else part


def _local_rank(environment: Mapping[str, str]) -> str:
    """Return ``LOCAL_RANK``, after the node's number if that is not 0: all that PyTorch Lightning sets."""
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
