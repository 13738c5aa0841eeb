"""``verify``: the same program several times, compared; what is proved is kept beside the lock."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envbuild.cli.console import Console, print_error
from envbuild.cli.programs import misplaced
from envbuild.cli.running import TRACE_VALUES, RunOptions, host_said_first, prepared
from envbuild.core.text import plural
from envbuild.errors import HostMismatchError, NotReproducibleError, UsageError
from envbuild.operations.verify_session import Session, ran_of

if TYPE_CHECKING:
    from envbuild.engine.protocol import ContainerRunner
    from envbuild.runs.repeat import Repeat, Repeated
    from envbuild.runs.request import RunEngine, RunRequest
    from envbuild.verification.causes import Cause
    from envbuild.verification.first import First
    from envbuild.verification.judge import Verdict

_TRACE_KEPT = 1 << 20
"""Bytes of a trace above which those of equal runs are not kept twice."""
_MOST = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class VerifyOptions:
    """Options of ``envbuild verify`` as typed.

    Attributes:
        run: those it shares with ``envbuild run``.
        count: how many runs.
        jobs: how many at once; None for as many as fit.
        in_place: in the project itself instead of copies.
        ignore: patterns of outputs that are not compared.
        values: bytes of parameter values that the first two traces keep.
        sign: an SSH key to sign the attestation with.
        diagnose: where runs differ, run again to find out more.
        cost: measure switches instead.
        check: look at the attestation instead; ``signers`` is a file of keys to trust.
    """

    run: RunOptions
    count: int = 3
    jobs: int | None = None
    in_place: bool = False
    ignore: tuple[str, ...] = ()
    values: int = TRACE_VALUES
    sign: Path | None = None
    diagnose: bool = True
    cost: bool = False
    check: bool = False
    signers: Path | None = None


def verify_or_check(options: VerifyOptions, console: Console) -> int:
    """Do what was asked for: verify, look at what was verified, or measure what it costs."""
    if options.check:
        from envbuild.cli.attesting import check_attestation
        from envbuild.cli.json_output import json_error_output
        from envbuild.operations.load_lock import load_lock

        if options.cost or options.sign:
            raise UsageError("--check looks at an attestation and runs nothing", "leave out --cost and --sign")
        with json_error_output(console):
            opened = load_lock(options.run.lock, option=True)
            return check_attestation(opened, options.run.command, options.signers, console)
    if options.signers is not None:
        raise UsageError("--signers goes with --check", "sign with: --sign KEY")
    return verify_program(options, console)


def verify_program(options: VerifyOptions, console: Console) -> int:
    """Run several times and compare; returns 0, 16, 78 if the guard refused, or the program's code if it always failed.

    Raises:
        UsageError: the options do not fit together, or the project is too large to copy.
    """
    from envbuild.runs.repeat import clear

    _check(options)
    request, engine = prepared(options.run, Console(quiet=console.quiet, verbose=console.verbose, beside=True))
    session = Session(plan=_plan(request, options, engine), asked=options.count, ignore=options.ignore)
    try:
        with host_said_first(request.lock, options.run, engine):
            if options.cost:
                from envbuild.cli.costing import measure

                return measure(session.plan, engine, options.count, options.ignore, console)
            _run_all(session, engine, console)
        if session.runs and (said := misplaced(options.run.command, session.runs[0].record, "verify")):
            console.note(said)
        verdict = session.judge()
        if verdict.outcome == "identical":
            return _proved(session, verdict, options, console)
        if verdict.outcome == "different":
            return _parted(session, verdict, options, engine, console)
        return _failed(session, verdict, console)
    finally:
        clear(session.plan.folder)


def _check(options: VerifyOptions) -> None:
    """Refuse options that cannot be meant, before anything is done."""
    if not 2 <= options.count <= _MOST:
        raise UsageError(f"-n {options.count}: expected 2 to {_MOST} runs", "three are the default; five say more")
    if options.jobs is not None and options.jobs < 1:
        raise UsageError(f"--jobs {options.jobs}: expected at least one run at once")
    if options.in_place and (options.jobs or 1) > 1:
        raise UsageError("--in-place runs one after another", "leave out --jobs, or --in-place")
    if options.cost and (options.sign or (options.jobs or 1) > 1):
        raise UsageError("--cost runs one after another and proves nothing", "leave out --sign and --jobs")
    if options.sign is not None and not options.sign.is_file():
        raise UsageError(f"no key {options.sign} here", "name an SSH key: --sign ~/.ssh/id_ed25519")


def _plan(request: RunRequest, options: VerifyOptions, engine: ContainerRunner) -> Repeat:
    """Decide where and how many at once; refuses projects that are too large to copy."""
    from envbuild.record import history
    from envbuild.runs.project_copy import check_size, plan_copy
    from envbuild.runs.repeat import Repeat, scratch_folder, slots_for, visible_cpus

    identity = history.new_id()
    jobs = 1 if options.in_place else options.jobs
    slots = slots_for(request.lock, options.count, jobs, visible_cpus(engine))
    folder, copy = scratch_folder(request.project, identity), None
    if not options.in_place and request.lock.run.workspace != "ro":
        inputs = tuple(entry.path.strip("/") for entry in request.lock.inputs)
        copy = plan_copy(request.project, inputs)
        folder.mkdir(parents=True)
        check_size(copy, len(slots) + 1, folder)  # one more: that of the first result is kept
    request = replace(request, verification=identity)
    return Repeat(request=request, slots=slots, copy=copy, folder=folder, values=options.values)


def _run_all(session: Session, engine: RunEngine, console: Console) -> None:
    """Run as often as asked, or until one fails; copies with results seen before are removed at once."""
    from envbuild.runs.repeat import repeat

    slots = len(session.plan.slots)
    with console.phase("run", total=session.asked, unit="runs") as advance:

        def each(found: Repeated) -> None:
            session.done[found.number], session.ran[found.number] = found, ran_of(found, session.plan.request.project)
            advance(1)
            console.detail(f"run {found.number + 1} of {session.asked}: {found.record.id[:10]}, {_ended(found)}")
            session.forget()

        repeat(session.plan, session.asked, engine, each)
    counted = f"1/{session.asked} … {len(session.done)}/{session.asked}"
    console.line("run", counted, f"{slots} side by side" if slots > 1 else "", elapsed=True)


def _ended(found: Repeated) -> str:
    record = found.record
    return f"exit {record.exit_code}" if record.state == "finished" else record.state


def _proved(session: Session, verdict: Verdict, options: VerifyOptions, console: Console) -> int:
    """Keep what was proved beside the lock, and say so."""
    from envbuild.cli.attesting import attest
    from envbuild.runs.repeat import forget_values
    from envbuild.verification import text

    if not verdict.compared:
        raise UsageError(
            "the program left no files, printed nothing, and made no step that is traced: there is nothing to compare",
            "have it write its results into the project"
            + (", or compare more: leave out --ignore" if options.ignore else ""),
        )
    request, path = session.plan.request, None
    if request.controls:
        path = attest(request, session.runs, verdict, options.sign)
    forget_values(request.project, [run.record for run in session.runs], _TRACE_KEPT)
    first, *others = text.identical(verdict)
    console.line("result", first)
    for line in (*others, *_doubts(session)):
        console.line("", line)
    if path is not None:
        console.line("wrote", path.name, f"signed: {path.name}.sig" if options.sign else "")
    console.result(_table(session, verdict) | {"attestation": path.name if path is not None else None})
    return 0


def _doubts(session: Session) -> list[str]:
    """Say what the proof does not cover."""
    run = session.runs[0]
    found = []
    frameworks = sorted({name for each in run.record.processes for name in each.get("frameworks", {})} & _TRAINING)
    if frameworks and not run.steps:
        found.append(
            f"{', '.join(frameworks)} loaded, and no step of an optimiser seen: only what the program left was compared"
        )
    if not run.record.options.controls:
        found.append("the controls were off, which proves nothing about this lock: no attestation was written")
    if run.record.verified != "yes":
        found.append("the host was not verified against the lock")
    return found


_TRAINING = frozenset(("keras", "tensorflow", "torch"))


def _parted(session: Session, verdict: Verdict, options: VerifyOptions, engine: RunEngine, console: Console) -> int:
    """Say where runs part and why that may be; an attestation that says otherwise is taken away."""
    from envbuild.cli.attesting import withdraw
    from envbuild.cli.diagnosing import with_diagnosis, with_values
    from envbuild.cli.parting import keep_outputs, look_closer
    from envbuild.verification import text
    from envbuild.verification.causes import suspects

    clues, notes = look_closer(session, verdict, options.in_place)
    withdrawn = withdraw(session.plan.request, session.runs[0].record)
    kept = keep_outputs(session, verdict)
    ended_well = all(session.runs[index].ended_well for index in verdict.pair)
    if options.diagnose and ended_well and not options.in_place and session.plan.request.controls:
        beside = Console(quiet=console.quiet, verbose=console.verbose, as_json=console.as_json)
        clues, more = with_values(session, clues, options.values, engine, beside)
        clues, others = with_diagnosis(session, clues, engine, beside)
        notes = [*notes, *more, *others]
    first, causes = clues.first, suspects(clues)
    ids = [run.record.id for run in session.runs]
    if console.as_json:
        console.result(_table(session, verdict, first, causes) | {"kept": kept, "withdrawn": withdrawn})
    else:
        notes = [*notes, *(f"{name} was taken away: it is not true any more" for name in withdrawn)]
        print(text.different(verdict, ids, first, causes, notes=notes, kept=kept), flush=True)
    return NotReproducibleError.exit_code


def _failed(session: Session, verdict: Verdict, console: Console) -> int:
    """Say that the program did not run to a good end, with the end of what it said."""
    run = session.runs[0]
    index = session.runs.index(run)
    tail = session.repeated(index).output.tail.decode("utf-8", "replace")
    console.result(_table(session, verdict))
    if verdict.outcome == "refused":
        print_error("the guard refused to start the program; nothing was compared\n" + tail.rstrip("\n"), "")
        return HostMismatchError.exit_code
    code = run.record.exit_code
    ended = "ended for want of memory" if run.record.out_of_memory else f"failed with exit {code}"
    number = "" if len(session.runs) == 1 else f" in all {plural(len(session.runs), 'run')} that were started"
    shown = "\n".join(f"  {line}" for line in tail.rstrip("\n").splitlines()[-12:])
    print_error(
        f"the program {ended}{number}; there is nothing to compare\n{shown}".rstrip("\n"),
        f"{_missing_module(tail)}mend it first: envbuild run {shlex.join(session.plan.request.arguments)}",
    )
    return code if code else NotReproducibleError.exit_code


def _missing_module(tail: str) -> str:
    """Say what to do about a package that a failed program looked for in vain; empty if that is not why it failed."""
    found = re.search(r"^ModuleNotFoundError: No module named '([\w.]+)'\s*\Z", tail, re.MULTILINE)
    return f"if {found[1]} is a package, add it to requirements in the spec and lock again; else " if found else ""


def _table(
    session: Session, verdict: Verdict, first: First | None = None, causes: Sequence[Cause] = ()
) -> dict[str, Any]:
    """Return all of it as JSON values."""
    import msgspec

    ids = [run.record.id for run in session.runs]
    return {
        **msgspec.to_builtins(verdict),
        "identical": verdict.outcome == "identical",
        "ids": ids,
        "groups": [[ids[index] for index in group] for group in verdict.groups],
        "side_by_side": len(session.plan.slots),
        "first": msgspec.to_builtins(first),
        "causes": msgspec.to_builtins(list(causes)),
    }
