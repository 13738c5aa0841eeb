"""The image on this machine: ``build``, ``context``, ``image``. Everything slow is imported inside the commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from envbuild.cli.console import Console
from envbuild.cli.options import FromFolders, Json, LockArgument, Offline, Platform, Quiet, Variant, Verbose, app


@app.command()
def build(
    lock: LockArgument = None,
    variant: Variant = None,
    platform: Platform = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="oci:DIR|oci:FILE.tar|docker-archive:FILE|sqsh:FILE|dir:DIR",
            help="Write the image there, load nothing.",
        ),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Then rebuild from nothing and compare; exit 16 if one bit differs.")
    ] = False,
    all_platforms: Annotated[
        bool, typer.Option("--all-platforms", help="For every platform of the spec, not for this machine's alone.")
    ] = False,
    offline: Offline = False,
    sources: FromFolders = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Assemble the locked image and load it.

    The image is the same, bit for bit, on every host and engine; its digest is written next to the lock and
    checked by the next build."""
    from envbuild.errors import UsageError
    from envbuild.operations import build as operation
    from envbuild.operations.load_lock import lock_of_variant, locks_of_platforms

    console = Console(quiet=quiet, verbose=verbose, as_json=as_json)
    if all_platforms and platform is not None:
        raise UsageError(f"--all-platforms builds for {platform} too", "leave out one of --platform, --all-platforms")
    path, folders = lock_of_variant(lock, variant, platform=platform), tuple(sources or ())
    if all_platforms:
        found = operation.build_platforms(
            locks_of_platforms(path), console, output=output, offline=offline, sources=folders, verify=verify
        )
        console.result({"platforms": [each.record.as_dict() for each in found]})
        return
    result = operation.build(path, console, output=output, offline=offline, sources=folders, verify=verify)
    console.result(result.record.as_dict())


@app.command()
def context(
    folder: Annotated[Path, typer.Argument(help="An empty or new folder.")],
    lock: LockArgument = None,
    variant: Variant = None,
    platform: Platform = None,
    offline: Offline = False,
    sources: FromFolders = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Write the Dockerfile with its complete context.

    `docker build --network=none DIR` then works offline, without envbuild."""
    from envbuild.cli.render.image import context_lines
    from envbuild.operations.build import build_context
    from envbuild.operations.load_lock import lock_of_variant

    console, path = Console(quiet=quiet, verbose=verbose), lock_of_variant(lock, variant, platform=platform)
    console.print_lines(context_lines(build_context(folder, path, console, offline=offline, sources=sources or ())))


@app.command()
def image(lock: LockArgument = None, variant: Variant = None, platform: Platform = None, as_json: Json = False) -> None:
    """Show what each layer of the locked image weighs.

    From bottom to top: bytes, files, digest, and which other locks share it. Needs no engine, but a build before."""
    from envbuild.cli.render.image import weight_json, weight_lines
    from envbuild.operations.image import weigh_image
    from envbuild.operations.load_lock import lock_of_variant

    console, result = Console(as_json=as_json), weigh_image(lock_of_variant(lock, variant, platform=platform))
    console.print_lines(weight_lines(result))
    console.result(weight_json(result))
