"""One rank of a distributed job: found, compared with the others before anything starts, and given its variables.

The container has a network and host names of its own, so addresses are found here, on the host. What only a job needs
is imported once there is one: most runs have none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from envbuild import __version__
from envbuild.cluster.launchers import PMIX_FOLDER, find_rank, job_key, launcher_variables, pmix_variables
from envbuild.cluster.rank import Rank, ranks_text
from envbuild.core.digest import sha256_file
from envbuild.core.text import plain
from envbuild.errors import EnvbuildError, HostMismatchError, JobError, UsageError
from envbuild.lockfile.discovery import STATE_FOLDER

if TYPE_CHECKING:
    from envbuild.cluster.agreement import Answer, Verdict
    from envbuild.cluster.exchange import Exchange
    from envbuild.cluster.tcp import TcpExchange
    from envbuild.engine.protocol import Mount
    from envbuild.host.facts import HostFacts
    from envbuild.lockfile.model import Lock
    from envbuild.operations.events import Events
    from envbuild.record.model import Record
    from envbuild.runs.request import RunRequest

FOLDER = "ENVBUILD_RANKS_FOLDER"
ADDRESS = "ENVBUILD_RANKS_ADDRESS"
SECRET = "ENVBUILD_RANKS_SECRET"  # noqa: S105 - the name of a variable
TIMEOUT = "ENVBUILD_RANKS_TIMEOUT"
_PATIENCE = 600.0
_AT_THE_END = 30.0
"""Seconds that a rank whose program ended well waits for the others, to read the outputs of all."""
_TO_THE_LAST = 7 * 86_400.0
"""The same where a launcher ends all ranks once one has died, so that nobody is waited for in vain."""
_TO_DELIVER, _BEFORE_THE_END = 60.0, 5.0
"""Seconds for the records of all ranks to reach rank 0's machine; fewer where not all have ended: rank 0 has failed,
and the launcher ends the others once it has ended, or a rank was killed."""
_LONGEST = 500
"""Characters of a list of ranks."""
_TO_REFUSE = 10.0
"""Seconds that ranks wait for each other before they end without having started a program."""
_FIRST_PORT, _FIRST_OWN_PORT, _PORTS = 20_000, 10_000, 10_000
"""Ports from which PyTorch's is chosen, and envbuild's own: below those that the kernel gives out."""
_HIGHEST_PORT, _DIGITS = 65_536, 6
_SHORTEST = 16
"""Characters of a secret."""
_INTERFACES = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
"""Gloo and TensorPipe would take the address of the host's name, which is the loopback's in a container."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """This rank, and its way to the others; None if there are none, or they are not compared."""

    rank: Rank
    exchange: Exchange | TcpExchange | None
    environment: Mapping[str, str]


def join(lock_path: Path, *, guard: bool, environment: Mapping[str, str] | None = None) -> Job | None:
    """Return this process's place in a job; None if no launcher has started it.

    Args:
        lock_path: the lock's file, in the project.
        guard: False: the ranks are not compared.
        environment: this process's variables by default.

    Raises:
        UsageError: the launcher's variables contradict each other, or envbuild's own are wrong.
    """
    variables = os.environ if environment is None else environment
    rank = find_rank(variables, os.uname().nodename)
    if rank is None:
        return None
    exchange: Exchange | TcpExchange | None = None
    if rank.world > 1 and guard:
        from envbuild.operations.run_options import parse_timeout

        patience = parse_timeout(variables[TIMEOUT]) if variables.get(TIMEOUT) else _PATIENCE
        exchange = _meeting(lock_path, rank, variables, patience)
    return Job(rank=rank, exchange=exchange, environment=dict(variables))


def require_no_launcher(environment: Mapping[str, str] | None = None) -> None:
    """Raise ``UsageError`` if a launcher has started this process as one of several: ``verify`` starts ranks itself."""
    rank = find_rank(os.environ if environment is None else environment, os.uname().nodename)
    if rank is None or rank.world == 1:
        return
    tasks = rank.local_world or rank.world
    inside = f"torchrun --nproc-per-node {tasks} train.py" if rank.launcher == "torchrun" else ""
    on_slurm = f"--on slurm --nodes {-(-rank.world // tasks)} --tasks-per-node {tasks} train.py"
    words = on_slurm if rank.launcher == "Slurm" else inside or f"mpirun -n {rank.world} python train.py"
    raise UsageError(
        f"{rank.launcher} has started this as rank {rank.rank} of {rank.world}: each rank would verify by itself, and "
        "none would meet the others",
        f"without the launcher, which verify starts in each run: envbuild verify {words}",
    )


def enter(job: Job, request: RunRequest, events: Events, *, compared: bool, to_the_last: bool = False) -> RunRequest:
    """Compare this rank with the others, and return the request with its rank and the variables that the program needs.

    Args:
        job: this rank.
        request: what it would run.
        events: receives notes.
        compared: this machine is the one that the program runs on; False for a remote engine, whose facts are unknown.
        to_the_last: after a good end wait for the end of all other ranks, however long they still write; the launcher
            ends those that wait for one that has died.

    Raises:
        HostMismatchError: the machines do not match the lock or each other; the message has a table.
        JobError: not all ranks arrived in time, or one of them cannot start.
    """
    from envbuild.host.probe import host_facts
    from envbuild.operations.events import Note

    rank, verdict = job.rank, None
    if job.exchange is not None:
        facts = host_facts() if compared else None
        first = _states(request)
        verdict = job.exchange.agree(_answer(job, request, facts), request.allow)
        if (error := _refusal(verdict, rank)) is not None:
            _settle(job.exchange, verdict, rank.world, error, events)
            raise error
        if request.workspace is None:
            request = msgspec.structs.replace(request, before=_before(request, first))
        rank = msgspec.structs.replace(
            rank, start=verdict.start, hosts=tuple(map(str, verdict.hosts)), allowed=tuple(verdict.allowed)
        )
    network = request.network or request.lock.run.network
    if rank.world > 1 and rank.rank == 0 and network == "none":
        events.report(Note(text=_NO_NETWORK))
    variables = launcher_variables(rank, job.environment)
    if "RANK" in variables:
        variables |= _addresses(rank, verdict, job.environment, network)
    mounts: tuple[Mount, ...] = ()
    if network == "host" and rank.world > 1:
        pmix = pmix_variables(rank, job.environment)
        variables |= {name: value for name, value in pmix.items() if name not in request.lock.environment}
        mounts = tuple(_pmix_folder(pmix))
    return msgspec.structs.replace(
        request,
        rank=rank,
        own_mounts=mounts,
        address="" if network == "none" else _own_address(variables.get("MASTER_ADDR", "")),
        finished=_finished(job.exchange, _TO_THE_LAST if to_the_last else _AT_THE_END),
        recorded=_recorded(job, rank, request.project, events),
        own_variables={**variables, **request.own_variables},
        placement=_placement(rank, job.environment),
    )


def _states(request: RunRequest) -> Mapping[str, tuple[int, int, int, int, int]]:
    """Return the state of the project, which no rank's program can have changed before this one is compared."""
    from envbuild.runs import workspace

    return workspace.scan(request.project, tuple(entry.path.strip("/") for entry in request.lock.inputs))


