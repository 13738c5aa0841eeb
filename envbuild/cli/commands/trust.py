"""Trust in an image and in what it holds: ``sbom``, ``sign``. Everything slow is imported inside the commands."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from envbuild.cli.console import Console
from envbuild.cli.options import Json, LockArgument, Platform, Quiet, Variant, app
from envbuild.core.fs import NO_SPACE, atomic_write
from envbuild.errors import UsageError


class Format(str, Enum):
    """How a bill of materials is written."""

    CYCLONEDX = "cyclonedx"
    SPDX = "spdx"


@app.command()
def sbom(
    lock: LockArgument = None,
    variant: Variant = None,
    platform: Platform = None,
    kind: Annotated[
        Format, typer.Option("--format", "-f", help="CycloneDX 1.6 or SPDX 2.3, both as JSON.")
    ] = Format.CYCLONEDX,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there; else to standard output.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write the image's bill of materials from its lock.

    Every OS package and wheel with version, digest, layer, and, for files in the store, licence and dependencies."""
    from envbuild.cli.render.image import bill_line
    from envbuild.operations import sbom as operation
    from envbuild.operations.load_lock import lock_of_variant

    console = Console(quiet=quiet)
    result = operation.sbom(lock_of_variant(lock, variant, platform=platform), console, kind=kind.value)
    if output is None:
        sys.stdout.buffer.write(result.document.data)
        sys.stdout.flush()
        return
    try:
        atomic_write(output, result.document.data)
    except OSError as error:
        if error.errno in NO_SPACE:
            raise
        raise UsageError(f"cannot write {output}: {error.strerror}", "choose another place: -o FILE") from None
    console.print_lines([bill_line(result, output)])


@app.command()
def sign(
    reference: Annotated[
        str | None,
        typer.Argument(
            help="REGISTRY/REPOSITORY@sha256:…; by default the one that `push --write` kept next to the lock."
        ),
    ] = None,
    lock: LockArgument = None,
    variant: Variant = None,
    platform: Platform = None,
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
        str,
        typer.Option(
            "--builder", metavar="URI", help="Who built it, for the provenance; in a workflow: the workflow itself."
        ),
    ] = "",
    invocation: Annotated[
        str, typer.Option("--invocation", metavar="URI", help="Which run built it, for the provenance.")
    ] = "",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Sign the pushed image with cosign; attach its provenance and bills of materials.

    Signs the very digest that push recorded, after a look at what the registry holds. Of a spec with platforms the
    images of all, then their index, unless one is chosen."""
    from envbuild.cli.render.image import attested_line, signed_json
    from envbuild.operations import sign as operation
    from envbuild.operations.load_lock import platforms_meant

    console = Console(quiet=quiet, as_json=as_json)
    request = operation.SignRequest(
        key=key, keyless=keyless, signature_only=signature_only, builder=builder, invocation=invocation
    )
    first, *others = paths = platforms_meant(lock, variant, platform)
    if others:
        several = [path for path in paths if path is not None]
        results = operation.sign_platforms(reference, several, request, console)
        console.print_lines(attested_line(each) for each in results if each.statements)
        console.result({"images": [signed_json(each) for each in results]})
        return
    result = operation.sign(reference, first, request, console)
    if result.statements:
        console.print_lines([attested_line(result)])
    console.result(signed_json(result))
