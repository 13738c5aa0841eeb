"""Images in registries: ``push``, ``pull``, ``inspect``. Everything slow is imported inside the commands."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from envbuild.cli.console import Console
from envbuild.cli.options import Json, LockArgument, Offline, Platform, Quiet, RequireSignature, Variant, Verbose, app


@app.command()
def push(
    reference: Annotated[str, typer.Argument(help="REGISTRY/REPOSITORY[:TAG]; the lock's digest is the default tag.")],
    lock: LockArgument = None,
    variant: Variant = None,
    platform: Platform = None,
    write: Annotated[
        bool, typer.Option("--write", help="Keep the reference by digest next to the lock: pylock.NAME.published.json.")
    ] = False,
    bundle: Annotated[
        bool, typer.Option("--bundle", help="Push the lock's files there too, from which it can be built years later.")
    ] = False,
    offline: Offline = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Upload the locked image to a registry.

    Only what the registry lacks is sent, several layers at once. Builds first if need be; needs no engine if the
    layers are in the store. Credentials are those of `docker login`. Prints the image's reference by digest. Of a spec
    with platforms the images of all, with the index that names them, unless one is chosen."""
    from envbuild.cli.render.image import index_json, index_lines, pushed_json, pushed_lines
    from envbuild.operations import push as operation
    from envbuild.operations.load_lock import platforms_meant

    console = Console(quiet=quiet, verbose=verbose, as_json=as_json)
    first, *others = paths = platforms_meant(lock, variant, platform)
    if others:
        several = [path for path in paths if path is not None]
        index = operation.push_index(reference, several, console, write=write, bundle=bundle, offline=offline)
        console.print_lines(index_lines(index))
        console.result(index_json(index))
        return
    result = operation.push(reference, first, console, write=write, bundle=bundle, offline=offline)
    console.print_lines(pushed_lines(result))
    console.result(pushed_json(result))


@app.command()
def pull(
    reference: Annotated[
        str | None,
        typer.Argument(
            help="REGISTRY/REPOSITORY[:TAG][@sha256:…], or oci:PATH; by default the one that `push --write` recorded."
        ),
    ] = None,
    lock: LockArgument = None,
    variant: Variant = None,
    platform: Platform = None,
    require_signature: RequireSignature = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Bring the locked image from a registry into the engine.

    The image is compared with the lock before anything of it is brought in; another one is refused with exit
    code 16, bytes altered on the way with 13."""
    from envbuild.cli.render.image import pulled_line
    from envbuild.operations import pull as operation
    from envbuild.operations.load_lock import lock_of_variant

    console = Console(quiet=quiet, verbose=verbose, as_json=as_json)
    result = operation.pull(
        reference, lock_of_variant(lock, variant, platform=platform), console, require_signature=require_signature
    )
    console.print_lines([pulled_line(result)])
    console.result(result.record.as_dict())


@app.command()
def inspect(
    reference: Annotated[str, typer.Argument(help="REGISTRY/REPOSITORY[:TAG][@sha256:…]")],
    lock: Annotated[bool, typer.Option("--lock", help="Print the lock inside the image, nothing else.")] = False,
    require_signature: RequireSignature = None,
    as_json: Json = False,
) -> None:
    """Describe what an image in a registry is, without pulling it.

    Its lock, layers and their weights, SBOM and signatures."""
    from envbuild.cli.render.image import inspected_json, inspected_lines
    from envbuild.operations import inspect as operation

    if lock:
        sys.stdout.write(operation.inspect_lock(reference, require_signature=require_signature).decode())
        return
    console, result = Console(as_json=as_json), operation.inspect(reference, require_signature=require_signature)
    if as_json:
        console.result(inspected_json(result))
    else:
        console.print_lines(inspected_lines(result))
    if result.signature is not None and result.signature.refusal is not None:
        raise result.signature.refusal
