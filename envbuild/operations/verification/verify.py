"""``verify``: one program several times; what is proved is attested next to the lock, what differs is explained."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from envbuild.core import leftovers
from envbuild.core.identity import new_id
from envbuild.core.text import plural
from envbuild.difference.text import shown
from envbuild.errors import UsageError
from envbuild.operations.events import Events, RunEnded, RunsEnded
from envbuild.operations.verification import clock, thread_lines
from envbuild.operations.verification.cost import CostResult, measure_cost
from envbuild.operations.verification.session import Session, ran_of, stream_digest
from envbuild.record import history
from envbuild.runs.repeat import ALL, APART, Repeat, Repeated, clear, repeat, variations, varied
from envbuild.runs.time_limit import TimeLimit
from envbuild.runs.tracing import TRACE_VALUES
from envbuild.verification.masking.lines import excerpts
from envbuild.verification.ran import Ran
from envbuild.verification.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envbuild.difference.finding import Finding
    from envbuild.engine.protocol import ContainerRunner
    from envbuild.operations.verification.cpus import Cpu
    from envbuild.operations.verification.dates import OtherDay
    from envbuild.operations.verification.done_before import DoneBefore
    from envbuild.operations.verification.doubtful import Decided, InDoubt, Refuted
    from envbuild.runs.request import RunEngine, RunRequest
    from envbuild.trace.divergence import Divergence
    from envbuild.verification.dataflow.measuring import Measuring
    from envbuild.verification.masking.lines import TextDifference
    from envbuild.verification.nodes import NodeTable

_VALUED = 2
"""Runs of which traces keep values: a difference is shown between two."""
_TRACE_KEPT = 1 << 20
"""Bytes of a trace above which those of equal runs are not kept twice."""
_MOST = 1000
_TRAINING = frozenset(("keras", "tensorflow", "torch"))
"""Frameworks whose optimisers leave a step trace."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VerifyOptions:
    """How to verify.

    Attributes:
        count: how many runs.
        jobs: how many at once; None for as many as fit.
        in_place: in the project itself instead of copies.
        ignore: patterns of what is not compared: paths, ``metric:NAME``, ``stdout``, ``stdout:LINE``, ``stderr``.
        values: bytes of parameter values that traces keep; those of the first two runs stay.
        sign: an SSH key to sign the attestation with.
        diagnose: where runs differ, run again to find out more.
        cost: measure switches instead.
        attest: write an attestation where something is proved.
        cpus: other CPUs, emulated: once runs are equal, one more on each.
        strict: vary between runs all that no result may depend on, also what costs time.
    """

    count: int = 3
    jobs: int | None = None
    in_place: bool = False
    ignore: tuple[str, ...] = ()
    values: int = TRACE_VALUES
    sign: Path | None = None
    diagnose: bool = True
    cost: bool = False
    strict: bool = False
    attest: bool = True
    cpus: tuple[Cpu, ...] = ()

    def check(self) -> None:
        """Raise ``UsageError`` if options are out of range or exclude each other; nothing need be ready for that."""
        if not 2 <= self.count <= _MOST:
            raise UsageError(
                f"-n {self.count}: expected 2 to {_MOST} runs", "three are the default; five are stronger evidence"
            )
        if self.jobs is not None and self.jobs < 1:
            raise UsageError(f"--jobs {self.jobs}: expected at least one run at once")
        if self.in_place and (self.jobs or 1) > 1:
            raise UsageError("--in-place runs one after another", "leave out --jobs, or --in-place")
        if self.cpus and (self.cost or self.in_place):
            raise UsageError("--cpu-models compares runs in copies of the project", "leave out --cost and --in-place")
        if self.cost and (self.sign or (self.jobs or 1) > 1):
            raise UsageError("--cost runs one after another and proves nothing", "leave out --sign and --jobs")
        if self.sign is not None and not self.sign.is_file():
            raise UsageError(f"no key {self.sign} here", "name an SSH key: --sign ~/.ssh/id_ed25519")


