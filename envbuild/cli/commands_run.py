"""From image to record: the commands and their options. What is slow is imported inside the command that needs it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from envbuild.cli.console import Console
from envbuild.cli.options import Json, LockArgument, LockOption, Offline, Quiet, RequireSignature, Verbose, app


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

    Every field is described in docs/reference/record.md."""
    from envbuild.cli.records import print_record

    print_record(run, folder, Console(as_json=as_json))
