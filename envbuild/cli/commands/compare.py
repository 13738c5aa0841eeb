"""Runs compared: ``verify``, ``diff``, ``report``. What is slow is imported inside the command that needs it."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from envbuild.cli.console import Console, print_error
from envbuild.cli.options import (
    PROGRAM_SETTINGS,
    Account,
    Allow,
    Constraint,
    Controls,
    Environment,
    GpuChoice,
    GpuType,
    Json,
    LockOption,
    Memory,
    Mounts,
    NetworkName,
    Nodes,
    Offline,
    Outputs,
    Partition,
    Platform,
    Program,
    Quiet,
    Tasks,
    TimeLimit,
    Variant,
    Verbose,
    app,
)
from envbuild.errors import HostMismatchError, IntegrityError, LockError, NotReproducibleError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from envbuild.cluster.batch import Job
    from envbuild.difference.bisect import Answer
    from envbuild.image.record import ImageRecord
    from envbuild.operations.diff import DiffResult
    from envbuild.operations.run import RunOptions
    from envbuild.operations.verification.verify import Verification, VerifyOptions

_NEEDED_AT_THE_END = tuple(
    f"envbuild.{name}"
    for name in (
        "runs", "record", "trace", "operations.verification", "verification", "difference", "cli.render",
        "engine.local", "lockfile", "host", "determinism", "core",
    )
)  # fmt: skip
"""Packages with what a verification imports after its runs, in the order in which it does."""


class Scheduler(str, Enum):
    """Whose nodes runs are spread over."""

    SLURM = "slurm"


@app.command(context_settings=PROGRAM_SETTINGS, options_metavar="[OPTIONS]")
def verify(
    command: Program = None,
    count: Annotated[int, typer.Option("-n", metavar="N", help="How many runs.")] = 3,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", metavar="N", help="How many at once; by default as many as fit.")
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Run in the project itself, not in copies of it; one after another.")
    ] = False,
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            "--ignore",
            metavar="PATTERN",
            help="Leave out of the comparison: files such as 'logs/*', metric:NAME, stdout, 'stdout:LINE', stderr.",
        ),
    ] = None,
    diagnose: Annotated[
        bool,
        typer.Option("--diagnose/--no-diagnose", help="Where runs differ, run again to find out why."),
    ] = True,
    cost: Annotated[
        bool, typer.Option("--cost", help="Measure what each switch costs, and find the cheapest set that suffices.")
    ] = False,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Vary between runs all that no result may depend on, also what costs time."),
    ] = False,
    cpu_models: Annotated[
        str | None,
        typer.Option(
            "--cpu-models",
            metavar="MODEL,…",
            help="Run once more on each of these CPUs, emulated: Nehalem, Haswell, EPYC and others that QEMU knows.",
        ),
    ] = None,
    sign: Annotated[
        Path | None, typer.Option("--sign", metavar="KEY", help="Sign the attestation with an SSH key.")
    ] = None,
    self_test: Annotated[
        bool,
        typer.Option("--self-test", help="Plant a difference of one bit in each channel, and see whether it is seen."),
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Ask whether the last attestation still holds.")] = False,
    signers: Annotated[
        Path | None,
        typer.Option(
            "--signers", metavar="FILE", help="With --check: keys to trust, as ssh-keygen -Y verify has them."
        ),
    ] = None,
    scheduler: Annotated[
        Scheduler | None, typer.Option("--on", help="Spread the runs over the nodes of a cluster, as a job array.")
    ] = None,
    nodes: Nodes = 1,
    tasks: Tasks = 1,
    time: TimeLimit = "",
    partition: Partition = "",
    constraint: Constraint = "",
    account: Account = "",
    gpu_type: GpuType = "",
    part: Annotated[
        str, typer.Option("--part", hidden=True, metavar="ID", help="Do one run of those that --on spreads.")
    ] = "",
    lock: LockOption = None,
    variant: Variant = None,
    platform: Platform = None,
    environment: Environment = None,
    mount: Mounts = None,
    network: NetworkName = None,
    memory: Memory = None,
    timeout: Annotated[
        str | None,
        typer.Option("--timeout", metavar="TIME", help="End a run after this time; default: ten times the longest."),
    ] = None,
    output: Outputs = None,
    gpus: GpuChoice = None,
    allow: Allow = None,
    controls: Controls = True,
    offline: Offline = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: Json = False,
) -> int:
    """Run a script several times and prove that the bits are equal, or report where they diverge and why.

    Each run works in a copy of the project. What is proved stays next to the lock as pylock.NAME.verified.json; runs
    that differ are exit 16."""
    from envbuild.operations.load_lock import lock_of_variant

    console = Console(quiet=quiet, verbose=verbose, as_json=as_json)
    if check:
        if cost or sign:
            raise UsageError("--check looks at an attestation and runs nothing", "leave out --cost and --sign")
        return _check_attestation(
            tuple(command or ()), lock_of_variant(lock, variant, platform=platform), signers, strict, console
        )
    if self_test and (command or cost or sign):
        raise UsageError(
            "--self-test has a program of its own and proves nothing about yours", "envbuild verify --self-test"
        )
    if signers is not None:
        raise UsageError("--signers goes with --check", "sign with: --sign KEY")
    from envbuild.cli.commands.program import run_options
    from envbuild.operations.verification.verify import VerifyOptions

    options = VerifyOptions(
        count=count,
        jobs=jobs,
        in_place=in_place,
        ignore=tuple(ignore or ()),
        sign=sign,
        diagnose=diagnose,
        cost=cost,
        strict=strict,
    )
    options.check()
    if self_test:
        command = ["python"]
    shared = run_options(
        "verify", command, lock=lock, variant=variant, platform=platform, environment=environment, mounts=mount,
        network=network, memory=memory, controls=controls, gpus=gpus, allow=allow, offline=offline, outputs=output,
        timeout=timeout,
    )  # fmt: skip
    if self_test:
        return _self_test(shared, console)
    models = _models(cpu_models)
    if models and (self_test or part or scheduler or cost or in_place):
        raise UsageError(
            "--cpu-models compares runs in copies of the project, on this machine", "leave out the other option"
        )
    if part:
        return _part(shared, options, part, console)
    from envbuild.operations import ranks

    ranks.require_no_launcher()
    again = _single_run(
        shared.command, lock=None if lock is None else str(lock), variant=variant, platform=platform,
        env=[_shown_variable(each) for each in environment or ()], mount=mount, network=network, memory=memory,
        timeout=timeout, output=output, gpus=gpus, allow=allow, offline=offline, no_controls=not controls,
    )  # fmt: skip
    if scheduler is None:
        if nodes != 1 or tasks != 1 or time or partition or constraint or account or gpu_type:
            raise UsageError("options of a job go with a scheduler", "envbuild verify --on slurm --nodes 2 …")
        if cost:
            return _measure(shared, options, console)
        return _verify(shared, options, console, again, models)
    from envbuild.cluster.batch import Job

    words = option_words(
        env=environment, mount=mount, network=network, memory=memory, timeout=timeout, output=output, gpus=gpus,
        allow=allow, ignore=ignore, strict=strict, offline=offline, no_controls=not controls,
    )  # fmt: skip
    job = Job(
        nodes=nodes, tasks=tasks, time=time, partition=partition, constraint=constraint, account=account,
        gpu_type=gpu_type,
    )  # fmt: skip
    return _verify_on_slurm(shared, options, job, [*words, *(command or ())], console, again)


def option_words(**typed: str | Sequence[str] | bool | None) -> list[str]:
    """Return options by their long names as they were typed, for another process of the same command."""
    words: list[str] = []
    for name, value in typed.items():
        option = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            words += [option] if value else []
        elif value:
            words += [word for each in ([value] if isinstance(value, str) else value) for word in (option, each)]
    return words


def _single_run(command: Sequence[str], **typed: str | Sequence[str] | bool | None) -> str:
    """Return the command that runs a program once as it is verified; options as for ``option_words``."""
    import shlex

    return shlex.join(("envbuild", "run", *option_words(**typed), *command))


def _shown_variable(text: str) -> str:
    """Return a variable as it was typed; of one that may be a secret the name alone, for a value of the environment."""
    from envbuild.core.redact import holds_secret

    return text.partition("=")[0] if holds_secret(text, names=True) else text


def _part(shared: RunOptions, options: VerifyOptions, part: str, console: Console) -> int:
    """Do one run of those that are spread over nodes; returns the program's code."""
    import sys

    from envbuild.operations.verification.part import run_part

    record, tail = run_part(shared, options, part, Console(quiet=console.quiet, stderr_only=True))
    if record.exit_code:
        sys.stderr.write(tail)
    return record.exit_code or 0


