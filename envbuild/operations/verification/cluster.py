"""``verify --on slurm``: runs of one program spread over nodes as a job array, gathered and compared as usual.

Each task of the array is one run, of one or several ranks (``part``). Records, traces and copies of the project
are on the file system that the nodes share, so that all that ``verify`` compares is there. Ranks are compared each with
itself in the other runs; two runs are equal if all their ranks are.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from envbuild.cluster.batch import Job
from envbuild.cluster.rank import numbers_text
from envbuild.core import leftovers
from envbuild.core.fs import read_regular
from envbuild.core.identity import new_id
from envbuild.core.text import plain, plural
from envbuild.errors import JobError, UsageError
from envbuild.operations import follow_job, submit
from envbuild.operations.events import Events, JobSubmitted, RunEnded, RunsEnded
from envbuild.operations.failed_rank import ENDED_BY_LAUNCHER
from envbuild.operations.load_lock import LoadedLock, load_lock
from envbuild.operations.run import RunOptions
from envbuild.operations.verification.part import part_plan, read_result, stream_files
from envbuild.operations.verification.session import Session
from envbuild.operations.verification.verify import Verification, VerifyOptions, doubts_of, quoted_without_runs
from envbuild.record import history
from envbuild.record.model import RecordError
from envbuild.record.printed import Printed
from envbuild.runs.repeat import (
    TAIL,
    Output,
    Repeat,
    Repeated,
    clear,
    forget_values,
    keep_for_job,
    make_scratch_folder,
    variations,
)
from envbuild.runs.request import RunRequest
from envbuild.verification.judge import judge
from envbuild.verification.nodes import NodeTable, node_table
from envbuild.verification.ran import Ran
from envbuild.verification.verdict import Verdict

if TYPE_CHECKING:
    from envbuild.difference.finding import Finding
    from envbuild.trace.divergence import Divergence

_COPIES = 8
"""Copies of the project that are taken to be there at once."""
_SHOWN = 6
_LAST_LINES = 4
_LATE = 60
"""Seconds to wait for the results of tasks that have ended well."""


@dataclass(kw_only=True)
class _Gathering:
    """The runs that have left their results, by rank; each rank is a verification of its own.

    Attributes:
        ranks: by rank its runs.
        places: by run the nodes of its ranks.
    """

    plan: Repeat
    asked: int
    ignore: tuple[str, ...]
    world: int
    ranks: dict[int, Session] = field(default_factory=dict)
    places: dict[int, dict[int, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for rank in range(self.world):
            self.ranks[rank] = Session(plan=self.plan, asked=self.asked, ignore=self.ignore)

    def look(self) -> list[int]:
        """Take what was left since the last look; returns the runs of which all ranks are there now."""
        new = []
        for number in range(self.asked):
            have = self.places.setdefault(number, {})
            if len(have) == self.world:
                continue
            for rank in (rank for rank in range(self.world) if rank not in have):
                self._take(number, rank)
            if len(have) == self.world:
                new.append(number)
        for _ in new[:1]:
            for session in self.ranks.values():
                session.open_files()
            self._forget()
        return new

    def _take(self, number: int, rank: int) -> None:
        folder = self.plan.folder / str(number)
        found = read_result(folder, rank)
        if found is None:
            return
        try:
            record = history.find_run(self.plan.request.project, found.record)
        except RecordError:  # a file system of several machines may show it later
            return
        session, (stdout, stderr) = self.ranks[rank], stream_files(folder, rank)
        output = Output(stdout=stdout, stderr=stderr, digests=(_Known(found.stdout), _Known(found.stderr)))
        output.tail = _tail(stderr)
        session.done[number] = Repeated(number=number, record=record, output=output, folder=folder, in_place=False)
        session.ran[number] = Ran(
            record=record,
            stdout=found.stdout,
            stderr=found.stderr,
            trace=found.trace,
            steps=found.steps,
            tensors=found.tensors,
            order=found.order,
            links=frozenset(found.links),
        )
        session.note_mentioned(session.done[number])
        self.places[number][rank] = found.node

    def _forget(self) -> None:
        """Remove copies with results seen before; the ranks of a run share one."""
        whole, groups = self.whole, self.groups()
        wanted = {whole[group[0]] for group in groups[:2]}
        for number in whole:
            if number not in wanted:
                self.ranks[0].done[number].discard()

    @property
    def whole(self) -> list[int]:
        """The runs of which all ranks have ended, in their order."""
        return [number for number in range(self.asked) if len(self.places.get(number, ())) == self.world]

    @property
    def failed(self) -> tuple[int, int] | None:
        """The first run that ended badly, and which of its ranks did; None if none did.

        A refusal comes first, and what the launcher ended because of another rank last.
        """
        bad = [
            (run.record.state != "refused", run.record.exit_code in ENDED_BY_LAUNCHER, number, rank)
            for rank, each in self.ranks.items()
            for number, run in each.ran.items()
            if not run.ended_well
        ]
        return min(bad)[2:] if bad else None

    @property
    def torn(self) -> int | None:
        """The first run of which a rank read its outputs while others could still write theirs; None if none did."""
        for number in self.whole:
            places = [each.ran[number].record.rank for each in self.ranks.values()]
            if any(place is not None and place.world > 1 and not place.waited for place in places):
                return number
        return None

    @property
    def refused(self) -> bool:
        """Whether a guard did not let the program start."""
        return any(run.record.state == "refused" for each in self.ranks.values() for run in each.ran.values())

    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Return indexes, among the whole runs, of those whose ranks all have equal results."""
        whole = self.whole
        results: list[tuple[int, ...]] = [() for _ in whole]
        for session in self.ranks.values():
            runs = [session.ran[number] for number in whole]
            verdict = judge(runs, self.asked, self.ignore, session.given_to(runs))
            group_of = {index: number for number, group in enumerate(verdict.groups) for index in group}
            results = [(*have, group_of[index]) for index, have in enumerate(results)]
        found: dict[tuple[int, ...], list[int]] = {}
        for index, result in enumerate(results):
            found.setdefault(result, []).append(index)
        return tuple(map(tuple, found.values()))

    def place(self, number: int) -> str:
        """Name the nodes of a run, in the order of its ranks."""
        return " + ".join(dict.fromkeys(plain(node) for _, node in sorted(self.places[number].items())))


