"""Images in registries: the commands and their options. What is slow is imported inside the command that needs it."""

from __future__ import annotations

from typing import Annotated

import typer

from envbuild.cli.console import Console
from envbuild.cli.options import Json, LockArgument, Offline, Quiet, RequireSignature, Verbose, app


@app.command()
def push(
    reference: Annotated[str, typer.Argument(help="REGISTRY/REPOSITORY[:TAG]; the lock's digest is the default tag.")],
    lock: LockArgument = None,
    write: Annotated[
        bool, typer.Option("--write", help="Keep the reference by digest beside the lock: pylock.NAME.published.json.")
    ] = False,
    offline: Offline = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Upload the locked image to a registry.

    Only what the registry lacks is sent, several layers at once. Builds first if need be; needs no engine if the
    layers are in the store. Credentials are those of `docker login`. Prints the image's reference by digest."""
    from envbuild.cli.pushing import PushOptions, push_image

    console = Console(quiet=quiet, verbose=verbose, as_json=as_json)
    push_image(reference, lock, PushOptions(write=write, offline=offline), console)


@app.command()
def pull(
    reference: Annotated[
        str | None,
        typer.Argument(help="REGISTRY/REPOSITORY[:TAG][@sha256:…]; by default where `push --write` says it is."),
    ] = None,
    lock: LockArgument = None,
    require_signature: RequireSignature = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Bring the locked image from a registry into the engine.

    The image is compared with the lock before anything of it is brought in; another one is refused with exit
    code 16, bytes altered on the way with 13."""
    from envbuild.cli.pulling import pull_image

    pull_image(reference, lock, require_signature, Console(quiet=quiet, verbose=verbose, as_json=as_json))


@app.command()
def inspect(
    reference: Annotated[str, typer.Argument(help="REGISTRY/REPOSITORY[:TAG][@sha256:…]")],
    lock: Annotated[bool, typer.Option("--lock", help="Print the lock inside the image, nothing else.")] = False,
    require_signature: RequireSignature = None,
    as_json: Json = False,
) -> None:
    """Tell what an image in a registry is, without pulling it.

    Its lock, layers and their weights, SBOM and signatures."""
    from envbuild.cli.inspecting import inspect_image

    inspect_image(reference, lock, require_signature, Console(as_json=as_json))