def _verify_on_slurm(
    shared: RunOptions, options: VerifyOptions, job: Job, words: Sequence[str], console: Console, again: str
) -> int:
    from envbuild.core.loading import load_meanwhile
    from envbuild.operations.verification.cluster import verify_on_slurm

    load_meanwhile(_NEEDED_AT_THE_END)
    return _show(verify_on_slurm(shared, options, job, words, console), shared, options, console, again)


def _check_attestation(
    command: tuple[str, ...], lock: Path | None, signers: Path | None, strict: bool, console: Console
) -> int:
    from envbuild.cli.render import verify as render
    from envbuild.operations.load_lock import load_lock
    from envbuild.operations.verification.attestation import check_attestation

    try:
        found = check_attestation(load_lock(lock, option=True), command, signers, strict=strict)
    except (LockError, IntegrityError) as error:
        first, *rest = error.message.splitlines()
        console.result({"fresh": False, "reasons": [line.strip() for line in rest or [first]]})
        raise
    for label, *columns in render.checked(found):
        console.line(label, *columns)
    shown = {"signer": found.signer, "attestation": found.path.name, "records": found.records, "mounted": found.mounted}
    console.result({"fresh": True, **shown, "reasons": []})
    return 0


def _self_test(shared: RunOptions, console: Console) -> int:
    """Check the checker; returns 0 if every plant was seen, else 16."""
    from envbuild.operations.run import prefer_guard_error, prepare
    from envbuild.operations.verification.self_test import self_test

    prepared = prepare(shared, Console(quiet=console.quiet, verbose=console.verbose, stderr_only=True))
    with prefer_guard_error(prepared.request.lock, shared, prepared.engine):
        found = self_test(prepared.request, prepared.engine, console)
    for each in found:
        console.line(each.name, "seen" if each.seen else "NOT SEEN", each.reported)
    console.result(
        {"channels": [{"name": each.name, "seen": each.seen, "reported": each.reported} for each in found]}
        | {"seen": all(each.seen for each in found)}
    )
    return 0 if all(each.seen for each in found) else NotReproducibleError.exit_code