def _before(
    request: RunRequest, first: Mapping[str, tuple[int, int, int, int, int]]
) -> Mapping[str, tuple[int, int, int, int, int]]:
    """Return the state before the run: without what the programs of other ranks have written since ``first``.

    Lock files are as they are now: another rank's envbuild may have recorded the image that it made.
    """
    from envbuild.runs import workspace

    now = _states(request)
    locks = {path: state for path, state in now.items() if path.startswith("pylock.")}
    return workspace.without_others(now, {**first, **locks})


_NO_NETWORK = (
    "the ranks cannot reach each other: the program has no network; if they should: run: {network: host} in the spec, "
    "or --network host"
)


def fail(job: Job, error: EnvbuildError, events: Events, allow: tuple[str, ...] = ()) -> None:
    """Report to the other ranks that this one cannot start, so that they do not wait; its own error is the caller's."""
    from envbuild.cluster.agreement import Answer

    if job.exchange is None:
        return
    text = " ".join(error.message.replace(" — nothing was run", ":").split())[:2000]
    mismatch = isinstance(error, HostMismatchError)
    answer = Answer(
        start=_NONE,
        nonce=_NONE,
        rank=job.rank.rank,
        host=job.rank.host[:255],
        refused=(text,) if mismatch else (),
        failed="" if mismatch else text,
    )
    with suppress(JobError):
        verdict = job.exchange.agree(answer, allow)
        _settle(job.exchange, verdict, job.rank.world, error, events)


_NONE = "0" * 32