@dataclass(frozen=True, kw_only=True, slots=True)
class Doubts:
    """What a proof does not cover.

    Attributes:
        untraced: frameworks that were loaded although no step of an optimiser was seen.
        controls_off: seeds and determinism were off, so that nothing was proved about the lock.
        host_unverified: the guard did not find the host to be as locked.
        done: results of an earlier run that the program found, so that it did not make them.
    """

    untraced: tuple[str, ...]
    controls_off: bool
    host_unverified: bool
    done: DoneBefore | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Verification:
    """What a verification found, and what it left.

    Attributes:
        verdict: whether the runs are equal, what was compared, what differs.
        runs: those that ended, in the order of their start.
        at_once: how many continued at the same time.
        attestation: the file that was written; None if nothing was proved, or without controls.
        signed: it was signed too.
        doubts: what the proof does not cover; None if there is none.
        divergence: where the parameters of two runs first differ; None if they do not, or there is no trace.
        causes: what may have made the runs differ, most likely first.
        notes: what could not be looked at, a sentence each.
        printed: the first line at which standard output and standard error differ.
        kept: folders with what two runs that differ left, relative to the project.
        withdrawn: names of the files of an attestation that was refuted and removed.
        last_words: the end of the first run's standard error.
        in_the_way: files of an earlier run that the program, which failed, does not replace.
        varied: what was another one in each run, since no result may depend on it.
        world: how many ranks each run had; ``runs`` are those of the rank that the verdict describes.
        nodes: results by node; None for runs on this machine.
    """

    verdict: Verdict
    runs: tuple[Ran, ...]
    at_once: int
    attestation: Path | None = None
    signed: bool = False
    doubts: Doubts | None = None
    divergence: Divergence | None = None
    causes: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    printed: tuple[TextDifference, ...] = ()
    kept: tuple[str, ...] = ()
    withdrawn: tuple[str, ...] = ()
    last_words: str = ""
    in_the_way: DoneBefore | None = None
    varied: tuple[str, ...] = ()
    world: int = 1
    nodes: NodeTable | None = None


def verify(request: RunRequest, engine: RunEngine, options: VerifyOptions, events: Events) -> Verification:
    """Run a program several times and compare.

    Where all runs are equal, an attestation is written next to the lock; where they differ, an existing one is
    removed, and the program is run again to find out more if ``options`` require it.

    Args:
        request: what to run, as ``envbuild run`` would.
        engine: runs the containers.
        options: how often, where, and what is compared.
        events: receives ``RunEnded``, ``RunsEnded`` and ``MoreRuns``.

    Raises:
        UsageError: the options do not fit together, or the project is too large to copy.
        EngineError: the engine could not run the container.
    """
    options.check()
    session = Session(plan=plan_runs(request, options, engine), asked=options.count, ignore=options.ignore)
    try:
        found = _verify(session, request, engine, options, events)
        _note_verdict(session, found.verdict)
        return found
    finally:
        clear(session.plan.folder)


def _note_verdict(session: Session, verdict: Verdict) -> None:
    """Put the verdict into the records of its runs: a list of runs names what is identical for all that is known."""
    if verdict.outcome not in ("identical", "different") or not verdict.compared:
        return
    for run in session.runs:
        record = msgspec.structs.replace(run.record, judged=verdict.outcome)
        with suppress(OSError):  # the verdict is worth more than a note of it
            history.save(session.plan.request.project, record)


