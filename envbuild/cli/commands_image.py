"""From spec to image: the commands and their options. Everything slow is imported inside the command that needs it."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from envbuild.cli.console import Console
from envbuild.cli.options import FromFolders, Json, LockArgument, Offline, Quiet, Verbose, app
from envbuild.errors import UsageError


class Resolver(str, Enum):
    """What resolves the Python part."""

    UV = "uv"
    PIP_TOOLS = "pip-tools"


class Summary(str, Enum):
    """How ``lock --summary`` writes."""

    MARKDOWN = "markdown"


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

    from envbuild.spec.model import json_schema

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
    host: Annotated[
        str,
        typer.Option(
            "--host",
            metavar="detect|FILE|none",
            help="Lock for this machine, for one that `envbuild probe -o FILE` described, or none.",
        ),
    ] = "",
    update_inputs: Annotated[
        bool, typer.Option("--update-inputs", help="Accept the declared data as it is now; move nothing else.")
    ] = False,
    summary: Annotated[
        Summary | None,
        typer.Option("--summary", help="Print what moved, with CVE numbers; all else to stderr."),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Resolve a spec into a lock and a pinned Dockerfile.

    Writes pylock.<name>.toml and Dockerfile beside the spec. Pins of an earlier lock stay unless the spec or
    --upgrade moves them."""
    from envbuild.cli.locking import check_lock, write_lock
    from envbuild.operations.lock_inputs import LockOptions

    console = Console(quiet=quiet, verbose=verbose, as_json=as_json, beside=summary is not None)
    if summary and (as_json or check or update_inputs):
        raise UsageError("--summary tells what a new lock moved", "leave out --json, --check and --update-inputs")
    options = LockOptions(
        resolver=resolver.value,
        cross_check=cross_check,
        upgrade=upgrade,
        upgrade_packages=tuple(upgrade_package or ()),
        refresh=refresh,
        host=host,
    )
    if update_inputs and check:
        raise UsageError("--check writes nothing, --update-inputs writes the lock", "leave out one of them")
    if update_inputs and host:
        raise UsageError("--update-inputs moves the inputs only, not the host", "run them one after the other")
    if update_inputs:
        from envbuild.cli.updating import update_inputs as update

        update(spec, console)
    elif check:
        check_lock(spec, options, console)
    else:
        write_lock(spec, options, console, summary=summary is not None)


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
    from envbuild.cli.render.lock import fetched_json, fetched_lines
    from envbuild.operations import fetch as operation

    console = Console(quiet=quiet, verbose=verbose, as_json=as_json)
    result = operation.fetch(lock, console, vendor=vendor, sources=sources or ())
    console.print_lines(fetched_lines(result))
    console.result(fetched_json(result))


@app.command()
def build(
    lock: LockArgument = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="oci:DIR|oci:FILE.tar|docker-archive:FILE",
            help="Write the image there, load nothing.",
        ),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Then rebuild from nothing and compare; exit 16 if one bit differs.")
    ] = False,
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
    options = BuildOptions(output=output, offline=offline, sources=tuple(sources or ()))
    if verify:
        from envbuild.cli.rebuilding import verify_build

        build_image(lock, options, console, verify_build)
    else:
        build_image(lock, options, console)


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
