"""What refers to an image: signatures, attestations, SBOMs.

Two ways are read: the referrers list (OCI distribution specification 1.1, end-12, with its tag where a registry has no
such endpoint), and cosign's tags ``sha256-….sig``, ``.att``, ``.sbom``
(https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md). Ours are attached in the first way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from envbuild.core.blob import Blob, blob_of
from envbuild.core.digest import canonical_json
from envbuild.core.progress import Progress, Silent
from envbuild.errors import IntegrityError
from envbuild.registry.errors import AnswerError
from envbuild.registry.repository import OCI_INDEX, OCI_MANIFEST, Manifest, Repository, descriptors
from envbuild.registry.upload import push

Kind = Literal["signature", "attestation", "sbom", "other"]

_COSIGN: Mapping[str, Kind] = {"sig": "signature", "att": "attestation", "sbom": "sbom"}
_WORDS: Sequence[tuple[str, Kind]] = (
    ("cosign/sign/", "signature"),
    ("simplesigning", "signature"),
    ("notary.signature", "signature"),
    ("sigstore.bundle", "signature"),
    ("in-toto", "attestation"),
    ("slsa", "attestation"),
    ("spdx", "sbom"),
    ("cyclonedx", "sbom"),
    ("sbom", "sbom"),
)
_MOST = 1000
"""Referring manifests that are read."""
_TAG = re.compile(r"sha256-[0-9a-f]{64}(?:\.(?:sig|att|sbom))?")
_EMPTY_TYPE = "application/vnd.oci.empty.v1+json"
_EMPTY = blob_of(b"{}")
_STATED = "dev.sigstore.bundle.predicateType"
"""Annotation of what cosign 3 attaches (cosign's specs/BUNDLE_SPEC.md)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Attachment:
    """Something that refers to an image.

    Attributes:
        type: what is stated (an in-toto predicate type), else its artifact type, or the media type of what it holds.
        digest: of its manifest, hexadecimal.
        place: ``referrers`` or the tag.
    """

    kind: Kind
    type: str
    digest: str
    place: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One blob of an artifact, with its media type and annotations."""

    blob: Blob
    media_type: str
    annotations: Mapping[str, str]


def is_attached(tag: str) -> bool:
    """Whether a tag holds what refers to an image, and no image."""
    return _TAG.fullmatch(tag) is not None


def attachments(repository: Repository, digest: str) -> tuple[Attachment, ...]:
    """Return what refers to a manifest (hexadecimal digest), sorted; whether it is genuine is not checked here.

    Raises:
        RegistryError: the registry does not answer.
    """
    found = [_referring(repository, entry) for entry in referrers(repository, digest)]
    for suffix, kind in _COSIGN.items():
        tag = f"sha256-{digest}.{suffix}"
        manifest = repository.manifest(tag)
        if manifest is not None:
            layers = descriptors(manifest, "layers")
            for text in sorted({layer.annotations.get("predicateType") or layer.media_type for layer in layers}):
                stated = _kind(text) if kind == "attestation" else kind
                found.append(Attachment(kind=stated, type=text, digest=manifest.digest, place=tag))
    return tuple(sorted(found, key=lambda item: (item.kind, item.type, item.digest)))


def referrers(repository: Repository, digest: str) -> tuple[Blob, ...]:
    """Return the manifests whose subject is this one (hexadecimal digest).

    Raises:
        IntegrityError: there are more than anybody attaches.
    """
    index = _listed(repository, digest)
    if index is None:
        index = repository.manifest(_fallback(digest))
    found = descriptors(index, "manifests") if index is not None else ()
    if len(found) > _MOST:
        raise IntegrityError(
            f"{repository.reference.name} lists {len(found):,} things that refer to sha256:{digest[:12]}…; expected at "
            f"most {_MOST:,}",
            "each of them would have to be asked for: find out who attaches so many",
        )
    return found


def attach(
    repository: Repository,
    subject: Manifest,
    artifact_type: str,
    parts: Sequence[Part],
    *,
    annotations: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Upload an artifact that refers to a manifest; returns its own. Equal artifacts have equal digests.

    Args:
        subject: what it refers to, which is in the repository.
        artifact_type: a media type.
    """
    document: dict[str, Any] = {
        "artifactType": artifact_type,
        "config": {"digest": f"sha256:{_EMPTY.digest}", "mediaType": _EMPTY_TYPE, "size": _EMPTY.size},
        "layers": [_described(part) for part in parts],
        "mediaType": OCI_MANIFEST,
        "schemaVersion": 2,
        "subject": _reference(subject),
    }
    if annotations:
        document["annotations"] = dict(annotations)
    manifest = Manifest(canonical_json(document), OCI_MANIFEST)
    push(repository, [_EMPTY, *(part.blob for part in parts)], manifest, progress or Silent())
    if _listed(repository, subject.digest) is None:
        _list(repository, subject, manifest, artifact_type, annotations or {})
    return manifest


def _listed(repository: Repository, digest: str) -> Manifest | None:
    """Ask the referrers endpoint; None if the registry has none."""

    def ask() -> Manifest | None:
        try:
            answer = repository.transport.call(
                "GET", f"{repository.path}/referrers/sha256:{digest}", scope=repository.pull_scope, limit=4 << 20
            )
        except AnswerError as error:
            if error.status in (400, 404, 405):
                return None
            raise
        kind = answer.headers.get("content-type", "").partition(";")[0]
        return Manifest(answer.data, OCI_INDEX) if kind == OCI_INDEX else None

    return repository.trying(ask, f"list what refers to {repository.reference.name}")


def _list(
    repository: Repository, subject: Manifest, manifest: Manifest, artifact_type: str, annotations: Mapping[str, str]
) -> None:
    """Add a manifest to the tag that represents the referrers endpoint where there is none (the specification's way).

    Two that do so at once may lose one entry, as the specification allows; the artifacts themselves stay.
    """
    tag = _fallback(subject.digest)
    held = repository.manifest(tag)
    entries = list(held.document.get("manifests") or ()) if held is not None else []
    entry = {**_reference(manifest), "artifactType": artifact_type, "annotations": dict(annotations)}
    if any(isinstance(one, dict) and one.get("digest") == entry["digest"] for one in entries):
        return
    index = {"manifests": [*entries, entry], "mediaType": OCI_INDEX, "schemaVersion": 2}
    repository.put_manifest(Manifest(canonical_json(index), OCI_INDEX), tag)


def _referring(repository: Repository, entry: Blob) -> Attachment:
    """Describe what an entry of the referrers list is; a list may leave out what the manifest itself reports."""
    text, notes = entry.artifact_type, entry.annotations
    if text in ("", _EMPTY_TYPE) or ("sigstore.bundle" in text and _STATED not in notes):
        manifest = repository.manifest(f"sha256:{entry.digest}")
        document = manifest.document if manifest is not None else {}
        text, notes = str(document.get("artifactType") or text), document.get("annotations") or {}
    stated = notes.get(_STATED) if isinstance(notes, dict) else None
    text = str(stated or text)
    return Attachment(kind=_kind(text), type=text, digest=entry.digest, place="referrers")


def _fallback(digest: str) -> str:
    return f"sha256-{digest}"


def _reference(manifest: Manifest) -> dict[str, Any]:
    return {"digest": f"sha256:{manifest.digest}", "mediaType": manifest.media_type, "size": len(manifest.data)}


def _described(part: Part) -> dict[str, Any]:
    described = {"digest": f"sha256:{part.blob.digest}", "mediaType": part.media_type, "size": part.blob.size}
    return {**described, **({"annotations": dict(part.annotations)} if part.annotations else {})}


def _kind(text: str) -> Kind:
    lower = text.lower()
    return next((kind for word, kind in _WORDS if word in lower), "other")
