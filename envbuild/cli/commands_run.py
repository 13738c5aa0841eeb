"""From image to record: the commands and their options. What is slow is imported inside the command that needs it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from envbuild.cli.console import Console
from envbuild.cli.options import Json, LockArgument, LockOption, Offline, Quiet, RequireSignature, Verbose, app
from envbuild.errors import UsageError


@app.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    options_metavar="[OPTIONS]",
)
def run(
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="SCRIPT.py|-m MODULE|COMMAND [ARGS]...", help="What to run; its arguments untouched."),
    ] = None,
    lock: LockOption = None,
    environment: Annotated[
        list[str] | None,
        typer.Option("--env", "-e", metavar="NAME[=VALUE]", help="Set a variable, or pass this one on."),
    ] = None,
    mount: Annotated[
        list[str] | None,
        typer.Option("--mount", metavar="SPEC", help="SRC:DST[:ro], or type=bind,source=…,target=…[,readonly]."),
    ] = None,
    network: Annotated[
        str | None, typer.Option("--network", help="none, bridge, host or a network of the engine.")
    ] = None,
    cpus: Annotated[float | None, typer.Option("--cpus", help="How many CPUs' time it may use.")] = None,
    memory: Annotated[str | None, typer.Option("--memory", metavar="SIZE", help="Limit, such as 8g.")] = None,
    tensors: Annotated[
        bool, typer.Option("--tensors/--no-tensors", help="Read the tensors of saved models after the run.")
    ] = True,
    trace: Annotated[
        bool, typer.Option("--trace", help="Keep a digest of every parameter after each step, for diff.")
    ] = False,
    gpus: Annotated[
        str | None, typer.Option("--gpus", metavar="all|N|UUID,…", help="GPUs to hand over; as locked by default.")
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option("--allow", metavar="FIELD", help="Let this field differ from the lock, once; it is recorded."),
    ] = None,
    guard: Annotated[
        bool, typer.Option("--guard/--no-guard", help="Compare the machine with the lock, or record `not verified`.")
    ] = True,
    shell: Annotated[bool, typer.Option("--shell", help="Open a shell in the image instead.")] = False,
    controls: Annotated[
        bool,
        typer.Option("--controls/--no-controls", help="Seeds and determinism on, or off to see what they do."),
    ] = True,
    image: Annotated[
        str | None,
        typer.Option("--image", metavar="REF@sha256:…", help="Run this image from a registry, if it is the lock's."),
    ] = None,
    require_signature: RequireSignature = None,
    offline: Offline = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> int:
    """Run a script, unedited, in the locked image.

    Builds the image first if need be. A guard compares the host with the lock before any of your code runs; the
    program's exit code is passed through; a record stays in .envbuild/runs."""
    from envbuild.cli.running import RunOptions, run_program

    options = RunOptions(
        command=tuple(command or ()),
        lock=lock,
        environment=tuple(environment or ()),
        mounts=tuple(mount or ()),
        network=network,
        cpus=cpus,
        memory=memory,
        shell=shell,
        controls=controls,
        gpus=gpus,
        tensors=tensors,
        trace=trace,
        allow=tuple(allow or ()),
        guard=guard,
        offline=offline,
        image=image,
        require_signature=require_signature,
    )
    return run_program(options, Console(quiet=quiet, verbose=verbose))


