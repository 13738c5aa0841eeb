"""What ``sbom`` and ``sign`` wrote, as lines for people and as JSON values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from envbuild.cli.render.events import Line
from envbuild.core.text import plural
from envbuild.operations.sbom import BillOfMaterials
from envbuild.operations.sign import SignedImage
from envbuild.signing import cosign

_TITLES = {cosign.PROVENANCE: "provenance", cosign.CYCLONEDX: "CycloneDX", cosign.SPDX: "SPDX"}


def bill_line(result: BillOfMaterials, output: Path) -> Line:
    """Return the line that shows where a bill was written, and what it lists."""
    lock = result.loaded.lock
    counts = plural(len(lock.os.packages), "OS package"), plural(len(lock.packages), "wheel")
    return Line("wrote", (str(output), ", ".join(counts)), elapsed=True)


def attested_line(result: SignedImage) -> Line:
    """Return the line that names the statements that were attached now, of those that were asked for."""
    titles = ", ".join(_TITLES[statement.kind] for statement in result.statements if statement.added)
    return Line("attest", (titles or "nothing to do",), elapsed=True)


def signed_json(result: SignedImage) -> dict[str, Any]:
    """Return the result of ``sign`` as JSON values."""
    digests = {statement.kind: statement.sha256 for statement in result.statements}
    return {"reference": str(result.reference), "signer": result.signer, "statements": digests}