def _verify(
    session: Session, request: RunRequest, engine: RunEngine, options: VerifyOptions, events: Events
) -> Verification:
    _run_all(session, engine, events)
    session.note_contents()
    verdict = session.judge()
    note = ""
    may = verdict.outcome == "different" and _may_run_again(session, verdict, options)
    if may and thread_lines.settle(session, verdict, engine, events):
        verdict = session.judge()
    if verdict.outcome == "different" and _may_run_again(session, verdict, options):
        settled, note = clock.settle(session, verdict, engine, events)
        verdict = settled or verdict
    nodes: NodeTable | None = None
    if verdict.outcome == "identical" and verdict.compared and options.cpus:
        from envbuild.operations.verification.cpus import compare_cpus

        asked = None if request.limit is None else request.limit()
        verdict, nodes = compare_cpus(session, options.cpus, engine, events, asked=asked, again=options.diagnose)
        if verdict.outcome != "identical":
            return _depends_on_cpu(session, verdict, nodes, options)
    if verdict.outcome == "identical":
        from envbuild.operations.verification.divergence import measuring_of
        from envbuild.operations.verification.doubtful import Decided, decide, find_doubts

        able = measuring_of(request.project, session.runs[0].record, verdict)
        doubts = find_doubts(session, verdict, strict=options.strict, measuring=able)
        decided = Decided()
        if doubts is not None and _diagnosed(session, options):
            decided = decide(doubts, session, engine, events)
            if decided.refuted is not None:
                return _no_measurements(session, verdict, decided.refuted)
        found = _undecided(session, verdict, options, doubts, decided)
        more = engine if _diagnosed(session, options) else None
        undecided = (*found, *_names_in_doubt(session, verdict, options, able, more, events))
        undecided = (*undecided, *_never_varied(session))
        verdict = msgspec.structs.replace(verdict, undecided=undecided)
        same_on_another = False
        # What experiments have settled follows clocks of other days exactly.
        if _diagnosed(session, options) and verdict.compared and not verdict.experiments:
            from envbuild.operations.verification.dates import on_another_day
            from envbuild.operations.verification.divergence import sources_of

            sources = sources_of(request.project, session.runs[0].record)
            dated = on_another_day(session, sources, engine, events)
            if dated.other is not None:
                return _depends_on_date(session, verdict, dated.other)
            verdict = msgspec.structs.replace(verdict, undecided=(*undecided, *dated.quoted))
            same_on_another = dated.same
        return replace(_prove(session, verdict, options, dated=same_on_another), nodes=nodes)
    if verdict.outcome == "different":
        return _refute(session, verdict, options, engine, events, note)
    from envbuild.operations.verification.done_before import in_the_way

    tail = session.repeated(0).output.tail.decode("utf-8", "replace")
    there = None if options.in_place else in_the_way(request.project, session.runs[0].record, tail)
    return replace(_result(session, verdict), last_words=tail, in_the_way=there)


def measure(request: RunRequest, engine: RunEngine, options: VerifyOptions, events: Events) -> CostResult:
    """Measure what each switch costs this program; see ``measure_cost``.

    Raises:
        UsageError: the options do not fit together, or the project is too large to copy.
        EngineError: the engine could not run the container.
    """
    options.check()
    plan = plan_runs(request, options, engine)
    try:
        return measure_cost(plan, engine, options.count, options.ignore, events)
    finally:
        clear(plan.folder)


def plan_runs(request: RunRequest, options: VerifyOptions, engine: ContainerRunner) -> Repeat:
    """Decide where and how many at once; refuses projects that are too large to copy.

    Folders mounted to be written are there only once, so that runs that share one go in turn.
    """
    from envbuild.runs.project_copy import check_size, plan_copy
    from envbuild.runs.repeat import make_scratch_folder, scratch_folder, slots_for, visible_cpus

    identity = new_id()
    shared = any(not mount.read_only for mount in request.mounts)
    jobs = 1 if options.in_place or shared else options.jobs
    slots = slots_for(request.lock, options.count, jobs, cpus := visible_cpus(engine))
    if options.strict and slots == ("",) and len(cpus) > request.lock.determinism.threads:
        slots = (",".join(map(str, cpus[: request.lock.determinism.threads])),)  # so that every other run sees more
    folder, copy = scratch_folder(request.project, identity), None
    if not options.in_place and request.lock.run.workspace != "ro":
        inputs = tuple(entry.path.strip("/") for entry in request.lock.inputs)
        copy = plan_copy(request.project, inputs)
        leftovers.note(folder)
        make_scratch_folder(folder)
        check_size(copy, len(slots) + 1, folder)  # one more: that of the first result is kept
    request = msgspec.structs.replace(request, verification=identity)
    return Repeat(
        request=request,
        slots=slots,
        copy=copy,
        folder=folder,
        digest=partial(stream_digest, options.ignore),
        values=options.values,
        vary=frozenset() if options.cost else varied(copy, strict=options.strict),
        limit=request.limit or TimeLimit(),
        apart=0.0 if options.cost else APART,
    )


