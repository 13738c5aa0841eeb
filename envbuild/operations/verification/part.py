"""One run of a verification that Slurm spreads over nodes: what the ranks of one task of its job array do.

The ranks share a copy of the project, which rank 0 makes before they meet. Each leaves its record in the project, and
next to the copy what else the comparison needs.
"""

from __future__ import annotations

import json
import os
import socket
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from envbuild.core.fs import atomic_write, read_regular
from envbuild.errors import EnvbuildError, UsageError
from envbuild.operations import ranks
from envbuild.operations.events import Events
from envbuild.operations.load_lock import load_lock
from envbuild.operations.run import RunOptions, prefer_guard_error, prepare
from envbuild.operations.verification.session import ran_of, stream_digest
from envbuild.operations.verification.verify import VerifyOptions
from envbuild.record.printed import Printed
from envbuild.runs import workspace
from envbuild.runs.repeat import (
    APART,
    Output,
    Repeat,
    Repeated,
    copy_project,
    scratch_folder,
    varied,
    varied_request,
)
from envbuild.runs.time_limit import TimeLimit

if TYPE_CHECKING:
    from envbuild.record.model import Record
    from envbuild.runs.request import RunRequest

NUMBER = "SLURM_ARRAY_TASK_ID"
_NODE = "SLURMD_NODENAME"
_LARGEST, _LARGEST_STATES = 1 << 20, 1 << 30


class RankResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one rank of one run left; the rest is in its record.

    Attributes:
        record: identity of the record.
        node: Slurm's name of the machine.
        stdout, stderr, trace, steps, tensors, order, links: as ``verification.judge.Ran`` has them.
    """

    record: str
    node: str
    rank: int
    world: int
    stdout: Printed
    stderr: Printed
    trace: str
    steps: int
    tensors: int
    order: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One run: identity of the verification, and number of the run, from 0."""

    verification: str
    number: int


def run_part(shared: RunOptions, options: VerifyOptions, verification: str, events: Events) -> tuple[Record, str]:
    """Run once, in a copy of the project on the file system that the nodes share.

    Args:
        shared: what to run.
        options: how to verify.
        verification: identity of the verification, which made the folder for the copies.
        events: receives progress.

    Returns:
        This rank's record, and the end of what the program wrote to standard error.

    Raises:
        UsageError: this process is no task of a job array, or nobody waits for what it does any more.
        EnvbuildError: as ``operations.run.run``.
    """
    number = os.environ.get(NUMBER, "")
    if not (number.isascii() and number.isdigit()):
        raise UsageError(f"--part: expected a number in {NUMBER}, found {number!r}", "start it with: --on slurm")
    part = Part(verification=verification, number=int(number))
    loaded = load_lock(shared.lock, shared.search_from, option=True)
    job = ranks.join(loaded.path, guard=True)
    rank = 0 if job is None else job.rank.rank
    try:
        prepared = prepare(shared, events, loaded)
        plan = part_plan(prepared.request, options, part.verification)
        folder = plan.folder / str(part.number)
        if rank == 0:
            _make_copy(plan, part, folder)
            if job is not None and plan.copy is not None:
                states = workspace.scan(folder / "project", _inputs(plan))
                atomic_write(_first_states(folder), json.dumps(states).encode())
    except EnvbuildError as error:
        if job is not None:
            ranks.fail(job, error, events, shared.allow)
        raise
    output = _output(options, folder, rank)
    request = varied_request(plan, part.number, folder, "", output)
    request = msgspec.structs.replace(request, copies=None)  # all ranks would copy their `/tmp` to the same place
    if job is not None:
        # A rank that looks before rank 0 has saved its model would have other outputs than in the next run. The job's
        # script has srun end all ranks once one has failed.
        request = ranks.enter(job, request, events, compared=prepared.engine.is_local(), to_the_last=True)
        if plan.copy is not None:  # a rank that comes a moment later finds what the others have written by then
            first = json.loads(read_regular(_first_states(folder), _LARGEST_STATES, follow=False))
            now = workspace.scan(folder / "project", _inputs(plan))
            before = workspace.without_others(now, {path: tuple(state) for path, state in first.items()})
            request = msgspec.structs.replace(request, before=before)
    from envbuild.runs import execute

    with prefer_guard_error(request.lock, shared, prepared.engine):
        record = execute.run(request, prepared.engine)
    repeated = Repeated(number=part.number, record=record, output=output, folder=folder, in_place=False)
    _leave(repeated, plan, rank, 1 if job is None else job.rank.world)
    return record, output.tail.decode("utf-8", "replace")


def part_plan(request: RunRequest, options: VerifyOptions, verification: str) -> Repeat:
    """Return what is repeated; the same for the tasks and for who gathers their results."""
    from envbuild.runs.project_copy import plan_copy

    copy = None
    if request.lock.run.workspace != "ro":
        copy = plan_copy(request.project, tuple(entry.path.strip("/") for entry in request.lock.inputs))
    return Repeat(
        request=msgspec.structs.replace(request, verification=verification),
        slots=("",),
        copy=copy,
        folder=scratch_folder(request.project, verification),
        digest=partial(stream_digest, options.ignore),
        values=options.values,
        vary=varied(copy, strict=options.strict),
        limit=request.limit or TimeLimit(),
    )


def stream_files(folder: Path, rank: int) -> tuple[Path, Path]:
    """Name the files with what a rank printed."""
    return folder / f"stdout-{rank}", folder / f"stderr-{rank}"


def read_result(folder: Path, rank: int) -> RankResult | None:
    """Return what a rank left in its run's folder; None as long as it has not."""
    try:
        return msgspec.json.decode(read_regular(_result(folder, rank), _LARGEST, follow=False), type=RankResult)
    except (OSError, ValueError):
        return None


def _first_states(folder: Path) -> Path:
    return folder / "before.json"


def _inputs(plan: Repeat) -> tuple[str, ...]:
    """Return the read-only paths of the project, which no run changes."""
    return tuple(entry.path.strip("/") for entry in plan.request.lock.inputs)


def _result(folder: Path, rank: int) -> Path:
    return folder / f"rank-{rank}.json"


def _make_copy(plan: Repeat, part: Part, folder: Path) -> None:
    """Make the copy; runs that start together on two nodes are kept apart as those of one machine are."""
    try:
        folder.mkdir()
    except FileNotFoundError:
        raise UsageError(f"verification {part.verification} is over", "start another one: --on slurm") from None
    except FileExistsError:
        raise UsageError(f"run {part.number + 1} of this verification was started before") from None
    copy_project(plan, part.number, folder)
    time.sleep(APART * (part.number % 2))


def _output(options: VerifyOptions, folder: Path, rank: int) -> Output:
    stdout, stderr = stream_files(folder, rank)
    digests = (stream_digest(options.ignore, "stdout"), stream_digest(options.ignore, "stderr"))
    return Output(stdout=stdout, stderr=stderr, digests=digests)


def _leave(repeated: Repeated, plan: Repeat, rank: int, world: int) -> None:
    """Write what the comparison needs, last of all: whoever finds it finds the rest."""
    ran = ran_of(repeated, plan.request.project)
    found = RankResult(
        record=repeated.record.id,
        node=os.environ.get(_NODE) or socket.gethostname(),
        rank=rank,
        world=world,
        stdout=ran.stdout,
        stderr=ran.stderr,
        trace=ran.trace,
        steps=ran.steps,
        tensors=ran.tensors,
        order=ran.order,
        links=tuple(sorted(ran.links)),
    )
    atomic_write(_result(repeated.folder, rank), msgspec.json.encode(found))