def _meeting(lock_path: Path, rank: Rank, variables: Mapping[str, str], patience: float) -> Exchange | TcpExchange:
    """Return the way to the other ranks: the shared folder, or TCP if an address is given."""
    from envbuild.cluster.exchange import Exchange

    if not variables.get(ADDRESS):
        root, names = _place(lock_path, variables)
        return Exchange(root, names, rank, patience)
    if variables.get(FOLDER):
        raise UsageError(f"both {FOLDER} and {ADDRESS} are set", "unset one: ranks meet in a folder or over TCP")
    secret = variables.get(SECRET, "")
    if len(secret) < _SHORTEST:
        raise UsageError(
            f"{ADDRESS} needs a secret that all ranks have, in {SECRET}; expected {_SHORTEST} characters at least, "
            f"found {len(secret)}",
            f"before the launcher: export {SECRET}=$(openssl rand -hex 16)",
        )
    from envbuild.cluster.frames import derive_key
    from envbuild.cluster.tcp import TcpExchange
    from envbuild.operations.rank_records import RankRecords

    key, records = derive_key(secret, job_key(rank)), RankRecords(lock_path.resolve().parent, rank.world)
    return TcpExchange(rank_0_address(rank, variables), key, rank, patience, records)


def rank_0_address(rank: Rank, variables: Mapping[str, str]) -> tuple[str, int]:
    """Return where rank 0 listens: as given; with ``auto`` the launcher's first machine and a port of the job's."""
    from envbuild.cluster import address

    given = variables[ADDRESS]
    if given != "auto":
        host, colon, port = given.rpartition(":")
        digits = port.isascii() and port.isdigit() and len(port) < _DIGITS
        if not (colon and host and digits and 0 < int(port) < _HIGHEST_PORT):
            raise UsageError(f"{ADDRESS} is {given!r}; expected HOST:PORT, or auto", "such as node1:29400")
        return host.removeprefix("[").removesuffix("]"), int(port)
    host = variables.get("MASTER_ADDR", "") or (rank.nodes[0] if rank.nodes else "")
    if not host and rank.local_world == rank.world:
        host = address.LOOPBACK
    if not host:
        raise UsageError(
            f"{ADDRESS} is auto, and {rank.launcher} does not name its first machine",
            f"name it: {ADDRESS}=HOST:PORT, or set MASTER_ADDR",
        )
    return host, _FIRST_OWN_PORT + int(job_key(rank), 16) % _PORTS


def _place(lock_path: Path, variables: Mapping[str, str]) -> tuple[Path, tuple[str, ...]]:
    """Return the folder where ranks meet: an existing one, and names below it."""
    chosen = variables.get(FOLDER)
    if not chosen:
        return lock_path.resolve().parent, (STATE_FOLDER,)
    if not Path(chosen).is_absolute() or not Path(chosen).is_dir():
        raise UsageError(
            f"{FOLDER} is {chosen!r}; expected the absolute path of a folder", f"make it, or unset {FOLDER}"
        )
    return Path(chosen), ()


def _answer(job: Job, request: RunRequest, facts: HostFacts | None) -> Answer:
    """Collect what must be equal in all ranks, and what this one's guard refuses."""
    from envbuild.cluster import address
    from envbuild.cluster.agreement import Answer, host_values

    others = [name for name in job.rank.nodes if name != job.rank.host]
    towards = [*others[:4], job.environment.get("SLURM_LAUNCH_NODE_IPADDR", ""), os.uname().nodename]
    return Answer(
        start=_NONE,
        nonce=_NONE,
        rank=job.rank.rank,
        host=job.rank.host[:255],
        address=address.own_address(filter(None, towards)),
        facts={
            "world": str(job.rank.world),
            "envbuild": __version__,
            "lock": sha256_file(request.lock_path),
            "image": request.config,
            "controls": "on" if request.controls else "off",
            **({} if facts is None else {name: value[:4000] for name, value in host_values(facts).items()}),
        },
        refused=() if facts is None else _refused(request.lock, request.allow),
    )


def _refused(lock: Lock, allow: tuple[str, ...]) -> tuple[str, ...]:
    """Return what the guard will refuse of this machine, a line each."""
    from envbuild.operations.check import check_host

    checks = check_host(lock).checks
    return tuple(
        f"{check.field}: locked {check.locked}, found {check.found}"[:400]
        for check in checks
        if check.refuses and check.field not in allow
    )[:16]


def _refusal(verdict: Verdict, rank: Rank) -> EnvbuildError | None:
    """Return the error if a verdict lets no program start; the first rank of each machine has the table in it."""
    if not verdict.lines:
        return None
    if rank.local in (None, 0):
        table = "\n".join(f"  {plain(line)}" for line in verdict.lines)
    else:
        table = f"  why: see the message of rank 0, or of the first rank on {plain(rank.host)}"
    if verdict.mismatch:
        return HostMismatchError(
            f"the machines of the {rank.world} ranks of this job do not match — nothing was run\n{table}",
            "run on machines that are alike (Slurm: --constraint), or once, knowingly: envbuild run --allow FIELD",
        )
    return JobError(
        f"the {rank.world} ranks of this job did not come together — nothing was run\n{table}",
        f"see the output of these ranks; all need the same project folder, or {ADDRESS}; to wait longer: {TIMEOUT}=30m",
    )