@dataclass(frozen=True, slots=True)
class _Known:
    """A stream whose digest is known."""

    printed: Printed

    def feed(self, data: memoryview) -> None:
        """Take nothing: the stream has ended."""

    def result(self) -> Printed:
        """Return it."""
        return self.printed


def verify_on_slurm(
    shared: RunOptions, options: VerifyOptions, job: Job, words: Sequence[str], events: Events
) -> Verification:
    """Run a program several times on the nodes of a cluster, and compare.

    Args:
        shared: what to run.
        options: how often, and what is compared.
        job: nodes and tasks of one run, and what else to ask Slurm for.
        words: options for ``envbuild verify`` and the program, as each task gets them.
        events: receives ``JobSubmitted``, ``RunEnded`` and ``RunsEnded``.

    Raises:
        UsageError: the options do not fit together, or the project is too large to copy.
        EngineError: Slurm refused the job, or does not answer.
        JobError: some runs left no result, and those that did are equal; or ranks did not hear of each other's end.
    """
    _check(options, job)
    loaded = load_lock(shared.lock, shared.search_from, option=True)
    plan = part_plan(_request(shared, loaded), options, new_id())
    asked = replace(job, array=f"0-{options.count - 1}", exclusive=True)
    text = _script(asked, loaded, plan, words)
    leftovers.note(plan.folder)
    make_scratch_folder(plan.folder)
    try:
        if plan.copy is not None:
            from envbuild.runs.project_copy import check_size

            check_size(plan.copy, min(options.count, _COPIES), plan.folder)
        number = submit.sbatch(text)
        gathering = _Gathering(plan=plan, asked=options.count, ignore=options.ignore, world=job.nodes * job.tasks)
        events.report(JobSubmitted(job=number, runs=options.count))
        try:
            keep_for_job(plan.folder, number)
            ended = _gather(gathering, number, events)
        except BaseException:
            follow_job.cancel(number)
            raise
        return _judged(gathering, options, ended, number)
    finally:
        clear(plan.folder)


