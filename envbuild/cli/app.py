"""Commands and their options. Everything slow is imported inside the command that needs it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from envbuild.cli.console import Console

app = typer.Typer(
    name="envbuild",
    help="Machine-learning training that repeats to the last bit, or refuses to start and says why.\n\n"
    "Start with:  envbuild init  ·  envbuild lock spec.yaml  ·  envbuild run train.py",
    epilog="Exit codes are documented in docs/exit-codes.md; the program's own code passes through `run`.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print details.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]
Offline = Annotated[bool, typer.Option("--offline", help="Use the store only; name what is missing.")]
LockArgument = Annotated[
    Path | None, typer.Argument(metavar="[LOCK]", help="The lock; by default the one found upward from here.")
]
LockOption = Annotated[
    Path | None, typer.Option("--lock", metavar="FILE", help="The lock; by default the one found upward.")
]
FromFolders = Annotated[
    list[Path] | None,
    typer.Option("--from", metavar="DIR", help="A folder made by `envbuild fetch --vendor`, tried before any index."),
]


class Resolver(str, Enum):
    """What resolves the Python part."""

    UV = "uv"
    PIP_TOOLS = "pip-tools"


def invoke(arguments: Sequence[str]) -> int:
    """Parse and run a command line; returns the exit code, raises ``EnvbuildError`` and what it does not expect."""
    usage_error = typer.BadParameter.__mro__[2]  # ClickException: typer gives it no public name
    try:
        result = app(args=list(arguments), prog_name="envbuild", standalone_mode=False)
    except typer.Exit as request:
        return request.exit_code
    except typer.Abort:
        raise KeyboardInterrupt from None
    except Exception as error:
        if not isinstance(error, usage_error):
            raise
        error.show()  # type: ignore[attr-defined]
        return 2
    except SystemExit as request:
        # Typer ends the process by itself when the reader of standard output has gone away.
        if isinstance(request.__context__, BrokenPipeError):
            raise request.__context__ from None
        raise
    return result if isinstance(result, int) else 0


def _print_version(wanted: bool) -> None:
    if wanted:
        from envbuild import __version__

        print(f"envbuild {__version__}")
        raise typer.Exit()


@app.callback()
def _program(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="The project.")] = Path(),
    force: Annotated[bool, typer.Option("--force", help="Replace a spec that is there.")] = False,
    quiet: Quiet = False,
) -> None:
    """Write a commented starter spec.yaml.

    Guesses framework and Python from what the folder holds."""
    from envbuild.cli.locking import write_starter

    write_starter(folder, force, Console(quiet=quiet))


@app.command()
def schema() -> None:
    """Print the JSON Schema of spec.yaml, for editors."""
    import json

    from envbuild.spec import json_schema

    print(json.dumps(json_schema(), indent=2))


@app.command()
def lock(
    spec: Annotated[Path, typer.Argument(help="The spec.")] = Path("spec.yaml"),
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 11 if the lock is stale.")] = False,
    upgrade: Annotated[bool, typer.Option("--upgrade", "-U", help="Move every pin to its newest.")] = False,
    upgrade_package: Annotated[
        list[str] | None,
        typer.Option("--upgrade-package", "-P", metavar="NAME", help="Move this package and only what it forces."),
    ] = None,
    resolver: Annotated[Resolver, typer.Option(help="Who resolves the Python part.")] = Resolver.UV,
    cross_check: Annotated[
        bool, typer.Option("--cross-check", help="Resolve with uv and pip-tools; refuse if the pins differ.")
    ] = False,
    refresh: Annotated[bool, typer.Option("--refresh", help="Ask the indexes again, however fresh the cache.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Resolve a spec into a lock and a pinned Dockerfile.

    Writes pylock.<name>.toml and Dockerfile beside the spec. Pins of an earlier lock stay unless the spec or
    --upgrade moves them."""
    from envbuild.cli.locking import LockOptions, check_lock, write_lock

    console = Console(quiet=quiet, verbose=verbose, as_json=as_json)
    options = LockOptions(
        resolver=resolver.value,
        cross_check=cross_check,
        upgrade=upgrade,
        upgrade_packages=tuple(upgrade_package or ()),
        refresh=refresh,
    )
    if check:
        check_lock(spec, options, console)
    else:
        write_lock(spec, options, console)


@app.command()
def fetch(
    lock: LockArgument = None,
    vendor: Annotated[
        Path | None, typer.Option("--vendor", metavar="DIR", help="Also write all files and the lock to a folder.")
    ] = None,
    sources: FromFolders = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Download every locked file, verified.

    Afterwards nothing needs the network."""
    from envbuild.cli.fetching import fetch_files

    fetch_files(lock, vendor, sources or [], Console(quiet=quiet, verbose=verbose, as_json=as_json))


@app.command()
def build(
    lock: LockArgument = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="oci:DIR|oci:FILE.tar", help="Write the image there, load nothing."),
    ] = None,
    offline: Offline = False,
    sources: FromFolders = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Assemble the locked image and load it.

    The image is the same, bit for bit, on every host and engine; its digest is written beside the lock and
    checked by the next build."""
    from envbuild.cli.building import BuildOptions, build_image

    console = Console(quiet=quiet, verbose=verbose, as_json=as_json)
    build_image(lock, BuildOptions(output=output, offline=offline, sources=tuple(sources or ())), console)


@app.command()
def context(
    folder: Annotated[Path, typer.Argument(help="An empty or new folder.")],
    lock: LockArgument = None,
    offline: Offline = False,
    sources: FromFolders = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Write the Dockerfile with its complete context.

    `docker build --network=none DIR` then works offline, without envbuild."""
    from envbuild.cli.building import BuildOptions, write_docker_context

    console = Console(quiet=quiet, verbose=verbose)
    write_docker_context(folder, lock, BuildOptions(offline=offline, sources=tuple(sources or ())), console)


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
    shell: Annotated[bool, typer.Option("--shell", help="Open a shell in the image instead.")] = False,
    controls: Annotated[
        bool,
        typer.Option("--controls/--no-controls", help="Seeds and determinism on, or off to see what they do."),
    ] = True,
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
        offline=offline,
    )
    return run_program(options, Console(quiet=quiet, verbose=verbose))


@app.command()
def check(lock: LockArgument = None, as_json: Json = False, quiet: Quiet = False) -> int:
    """Compare this host with the lock; start nothing."""
    from envbuild.cli.running import check_this_host

    return check_this_host(lock, Console(quiet=quiet, as_json=as_json))


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