def _models(words: str | None) -> tuple[str, ...]:
    """Return the names of CPU models of an option, each once."""
    if words is None:
        return ()
    names = tuple(dict.fromkeys(word.strip() for word in words.split(",") if word.strip()))
    if not names:
        raise UsageError("--cpu-models: no CPU model is named", "such as: --cpu-models Nehalem,Haswell,EPYC")
    return names


def _verify(
    shared: RunOptions, options: VerifyOptions, console: Console, again: str, models: tuple[str, ...] = ()
) -> int:
    """Verify on this machine and print what was found; returns as ``_show``."""
    from dataclasses import replace

    from envbuild.core.loading import load_meanwhile
    from envbuild.operations.run import prefer_guard_error, prepare
    from envbuild.operations.verification.verify import verify

    stderr_only = Console(quiet=console.quiet, verbose=console.verbose, stderr_only=True)
    loaded = None
    if models:
        from envbuild.operations.load_lock import load_lock
        from envbuild.operations.verification.cpus import find_cpus

        loaded = load_lock(shared.lock, shared.search_from, option=True)
        options = replace(options, cpus=find_cpus(loaded, models, stderr_only, offline=shared.offline))
    prepared = prepare(shared, stderr_only, loaded)
    request, engine = prepared.request, prepared.engine
    load_meanwhile(_NEEDED_AT_THE_END)
    with prefer_guard_error(request.lock, shared, engine):
        result = verify(request, engine, options, console)
    return _show(result, shared, options, console, again)


def _show(result: Verification, shared: RunOptions, options: VerifyOptions, console: Console, again: str) -> int:
    """Print what was found; returns 0, 16, 78 if the guard refused, or the program's code if it failed.

    ``again``: the command that runs the program once.
    """
    from envbuild.cli.commands.program import misplaced
    from envbuild.cli.render import verify as render

    verdict = result.verdict
    note = misplaced(shared.command, result.runs[0].record, "verify") if result.runs else ""
    if note and verdict.outcome in ("identical", "different"):
        console.note(note)
    if verdict.outcome == "identical" and not verdict.compared:
        more = ", or compare more: leave out --ignore" if options.ignore else ""
        raise UsageError(
            "the program left no files, printed nothing, and made no step that is traced: there is nothing to compare",
            f"have it print its results, or write them into the project; plt.show() does neither{more}",
        )
    console.result(render.as_json(result))
    if verdict.outcome == "identical":
        for label, *columns in render.proved(result):
            console.line(label, *columns)
        return 0
    if verdict.outcome == "different":
        if not console.as_json:
            console.text(f"{render.different(result)}\n")
        return NotReproducibleError.exit_code
    message, hint = render.failed(result, shared.command, again)
    print_error(message, note or hint)
    if verdict.outcome == "refused":
        return HostMismatchError.exit_code
    return result.runs[0].record.exit_code or NotReproducibleError.exit_code