def _check(options: VerifyOptions, job: Job) -> None:
    options.check()
    if options.sign and job.nodes * job.tasks > 1:
        raise UsageError("--sign signs a proof, and none is written of runs of several ranks", "leave it out")
    for name, given in (("--in-place", options.in_place), ("--jobs", options.jobs), ("--cost", options.cost)):
        if given:
            raise UsageError(f"{name} goes with runs on this machine", "leave it out, or --on slurm")


def _request(shared: RunOptions, loaded: LoadedLock) -> RunRequest:
    """Return what is run, as far as it is known here: this machine needs no engine and no image."""
    return RunRequest(
        lock_path=loaded.path,
        lock=loaded.lock,
        image="",
        config="",
        arguments=shared.command,
        environment=shared.environment,
        controls=shared.controls,
    )


def _script(job: Job, loaded: LoadedLock, plan: Repeat, words: Sequence[str]) -> str:
    path = loaded.path.resolve()
    output = submit.output_of(path.parent, array=True)
    return submit.script_of(
        job, loaded, output, ["--part", plan.folder.name, "--lock", str(path), *words], verb="verify"
    )


def _gather(gathering: _Gathering, job: str, events: Events) -> follow_job.Ended:
    """Wait for the array's end, taking results as they come; the first run that fails ends the others."""
    made, stopped = 0, False
    with events.phase("run", total=gathering.asked, unit="runs") as advance:

        def look() -> None:
            nonlocal made, stopped
            for number in gathering.look():
                made += 1
                advance(1)
                record = gathering.ranks[0].ran[number].record
                events.report(
                    RunEnded(
                        number=number + 1,
                        of=gathering.asked,
                        id=record.id,
                        state=record.state,
                        exit_code=record.exit_code,
                    )
                )
            if not stopped and gathering.failed is not None:
                stopped = True
                follow_job.cancel(job)

        ended = follow_job.follow(job, None, lambda chunk: None, look)
        look()
        for _ in range(_LATE if ended.code == 0 else 0):  # a file system of several machines may show files late
            if made == gathering.asked:
                break
            time.sleep(1)
            look()
    events.report(RunsEnded(asked=gathering.asked, made=made, at_once=1))
    return ended


def _judged(gathering: _Gathering, options: VerifyOptions, ended: follow_job.Ended, job: str) -> Verification:
    """Return what the runs show; raises ``JobError`` if some are missing and the others equal."""
    whole = gathering.whole
    groups = gathering.groups() if whole else ()
    for session in gathering.ranks.values():
        session.note_contents()
    failed = gathering.failed
    if failed is not None and (gathering.refused or len(groups) < 2):
        return _of_one_rank(gathering, *failed)
    if failed is None and (number := gathering.torn) is not None:
        raise _torn(gathering, number)
    if len(groups) < 2 and len(whole) < gathering.asked:
        raise _missing(gathering, ended, job)
    verdict, rank = _verdict(gathering, groups)
    runs = tuple(gathering.ranks[rank].ran[number] for number in whole)
    base = Verification(
        verdict=verdict,
        runs=runs,
        at_once=1,
        varied=variations(gathering.plan),
        world=gathering.world,
        nodes=node_table(groups, [gathering.place(number) for number in whole], [run.record.host for run in runs]),
    )
    if verdict.outcome == "identical":
        return _prove(gathering, base, options)
    return _refute(gathering, base, rank)


def _of_one_rank(gathering: _Gathering, number: int, rank: int) -> Verification:
    """Return the verdict on a rank of a run that ended badly."""
    found = gathering.ranks[rank]
    tail = found.done[number].output.tail.decode("utf-8", "replace")
    where = f"run {number + 1} on {plain(gathering.places[number][rank])}"
    return Verification(
        verdict=judge([found.ran[number]], gathering.asked, gathering.ignore),
        runs=(found.ran[number],),
        at_once=1,
        last_words=f"{where}{f', rank {rank}' if gathering.world > 1 else ''}:\n{tail}",
        world=gathering.world,
    )


