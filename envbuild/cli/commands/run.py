"""A run and its record, this host: ``run``, ``check``, ``probe``, ``runs``, ``show``.

What is slow is imported inside the command that needs it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from envbuild.cli.console import Console, print_error, print_to
from envbuild.cli.options import (
    PROGRAM_SETTINGS,
    Allow,
    Controls,
    Environment,
    GpuChoice,
    Json,
    LockArgument,
    LockOption,
    Memory,
    Mounts,
    NetworkName,
    Offline,
    Outputs,
    Platform,
    Program,
    Quiet,
    RequireSignature,
    Variant,
    Verbose,
    app,
)
from envbuild.errors import HostMismatchError


@app.command(context_settings=PROGRAM_SETTINGS, options_metavar="[OPTIONS]")
def run(
    command: Program = None,
    lock: LockOption = None,
    variant: Variant = None,
    platform: Platform = None,
    environment: Environment = None,
    mount: Mounts = None,
    network: NetworkName = None,
    cpus: Annotated[float | None, typer.Option("--cpus", help="How many CPUs' time it may use.")] = None,
    memory: Memory = None,
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="TIME", help="End it after this time, such as 90s, 5m or 2h.")
    ] = None,
    output: Outputs = None,
    tensors: Annotated[
        bool, typer.Option("--tensors/--no-tensors", help="Read the tensors of saved models after the run.")
    ] = True,
    trace: Annotated[
        bool, typer.Option("--trace", help="Keep a digest of every parameter after each step, for diff.")
    ] = False,
    gpus: GpuChoice = None,
    allow: Allow = None,
    guard: Annotated[
        bool, typer.Option("--guard/--no-guard", help="Compare the machine with the lock, or record `not verified`.")
    ] = True,
    emulate: Annotated[
        bool,
        typer.Option("--emulate", help="Try another platform's image: the locked emulator starts it, as recorded."),
    ] = False,
    shell: Annotated[bool, typer.Option("--shell", help="Open a shell in the image instead.")] = False,
    controls: Controls = True,
    image: Annotated[
        str | None,
        typer.Option(
            "--image",
            metavar="REF@sha256:…|oci:PATH",
            help="Run this image from a registry, or an OCI layout in a folder or tar archive, if it is the lock's.",
        ),
    ] = None,
    require_signature: RequireSignature = None,
    offline: Offline = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> int:
    """Run a script, unedited, in the locked image.

    Builds the image first if need be. A guard compares the host with the lock before any of your code runs; the
    program's exit code is passed through; a record stays in .envbuild/runs."""
    from envbuild.cli.running import run_program

    return run_program(
        command, lock=lock, variant=variant, platform=platform, environment=environment, mount=mount,
        network=network, cpus=cpus, memory=memory, timeout=timeout, output=output, tensors=tensors, trace=trace,
        gpus=gpus, allow=allow, guard=guard, emulate=emulate, shell=shell, controls=controls, image=image,
        require_signature=require_signature, offline=offline, quiet=quiet, verbose=verbose,
    )  # fmt: skip


@app.command()
def check(
    lock: LockArgument = None,
    variant: Variant = None,
    platform: Platform = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Compare this host with the lock; start nothing."""
    from envbuild.cli.render import host as render
    from envbuild.cli.render.host import locked_inputs_lines
    from envbuild.operations.check import check as compare
    from envbuild.operations.inputs import accept_hint, indented
    from envbuild.operations.load_lock import lock_of_variant

    console = Console(quiet=quiet, as_json=as_json)
    found = compare(lock_of_variant(lock, variant, platform=platform), console)
    console.result(render.check_json(found))
    if not (as_json or quiet):
        text = render.check_text(found.verdict, data_differs=bool(found.inputs.differences))
        console.text(text, sys.stdout if found.ok else sys.stderr)
        for line in () if found.inputs.differences else locked_inputs_lines(found.loaded.lock):
            console.text(f"{line}\n")
        if found.inputs.differences:
            message = f"input data is not as {found.loaded.path.name} locked it\n{indented(found.inputs)}"
            print_error(message, accept_hint(found.loaded.lock))
    return 0 if found.ok else HostMismatchError.exit_code


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
    import msgspec

    from envbuild.cli.render import host as render
    from envbuild.operations.probe import probe as describe

    console = Console(quiet=quiet, as_json=as_json)
    found = describe(output)
    console.result(msgspec.to_builtins(found))
    for label, *columns in () if as_json else render.description(found, os.environ):
        console.line(label, *columns)
    if output is not None:
        console.line("wrote", str(output), f"lock for this host anywhere: envbuild lock --host {output}")


@app.command()
def runs(
    folder: Annotated[Path, typer.Argument(help="The project.")] = Path(),
    as_json: Json = False,
) -> None:
    """List the recorded runs of a project, newest first; a job of several ranks is one run."""
    from envbuild.cli.render import jobs
    from envbuild.cli.render import records as render
    from envbuild.core.text import script_in
    from envbuild.operations.records import list_records

    console = Console(as_json=as_json)
    found = list_records(folder)
    console.result(render.as_json(found.records))
    if not found.records:
        console.line("runs", "none yet", f"start one: envbuild run {script_in(found.project)}")
    elif not as_json:
        console.text("".join(f"{line}\n" for line in jobs.table(found.jobs)))
    if found.unreadable:
        count, name = len(found.unreadable), found.unreadable[0]
        records = "1 record" if count == 1 else f"{count} records"
        console.note(f"{records} cannot be read; why: envbuild show {name}")


def _print_record_schema(wanted: bool) -> None:
    if wanted:
        from envbuild.operations.records import record_schema

        print_to(sys.stdout, json.dumps(record_schema(), indent=2))
        raise typer.Exit()


@app.command()
def show(
    run: Annotated[
        str | None,
        typer.Argument(help="A run's id, or the beginning of it; ID:1 for rank 1 of a job; the newest by default."),
    ] = None,
    folder: Annotated[Path, typer.Option("--project", metavar="FOLDER", help="The project.")] = Path(),
    schema: Annotated[
        bool,
        typer.Option(
            "--schema", callback=_print_record_schema, is_eager=True, help="Print the JSON Schema of records instead."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole record as JSON.")] = False,
) -> None:
    """Show what was recorded about a run, or about all ranks of a job.

    Every field is described in docs/reference/record.md."""
    from envbuild.cli.render import jobs as render
    from envbuild.operations.records import earlier_job, find_job

    console = Console(as_json=as_json)
    job = find_job(run, folder)
    console.result(render.as_json(job))
    for label, *columns in () if as_json else render.lines(job, earlier_job(job, folder)):
        console.line(label, *columns)