def _run_all(session: Session, engine: RunEngine, events: Events) -> None:
    """Run as often as asked, or until one fails; copies with results seen before are removed at once."""
    from envbuild.record.history import process_folder
    from envbuild.trace.file import drop_values_of

    with events.phase("run", total=session.asked, unit="runs") as advance:

        def each(found: Repeated) -> None:
            session.done[found.number], session.ran[found.number] = found, ran_of(found, session.plan.request.project)
            session.open_files()
            session.note_mentioned(found)
            advance(1)
            record = found.record
            if found.number >= _VALUED:
                drop_values_of(process_folder(session.plan.request.project, record.id))
            events.report(
                RunEnded(
                    number=found.number + 1,
                    of=session.asked,
                    id=record.id,
                    state=record.state,
                    exit_code=record.exit_code,
                )
            )
            session.forget()

        repeat(session.plan, session.asked, engine, each)
    events.report(RunsEnded(asked=session.asked, made=len(session.done), at_once=len(session.plan.slots)))


def _result(session: Session, verdict: Verdict) -> Verification:
    return Verification(
        verdict=verdict,
        runs=tuple(session.runs),
        at_once=len(session.plan.slots),
        varied=variations(session.plan) if len(session.runs) > 1 else (),
    )


def _varied(session: Session, options: VerifyOptions) -> tuple[str, ...]:
    """Return what was another one in runs of a proof, a phrase each."""
    names = ", ".join(cpu.model for cpu in options.cpus)
    return (*variations(session.plan), *((f"CPU ({names}: emulated)",) if names else ()))


def _depends_on_cpu(session: Session, verdict: Verdict, nodes: NodeTable, options: VerifyOptions) -> Verification:
    """Report runs that are equal on this machine's CPU and not on another one; an attestation of this machine stays."""
    from envbuild.operations.verification import divergence

    evidence, notes = divergence.look_closer(session, verdict, options.in_place)
    kept = divergence.keep_outputs(session, verdict)
    return replace(
        _result(session, verdict),
        divergence=evidence.divergence,
        causes=(nodes.cause,) if nodes.cause is not None else (),
        notes=tuple(notes),
        printed=tuple(text for text in evidence.texts if text.path in ("stdout", "stderr")),
        kept=tuple(kept),
        nodes=nodes,
    )


def _depends_on_date(session: Session, verdict: Verdict, other: OtherDay) -> Verification:
    """Report runs that are equal today, and not on another day; an existing attestation is removed."""
    from envbuild.operations.verification import divergence
    from envbuild.operations.verification.attestation import withdraw
    from envbuild.verification.causes.ranking import rank_causes
    from envbuild.verification.causes.source_causes import known_places

    withdrawn = withdraw(session.plan.request, session.runs[0].record)
    first = msgspec.structs.replace(verdict, groups=((0,), (0,)))  # no two of these differ
    known = divergence.known_of(session, first, in_place=False)
    evidence = replace(known, proven=("clock",))  # which of the lines it is no experiment has shown
    evidence = replace(evidence, cleared=tuple({*known_places(evidence)} - {*other.places}))
    result = _result(session, other.verdict)
    return replace(
        result,
        runs=(*result.runs, other.run),
        causes=rank_causes(evidence),
        notes=(other.note,),
        printed=other.printed,
        withdrawn=tuple(withdrawn),
    )


def quoted_without_runs(session: Session, verdict: Verdict, options: VerifyOptions) -> tuple[str, ...]:
    """Quote what was left out of equal runs for its name or form alone; no experiments are made.

    Args:
        session: equal runs.
        verdict: on these.
        options: what is compared.
    """
    from envbuild.operations.events import Silent
    from envbuild.operations.verification.divergence import measuring_of
    from envbuild.operations.verification.doubtful import Decided, find_doubts

    able = measuring_of(session.plan.request.project, session.runs[0].record, verdict)
    doubts = find_doubts(session, verdict, strict=options.strict, measuring=able)
    found = _undecided(session, verdict, options, doubts, Decided())
    return (
        *found, *_names_in_doubt(session, verdict, options, able, None, Silent()), *_never_varied(session)
    )  # fmt: skip