def _torn(gathering: _Gathering, number: int) -> JobError:
    """Describe a run that cannot be compared: files that were not read are no difference, and no equality either."""
    places = {rank: each.ran[number].record.rank for rank, each in gathering.ranks.items()}
    early = [rank for rank, place in places.items() if place is not None and not place.waited]
    return JobError(
        f"run {number + 1}: rank {numbers_text(early)} could not learn when the other ranks had ended: files that they "
        "still wrote may not have been read",
        "try again; the ranks share the project's folder, or reach rank 0: ENVBUILD_RANKS_ADDRESS",
    )


def _missing(gathering: _Gathering, ended: follow_job.Ended, job: str) -> JobError:
    """Describe the runs that left no result."""
    numbers = [number for number in range(gathering.asked) if number not in gathering.whole]
    lines = [_lost(gathering, number, ended, job) for number in numbers[:_SHOWN]]
    more = [f"  and {len(numbers) - _SHOWN} more"] if len(numbers) > _SHOWN else []
    head = f"{len(numbers)} of {plural(gathering.asked, 'run')} left no result; the others are equal"
    if not gathering.whole:
        head = f"none of {plural(gathering.asked, 'run')} left a result"
    return JobError("\n".join([head, *lines, *more]), "try again, with more time: --time; or on other nodes")


def _lost(gathering: _Gathering, number: int, ended: follow_job.Ended, job: str) -> str:
    """Describe one run that left no result: how Slurm ended it, the ranks that are missing, and its last lines."""
    how = ended.tasks.get(number, "ended")
    there = gathering.places.get(number, {})
    absent = [rank for rank in range(gathering.world) if rank not in there]
    ranks = f", no result of rank {', '.join(map(str, absent[:_SHOWN]))}" if gathering.world > 1 and there else ""
    name = submit.output_of(gathering.plan.request.project, array=True)
    tail = _tail(Path(name.replace("%A", job).replace("%a", str(number)))).decode("utf-8", "replace") if name else ""
    lines = "".join(f"\n    {plain(line)}" for line in tail.strip().splitlines()[-_LAST_LINES:])
    return f"  run {number + 1}: {how}{ranks}{lines}"


def _verdict(gathering: _Gathering, groups: Sequence[Sequence[int]]) -> tuple[Verdict, int]:
    """Return the verdict on all ranks as one, and the rank that it describes: the first one that differs."""
    whole, rank = gathering.whole, 0
    pair = [whole[groups[0][0]], whole[groups[1][0]]] if len(groups) > 1 else whole
    each = {number: _of(session, pair) for number, session in gathering.ranks.items()}
    rank = next((number for number, verdict in each.items() if len(verdict.groups) > 1), 0)
    every = _of(gathering.ranks[rank], whole)
    channels = each[rank].channels if len(groups) > 1 else every.channels
    if gathering.world > 1 and len(groups) > 1:
        alike = [number for number, verdict in each.items() if len(verdict.groups) > 1]
        name = f"rank {rank}" if len(alike) == 1 else f"ranks {', '.join(map(str, alike[:_SHOWN]))}"
        channels = tuple(
            msgspec.structs.replace(channel, differs=tuple(f"{name}: {phrase}" for phrase in channel.differs))
            for channel in channels
        )
    return msgspec.structs.replace(
        every,
        outcome="different" if len(groups) > 1 else every.outcome,
        groups=tuple(map(tuple, groups)),
        channels=channels,
        training_equal=len(groups) > 1 and all(v.training_equal or len(v.groups) == 1 for v in each.values()),
    ), rank


def _of(session: Session, numbers: Sequence[int]) -> Verdict:
    """Return the verdict on these runs of a rank."""
    runs = [session.ran[number] for number in numbers]
    return judge(runs, session.asked, session.ignore, session.given_to(runs))


