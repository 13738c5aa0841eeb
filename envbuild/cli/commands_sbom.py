"""``sbom``: what is in the image. Everything slow is imported inside the command."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from envbuild.cli.console import Console
from envbuild.cli.options import LockArgument, Quiet, app


class Format(str, Enum):
    """How a bill of materials is written."""

    CYCLONEDX = "cyclonedx"
    SPDX = "spdx"


@app.command()
def sbom(
    lock: LockArgument = None,
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
    from envbuild.cli.sbom_documents import write_sbom

    write_sbom(lock, kind.value, output, Console(quiet=quiet))