def _names_in_doubt(
    session: Session,
    verdict: Verdict,
    options: VerifyOptions,
    able: Measuring,
    engine: RunEngine | None,
    events: Events,
) -> Iterator[str]:
    """Quote names that differ and that no run was shown to draw, and where other files are mentioned.

    ``engine``: None if no further run may be made.
    """
    from envbuild.operations.verification.undrawn_names import (
        made_addresses,
        others_repeated,
        undrawn_names,
        undrawn_uuids,
    )
    from envbuild.verification.files import zones_of
    from envbuild.verification.references import dated_files_named, other_files_named, other_names_repeated

    zones = dict.fromkeys(zones_of(run.record) for run in session.runs)
    if len(zones) > 1:  # what is a moment of the run follows from them
        yield f"time zones that the program sets: {' → '.join(', '.join(each) or 'none' for each in [*zones][:2])}"
    glued = any(each.glued for run in session.runs for each in run.contents.values())
    if glued or (verdict.renamed and engine is not None):
        yield from undrawn_names(session, engine, events)
    yield from undrawn_uuids(session, engine, events, able=able)
    yield from made_addresses(session, able)
    yield from others_repeated(session)
    drawn = other_files_named(session.runs, options.ignore) if verdict.renamed else ()
    dated = dated_files_named(session.runs, options.ignore, session.mentioned) if verdict.renamed else ()
    yield from dict.fromkeys((*(drawn or other_names_repeated(session.runs, options.ignore)), *dated))


def _never_varied(session: Session) -> Iterator[str]:
    """Quote what sources show that a result may depend on and that was the same in all runs."""
    from envbuild.operations.verification.divergence import sources_of
    from envbuild.operations.verification.other_programs import never_varied
    from envbuild.verification.causes.this_machine import limits_by_signals, seeds_of_this_machine

    sources = sources_of(session.plan.request.project, session.runs[0].record)
    yield from never_varied(session, sources)
    for what, where in dict.fromkeys(seeds_of_this_machine(sources)):
        yield f"{what} becomes a seed ({where}) and is a fact of this machine, which all runs had in common"
    longest = max(run.record.duration or 0.0 for run in session.runs)
    for what, where in dict.fromkeys(limits_by_signals(sources, longest)):
        yield f"{what} ends what takes longer ({where}): how far that comes is a fact of this machine"


def _undecided(
    session: Session, verdict: Verdict, options: VerifyOptions, doubts: InDoubt | None, decided: Decided
) -> tuple[str, ...]:
    """Quote what was left out though nothing but its name or unit shows that it is a measurement.

    Of lines without exact numbers there are no doubts, and no experiments.
    """
    from envbuild.operations.verification.divergence import beyond, coloured, strange, undecided, written_over
    from envbuild.verification.moments import strange_times
    from envbuild.verification.structure import other_links, other_order

    known = doubts.lines(decided.measured) if doubts is not None else frozenset()
    found: list[str] = []
    first, *others = session.runs
    for other in others:  # the first that differs is enough: some of its lines are quoted
        if texts := undecided(session.plan.request.project, first, other, verdict, options.ignore):
            found = [
                f"{each.path}, line {each.line}: {' → '.join(shown(*excerpts(each.before, each.after)))}"
                for each in texts
                if (each.path, each.line) not in known
            ]
            break
    for text in written_over(session.plan.request.project, session.runs, verdict, options.ignore):
        change = " → ".join(shown(*excerpts(text.before, text.after)))
        found.append(f"{text.path}, line {text.line}, written over: {change}")
    for text in coloured(session.plan.request.project, session.runs, verdict, options.ignore):
        found.append(
            f"{text.path}, line {text.line}, unseen characters: {text.before or 'none'} → {text.after or 'none'}"
        )
    for text in strange(session.plan.request.project, session.runs, verdict, options.ignore):
        found.append(f"{text.path}, line {text.line}: {' → '.join(shown(*excerpts(text.before, text.after)))}")
    found += (*other_order(session.runs), *other_links(session.runs), *strange_times(session.runs, options.ignore))
    quoted = [*found, *(doubts.phrases(decided) if doubts is not None else ())]
    if quoted and decided.without_result:
        made = plural(decided.without_result, "experiment")
        quoted.insert(0, f"{made} had no result, as time was up or the program failed: verify on an idle machine")
    return tuple(dict.fromkeys([*quoted, *beyond(session, verdict)]))


