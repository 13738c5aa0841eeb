"""``build`` and ``context``. Everything slow is imported inside the command that needs it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from envbuild.cli.console import Console
from envbuild.cli.options import FromFolders, Json, LockArgument, Offline, Quiet, Verbose, app


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