def _measure(shared: RunOptions, options: VerifyOptions, console: Console) -> int:
    """Measure and print what switches cost; returns 0, 16 if runs differ with all of them on, or the program's code."""
    from envbuild.cli.render import verify as render
    from envbuild.core.loading import load_meanwhile
    from envbuild.operations.run import prefer_guard_error, prepare
    from envbuild.operations.verification.verify import measure

    stderr_only = Console(quiet=console.quiet, verbose=console.verbose, stderr_only=True)
    prepared = prepare(shared, stderr_only)
    load_meanwhile(_NEEDED_AT_THE_END)
    with prefer_guard_error(prepared.request.lock, shared, prepared.engine):
        result = measure(prepared.request, prepared.engine, options, console)
    if result.outcome != "measured":
        console.note(render.not_measured(result))
        return result.exit_code or NotReproducibleError.exit_code
    for label, *columns in render.cost_lines(result):
        console.line(label, *columns)
    console.result(render.cost_as_json(result))
    return 0


@app.command()
def diff(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[A [B]]",
            help="Runs, by the beginning of their ids, or paths of records; the two newest of one program.",
        ),
    ] = None,
    folder: Annotated[Path, typer.Option("--project", metavar="FOLDER", help="The project.")] = Path(),
    bisect: Annotated[
        bool, typer.Option("--bisect", help="Run A again with one difference at a time, until the result flips.")
    ] = False,
    mount: Annotated[
        list[str] | None,
        typer.Option("--mount", metavar="SPEC", help="With --bisect: allow a run this mount from outside the project."),
    ] = None,
    offline: Offline = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> int:
    """Explain why two runs differ: the most likely cause first.

    Exits with 0 if the results are equal, else 16. See docs/how-to/diff.md."""
    from envbuild.cli.render import diff as render
    from envbuild.lockfile.discovery import project_of
    from envbuild.operations import diff as operation

    if len(names or ()) > 2:
        raise UsageError("diff compares two runs", "envbuild diff A B")
    console = Console(as_json=as_json, quiet=quiet, verbose=verbose)
    result = operation.diff(*operation.select_pair(names or (), project_of(folder)))
    if not as_json:
        for label, *columns in render.lines(result):
            console.line(label, *columns)
    answer = _bisect(result, console, mount or (), offline=offline) if bisect else None
    if answer is not None:
        console.line("answer", answer.sentence)
    console.result(render.as_json(result, answer))
    return 0 if result.equal else NotReproducibleError.exit_code


def _bisect(result: DiffResult, console: Console, mounts: Sequence[str], *, offline: bool) -> Answer:
    """Search with the engine of this machine; builds are reported on standard error."""
    from envbuild.operations import build as operation
    from envbuild.operations.bisect import bisect
    from envbuild.operations.engines import connect
    from envbuild.operations.run_options import parse_mount

    stderr_only = Console(quiet=console.quiet, verbose=console.verbose, stderr_only=True)

    def build(path: Path) -> ImageRecord:
        return operation.build(path, stderr_only, offline=offline).record

    allowed = [parse_mount(text, Path.cwd()) for text in mounts]
    return bisect(result, connect=connect, build=build, events=console, mounts=allowed)


@app.command()
def report(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN]...", help="Ids, beginnings of them, or paths of records; the newest two."),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The page.")] = Path("report.html"),
    folder: Annotated[Path, typer.Option("--project", metavar="FOLDER", help="The project.")] = Path(),
    quiet: Quiet = False,
) -> None:
    """Write one HTML page about runs: curves, differences, environment.

    Each run is compared with the first. The page needs no network and no other file."""
    from envbuild.core.text import human_bytes, plural
    from envbuild.lockfile.discovery import project_of
    from envbuild.operations.report import report as write

    result = write(names or (), output, project_of(folder))
    Console(quiet=quiet).line("report", str(result.path), plural(result.runs, "run"), human_bytes(result.size))