def _prove(session: Session, verdict: Verdict, options: VerifyOptions, *, dated: bool = False) -> Verification:
    """Attest what was proved next to the lock, unless there was nothing to compare or the controls were off.

    ``dated``: a run of another day had the same result.
    """
    from envbuild.operations.verification.attestation import attest
    from envbuild.runs.repeat import forget_values

    request, path = session.plan.request, None
    varied = (*_varied(session, options), *(("date",) if dated else ()))
    if verdict.compared and request.controls and options.attest:
        path = attest(request, session.runs, verdict, options.sign, varied)
    forget_values(request.project, [run.record for run in session.runs], _TRACE_KEPT)
    signed = path is not None and options.sign is not None
    result = replace(_result(session, verdict), varied=varied)
    return replace(result, attestation=path, signed=signed, doubts=doubts_of(session.runs[0], request.project))


def doubts_of(run: Ran, project: Path) -> Doubts | None:
    """Return what the proof does not cover."""
    from envbuild.operations.verification.done_before import done_before

    loaded = {name for each in run.record.processes for name in each.frameworks} & _TRAINING
    found = Doubts(
        untraced=() if run.steps else tuple(sorted(loaded)),
        controls_off=not run.record.options.controls,
        host_unverified=run.record.verified != "yes",
        done=done_before(project, run.record),
    )
    return found if found.untraced or found.controls_off or found.host_unverified or found.done else None


def _may_run_again(session: Session, verdict: Verdict, options: VerifyOptions) -> bool:
    """Whether further runs may show why runs differ."""
    ended_well = all(session.runs[index].ended_well for index in verdict.pair)
    return ended_well and _diagnosed(session, options)


def _diagnosed(session: Session, options: VerifyOptions) -> bool:
    """Whether further runs may be made to find out more."""
    return options.diagnose and not options.in_place and session.plan.request.controls


def _no_measurements(session: Session, verdict: Verdict, refuted: Refuted) -> Verification:
    """Report runs that differ in what was taken for measurements; an existing attestation is removed."""
    from envbuild.operations.verification import divergence
    from envbuild.operations.verification.attestation import withdraw
    from envbuild.verification.causes.ranking import rank_causes
    from envbuild.verification.verdict import refuted as with_refuted

    withdrawn = withdraw(session.plan.request, session.runs[0].record)
    verdict = with_refuted(verdict, refuted.groups, refuted.places)
    evidence = replace(divergence.known_of(session, verdict, in_place=False), proven=refuted.proven)
    return replace(
        _result(session, verdict),
        causes=rank_causes(evidence),
        notes=(refuted.why,),
        printed=tuple(refuted.texts),
        withdrawn=tuple(withdrawn),
    )


def _refute(
    session: Session, verdict: Verdict, options: VerifyOptions, engine: RunEngine, events: Events, note: str
) -> Verification:
    """Find where runs diverge and why that may be; an existing attestation is removed.

    ``note``: which results do not depend on the clock, and how to leave out the others; where something else than the
    clock is proven to be the cause, these are no times, and nobody should.
    """
    from envbuild.operations.verification import divergence
    from envbuild.operations.verification.attestation import withdraw
    from envbuild.operations.verification.experiments import with_experiments
    from envbuild.verification.causes.ranking import rank_causes

    verdict = session.with_places(verdict)
    evidence, notes = divergence.look_closer(session, verdict, options.in_place)
    withdrawn = withdraw(session.plan.request, session.runs[0].record)
    kept = divergence.keep_outputs(session, verdict)
    if _may_run_again(session, verdict, options):
        evidence, tried = with_experiments(session, evidence, engine, events)
        notes = [*notes, *tried]
        proven = frozenset(evidence.proven)
        alike = bool(proven) and proven <= {*ALL, "layout"}  # with nothing varied, runs are equal
        values = 0 if alike else options.values
        evidence, more = divergence.with_values(session, evidence, values, engine, events)
        evidence, others = divergence.with_diagnosis(session, evidence, engine, events)
        notes = [*notes, *more, *others]
    if note and {*evidence.proven} <= {"clock"}:
        notes = [note, *notes]
    return replace(
        _result(session, verdict),
        divergence=evidence.divergence,
        causes=rank_causes(evidence),
        notes=tuple(notes),
        printed=tuple(text for text in evidence.texts if text.path in ("stdout", "stderr")),
        kept=tuple(kept),
        withdrawn=tuple(withdrawn),
    )