def _settle(
    exchange: Exchange | TcpExchange, verdict: Verdict, world: int, error: EnvbuildError, events: Events
) -> None:
    """Wait until every rank knows that no program starts.

    A launcher ends the other ranks as soon as one has ended: who has not seen the verdict by then would end with the
    launcher's signal and not with its own exit code, and the job's code is the highest of all.
    """
    from envbuild.operations.events import JobRefused

    if not verdict.lines:
        return
    events.report(JobRefused())
    exchange.ended(error.exit_code, _TO_REFUSE if len(verdict.nonces) == world else 0.0)
    exchange.close()


def _addresses(rank: Rank, verdict: Verdict | None, environment: Mapping[str, str], network: str) -> dict[str, str]:
    """Return where PyTorch's processes meet, and by which interface."""
    from envbuild.cluster import address

    alone = verdict is not None and len(set(verdict.hosts)) == 1
    master = environment.get("MASTER_ADDR", "")
    if master:
        master = address.resolve(master) or (address.LOOPBACK if alone or not rank.nodes else master)
    elif alone or rank.local_world == rank.world:
        master = address.LOOPBACK
    else:
        master = address.resolve(rank.nodes[0] if rank.nodes else "") or (verdict.address if verdict else "")
    if not master:
        return {}
    port = environment.get("MASTER_PORT") or str(_FIRST_PORT + int(job_key(rank), 16) % _PORTS)
    found = {"MASTER_ADDR": master, "MASTER_PORT": port}
    if network != "none" and (interface := address.interface_towards(master)):
        found |= {name: environment.get(name, interface) for name in _INTERFACES}
    return found


def _pmix_folder(variables: Mapping[str, str]) -> Iterator[Mount]:
    """Yield the folder of a PMIx server, which programs open under its own name."""
    from envbuild.engine.protocol import Mount

    folder = Path(variables.get(PMIX_FOLDER, "")).absolute()
    if PMIX_FOLDER in variables and folder.is_dir():
        yield Mount(source=folder, target=os.path.normpath(folder))


def _own_address(master: str) -> str:
    """Return this machine's address on the way to rank 0's; empty if that is this machine alone, or unknown.

    Gloo in JAX listens on the address of the host's name, and has no variable for it (jaxlib's
    ``make_gloo_tcp_collectives``).
    """
    from envbuild.cluster import address

    return address.own_address([master]) if master else ""


def _finished(exchange: Exchange | TcpExchange | None, patience: float) -> Callable[[int], Mapping[int, int]] | None:
    """Return a function that reports this program's end to the other ranks; after a good end it waits for them."""
    if exchange is None:
        return None
    return lambda code: exchange.ended(code, patience if code == 0 else 0.0)


def _recorded(job: Job, rank: Rank, project: Path, events: Events) -> Callable[[Record], None] | None:
    """Return a function that brings a completed record to rank 0's machine; None if ranks meet in a folder."""
    if not job.environment.get(ADDRESS):
        return None
    from envbuild.cluster.tcp import TcpExchange
    from envbuild.operations.events import Note
    from envbuild.operations.rank_records import files_of

    exchange = job.exchange
    if not isinstance(exchange, TcpExchange):
        return None

    def collect(record: Record) -> None:
        ended = record.rank is not None and record.rank.waited
        absent: dict[str, list[int]] = {}
        for number, why in exchange.collect(_TO_DELIVER if ended else _BEFORE_THE_END).items():
            absent.setdefault(why, []).append(number)
        for why, numbers in absent.items():
            found = ranks_text(numbers, dict(enumerate(rank.hosts)))
            found = found if len(found) <= _LONGEST else f"{found[: _LONGEST - 1]}…"
            events.report(Note(text=f"no record of rank {found}, where it stays if it was written: {plain(why)}"))

    def deliver(record: Record) -> None:
        try:
            files, whole = files_of(project, record)
            why = exchange.deliver(record.id, files, _TO_DELIVER)
        except OSError as error:
            why, whole = str(error.strerror or error), True
        if why:
            events.report(Note(text=f"the record of rank {rank.rank} stays on this machine: {plain(why)}"))
        elif not whole:
            events.report(
                Note(text=f"the step traces of rank {rank.rank} are too large to be sent: they stay on this machine")
            )

    return collect if rank.rank == 0 else deliver


def _placement(rank: Rank, environment: Mapping[str, str]) -> tuple[int, str] | None:
    """Return this rank's number on its machine, and the GPUs that the launcher gave it; None if it is alone there."""
    if rank.local is None or rank.local_world == 1 or rank.world == 1:
        return None
    return rank.local, environment.get("CUDA_VISIBLE_DEVICES", "")
