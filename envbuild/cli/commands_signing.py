"""``sign``: the command and its options. What is slow is imported inside it."""

from __future__ import annotations

from typing import Annotated

import typer

from envbuild.cli.console import Console
from envbuild.cli.options import Json, LockArgument, Quiet, app


@app.command()
def sign(
    reference: Annotated[
        str | None,
        typer.Argument(help="REGISTRY/REPOSITORY@sha256:…; by default what `push --write` kept beside the lock."),
    ] = None,
    lock: LockArgument = None,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="KEY", help="cosign's private key, a file or address; COSIGN_PASSWORD opens it."),
    ] = None,
    keyless: Annotated[
        bool, typer.Option("--keyless", help="Sign as who you are: in GitHub Actions, the workflow.")
    ] = False,
    signature_only: Annotated[
        bool, typer.Option("--signature-only", help="Attach neither provenance nor bills of materials.")
    ] = False,
    builder: Annotated[
        str, typer.Option("--builder", metavar="URI", help="Who built it, for the provenance; a workflow says itself.")
    ] = "",
    invocation: Annotated[
        str, typer.Option("--invocation", metavar="URI", help="Which run built it, for the provenance.")
    ] = "",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Sign the pushed image with cosign; attach its provenance and bills of materials.

    Signs the very digest that push recorded, after a look at what the registry holds."""
    from envbuild.cli.signing import SignOptions, sign_image

    options = SignOptions(
        key=key, keyless=keyless, signature_only=signature_only, builder=builder, invocation=invocation
    )
    sign_image(reference, lock, options, Console(quiet=quiet, as_json=as_json))