@app.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    options_metavar="[OPTIONS]",
)
def verify(
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="SCRIPT.py|-m MODULE|COMMAND [ARGS]...", help="What to run; its arguments untouched."),
    ] = None,
    count: Annotated[int, typer.Option("-n", metavar="N", help="How many runs.")] = 3,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", metavar="N", help="How many at once; by default as many as fit.")
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Run in the project itself, not in copies of it; one after another.")
    ] = False,
    ignore: Annotated[
        list[str] | None,
        typer.Option("--ignore", metavar="PATTERN", help="Leave outputs out of the comparison, such as 'logs/*'."),
    ] = None,
    diagnose: Annotated[
        bool,
        typer.Option("--diagnose/--no-diagnose", help="Where runs differ, run again to find out why."),
    ] = True,
    cost: Annotated[
        bool, typer.Option("--cost", help="Measure what each switch costs, and find the cheapest set that suffices.")
    ] = False,
    sign: Annotated[
        Path | None, typer.Option("--sign", metavar="KEY", help="Sign the attestation with an SSH key.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Ask whether the last attestation still holds.")] = False,
    signers: Annotated[
        Path | None,
        typer.Option(
            "--signers", metavar="FILE", help="With --check: keys to trust, as ssh-keygen -Y verify has them."
        ),
    ] = None,
    lock: LockOption = None,
    environment: Annotated[
        list[str] | None,
        typer.Option("--env", "-e", metavar="NAME[=VALUE]", help="Set a variable, or pass this one on."),
    ] = None,
    mount: Annotated[
        list[str] | None,
        typer.Option("--mount", metavar="SPEC", help="SRC:DST[:ro], or type=bind,source=…,target=…[,readonly]."),
    ] = None,
    network: Annotated[
        str | None, typer.Option("--network", help="none, bridge, host or a network of the engine.")
    ] = None,
    memory: Annotated[str | None, typer.Option("--memory", metavar="SIZE", help="Limit, such as 8g.")] = None,
    gpus: Annotated[
        str | None, typer.Option("--gpus", metavar="all|N|UUID,…", help="GPUs to hand over; as locked by default.")
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option("--allow", metavar="FIELD", help="Let this field differ from the lock; it is recorded."),
    ] = None,
    controls: Annotated[
        bool,
        typer.Option("--controls/--no-controls", help="Seeds and determinism on, or off to see what they do."),
    ] = True,
    offline: Offline = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: Json = False,
) -> int:
    """Run a script several times and prove that the bits are equal, or say where they part and why.

    Each run works in a copy of the project. What is proved stays beside the lock as pylock.NAME.verified.json; runs
    that differ are exit 16."""
    from envbuild.cli.running import RunOptions
    from envbuild.cli.verifying import VerifyOptions, verify_or_check

    shared = RunOptions(
        command=tuple(command or ()),
        verb="verify",
        lock=lock,
        environment=tuple(environment or ()),
        mounts=tuple(mount or ()),
        network=network,
        memory=memory,
        controls=controls,
        gpus=gpus,
        allow=tuple(allow or ()),
        offline=offline,
    )
    options = VerifyOptions(
        run=shared, count=count, jobs=jobs, in_place=in_place, ignore=tuple(ignore or ()), sign=sign,
        diagnose=diagnose, cost=cost, check=check, signers=signers,
    )  # fmt: skip
    return verify_or_check(options, Console(quiet=quiet, verbose=verbose, as_json=as_json))


@app.command()
def check(lock: LockArgument = None, as_json: Json = False, quiet: Quiet = False) -> int:
    """Compare this host with the lock; start nothing."""
    from envbuild.cli.running import check_this_host

    return check_this_host(lock, Console(quiet=quiet, as_json=as_json))


@app.command()
def probe(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the description to a file.")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Describe this machine: GPUs, driver, CPU, kernel, containers.

    `envbuild probe -o host.toml` on a GPU server, `envbuild lock --host host.toml` on a laptop."""
    from envbuild.cli.probing import probe as describe

    describe(output, Console(quiet=quiet, as_json=as_json))


@app.command()
def runs(
    folder: Annotated[Path, typer.Argument(help="The project.")] = Path(),
    as_json: Json = False,
) -> None:
    """List the recorded runs of a project, newest first."""
    from envbuild.cli.records import print_runs

    print_runs(folder, Console(as_json=as_json))


def _print_record_schema(wanted: bool) -> None:
    if wanted:
        from envbuild.cli.records import print_record_schema

        print_record_schema()
        raise typer.Exit()


@app.command()
def show(
    run: Annotated[str, typer.Argument(help="A run's id, or the beginning of it.")],
    folder: Annotated[Path, typer.Option("--project", metavar="FOLDER", help="The project.")] = Path(),
    schema: Annotated[
        bool,
        typer.Option(
            "--schema", callback=_print_record_schema, is_eager=True, help="Print the JSON Schema of records instead."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole record as JSON.")] = False,
) -> None:
    """Show what was recorded about a run.

    Every field is described in docs/records.md."""
    from envbuild.cli.records import print_record

    print_record(run, folder, Console(as_json=as_json))


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
    offline: Offline = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> int:
    """Say why two runs differ: the most likely cause first.

    Exits with 0 if the results are equal, else 16. Described in docs/diff.md."""
    from envbuild.cli.diffing import diff_runs

    if len(names or ()) > 2:
        raise UsageError("diff compares two runs", "envbuild diff A B")
    console = Console(as_json=as_json, quiet=quiet, verbose=verbose)
    return diff_runs(tuple(names or ()), folder, console, bisect=bisect, offline=offline)


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

    Each run is compared with the first. The page needs no network and nothing beside itself."""
    from envbuild.cli.reporting import write_report

    write_report(names or (), output, folder, Console(quiet=quiet))