def _undecided(gathering: _Gathering, options: VerifyOptions) -> Iterator[str]:
    """Quote what was left out for its name or form alone, rank by rank: a cluster's nodes make no experiments."""
    for rank, session in gathering.ranks.items():
        name = f"rank {rank}: " if gathering.world > 1 else ""
        yield from (f"{name}{each}" for each in quoted_without_runs(session, session.judge(), options))


def _prove(gathering: _Gathering, found: Verification, options: VerifyOptions) -> Verification:
    """Attest what was proved of runs of one rank; of several ranks no attestation has the facts."""
    from envbuild.operations.verification.attestation import attest

    session, path = gathering.ranks[0], None
    request = gathering.plan.request
    found = replace(found, verdict=msgspec.structs.replace(found.verdict, undecided=(*_undecided(gathering, options),)))
    if gathering.world == 1 and found.verdict.compared and request.controls and options.attest:
        path = attest(request, session.runs, found.verdict, options.sign, variations(gathering.plan))
    for each in gathering.ranks.values():
        forget_values(request.project, [run.record for run in each.runs], 1 << 20)
    signed = path is not None and options.sign is not None
    return replace(found, attestation=path, signed=signed, doubts=doubts_of(session.runs[0], request.project))


def _refute(gathering: _Gathering, found: Verification, rank: int) -> Verification:
    """Find in which rank and at which step runs diverge, and why that may be."""
    from envbuild.difference.jobs import merged
    from envbuild.operations.verification import divergence
    from envbuild.operations.verification.attestation import withdraw
    from envbuild.verification.causes.ranking import rank_causes

    verdict, whole = found.verdict, gathering.whole
    pair = [whole[index] for index in verdict.pair]
    notes: list[str] = []
    causes: dict[int, tuple[Finding, ...]] = {}
    printed = []
    for number, session in gathering.ranks.items():
        alone = _only(session, pair)
        own = alone.judge()
        if len(own.groups) < 2:
            causes[number] = ()
            continue
        evidence, more = divergence.look_closer(alone, own, in_place=False)
        notes += more
        causes[number] = rank_causes(evidence)
        printed += [text for text in evidence.texts if text.path in ("stdout", "stderr")] if number == rank else []
    every = _with_nodes(found.nodes, list(merged(causes) if gathering.world > 1 else causes[0]))
    session = gathering.ranks[rank]
    withdrawn = withdraw(gathering.plan.request, session.ran[pair[0]].record)
    first = _first(gathering, pair)
    kept = divergence.keep_outputs(_only(session, pair), _only(session, pair).judge())
    return replace(
        found,
        divergence=first,
        causes=tuple(sorted(every, key=lambda cause: -cause.weight)),
        notes=tuple(dict.fromkeys(notes)),
        printed=tuple(printed),
        kept=tuple(kept),
        withdrawn=tuple(withdrawn),
    )


def _with_nodes(table: NodeTable | None, causes: list[Finding]) -> list[Finding]:
    """Put what all runs show about their nodes in the place of what two of them have otherwise."""
    if table is None or table.conclusion not in ("depends", "perhaps", "within"):
        return causes
    others = [each for each in causes if each.area not in ("host", "gpu")]
    return [*others, *([table.cause] if table.cause is not None else ())]


def _only(session: Session, numbers: Sequence[int]) -> Session:
    """Return a verification of these runs alone."""
    return replace(
        session,
        done={number: session.done[number] for number in numbers},
        ran={number: session.ran[number] for number in numbers},
    )


def _first(gathering: _Gathering, pair: Sequence[int]) -> Divergence | None:
    """Return where the step traces of two runs first differ; of several ranks with the rank."""
    from envbuild.operations.traces import first_divergence, first_divergence_of_ranks

    project = gathering.plan.request.project
    sides = {
        rank: ((project, session.ran[pair[0]].record), (project, session.ran[pair[1]].record))
        for rank, session in gathering.ranks.items()
    }
    if gathering.world > 1:
        return first_divergence_of_ranks(sides)
    found, _ = first_divergence(*sides[0], asked=True)
    return found


def _tail(path: Path) -> bytes:
    """Return the end of what a program printed."""
    try:
        return read_regular(path, 64 << 20, follow=False, cut=True)[-TAIL:]
    except OSError:
        return b""
