"""What an image was made from and who built it: the predicate of a SLSA provenance statement, version 1.

Source: https://slsa.dev/spec/v1.1/provenance. Fields that depend on the clock are left out, so that equal inputs give
equal bytes. docs/how-to/sign.md describes each field.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envbuild.errors import UsageError

PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "urn:envbuild:build:1"
LOCAL_BUILDER = "urn:envbuild:builder:local"
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[!-~]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Material:
    """A file that the image was made from: package URL, file name, SHA-256 (hexadecimal)."""

    purl: str
    file: str
    sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Where an image was made, as its signer specifies: URIs of builder and run (or empty), envbuild's version."""

    builder: str
    invocation: str
    version: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """An image: its lock's name and digest, layout version, digest of the recipe, and its configuration's digest."""

    lock: str
    lock_digest: str
    layout: int
    recipe: str
    config: str


def provenance(
    subject: Subject, materials: Sequence[Material], byproducts: Mapping[str, str], origin: Origin
) -> dict[str, Any]:
    """Return the predicate.

    Args:
        byproducts: SHA-256 of further documents by name.
    """
    names = {"config": subject.config, **byproducts}
    return {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {
                "layout": subject.layout,
                "lock": {"name": subject.lock, "digest": {"sha256": subject.lock_digest}},
            },
            "internalParameters": {"recipe": {"sha256": subject.recipe}} if subject.recipe else {},
            "resolvedDependencies": [
                {"uri": item.purl, "digest": {"sha256": item.sha256}, **({"name": item.file} if item.file else {})}
                for item in sorted(materials, key=lambda item: (item.purl, item.sha256))
            ],
        },
        "runDetails": {
            "builder": {"id": origin.builder, "version": {"envbuild": origin.version}},
            "byproducts": [{"name": name, "digest": {"sha256": names[name]}} for name in sorted(names)],
            "metadata": {"invocationId": origin.invocation} if origin.invocation else {},
        },
    }


def locked_by(predicate: Mapping[str, Any]) -> str:
    """Return the digest of the lock that a predicate of ours names; empty if it is none."""
    try:
        definition = predicate["buildDefinition"]
        digest = definition["externalParameters"]["lock"]["digest"]["sha256"]
        return str(digest) if definition["buildType"] == BUILD_TYPE else ""
    except (KeyError, TypeError):
        return ""


def builder_of(predicate: Mapping[str, Any]) -> str:
    """Return the builder that a predicate names, in printable characters; empty if it names none."""
    try:
        text = str(predicate["runDetails"]["builder"]["id"])
    except (KeyError, TypeError):
        return ""
    return text if _URI.fullmatch(text) else ""


def origin(builder: str, invocation: str, environ: Mapping[str, str], version: str) -> Origin:
    """Describe where an image was made; in GitHub Actions the workflow is the builder unless another one is named.

    Raises:
        UsageError: builder or invocation is no URI.
    """
    if not builder and environ.get("GITHUB_ACTIONS") == "true" and environ.get("GITHUB_WORKFLOW_REF"):
        builder = f"{environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{environ['GITHUB_WORKFLOW_REF']}"
    for option, text in (("--builder", builder), ("--invocation", invocation)):
        if text and not _URI.fullmatch(text):
            raise UsageError(f"{option} {text!r}: expected a URI", "such as https://ci.example.com/build/7")
    return Origin(builder=builder or LOCAL_BUILDER, invocation=invocation, version=version)
