"""A lock's files as one artifact of an OCI image layout or registry, so that any tool for those can copy it.

The artifact's configuration is the lock; its blobs are the lock's files under the digests the lock has for them, and,
if asked for, layers made of them. Source: OCI image specification 1.1, manifest.md, "Guidelines for artifact usage".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envbuild.core.digest import SHA256, canonical_json, sha256_bytes
from envbuild.errors import IntegrityError
from envbuild.lockfile.model import Lock, dumps, lock_digest
from envbuild.store.fetch import lock_items
from envbuild.store.objects import Store

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
ARTIFACT = "application/vnd.envbuild.store.v1"
LOCK = "application/vnd.envbuild.lock.v1+toml"
FILE = "application/octet-stream"
LAYER = "application/vnd.oci.image.layer.v1.tar"
CONFIG = "application/vnd.oci.image.config.v1+json"
BESIDE = "application/vnd.envbuild.layer.v1+json"
_TITLE = "org.opencontainers.image.title"
_KEY = "envbuild.layer"


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """A blob of an artifact.

    Attributes:
        digest: SHA-256, hexadecimal.
        size: bytes.
        kind: its media type.
        title: a file's name.
        key: of the layer it belongs to; empty for a lock's files.
        path: the file that holds it, where it is here; ``data``: it itself.
    """

    digest: str
    size: int
    kind: str = FILE
    title: str = ""
    key: str = ""
    path: Path | None = field(default=None, compare=False)
    data: bytes = field(default=b"", compare=False)

    @property
    def descriptor(self) -> dict[str, Any]:
        """What a manifest says of it."""
        notes = {name: value for name, value in ((_TITLE, self.title), (_KEY, self.key)) if value}
        found: dict[str, Any] = {"digest": f"sha256:{self.digest}", "mediaType": self.kind, "size": self.size}
        return {**found, "annotations": notes} if notes else found


def piece_of(data: bytes, kind: str, *, title: str = "", key: str = "") -> Piece:
    """Return a blob of these bytes."""
    return Piece(digest=sha256_bytes(data), size=len(data), kind=kind, title=title, key=key, data=data)


@dataclass(frozen=True, kw_only=True, slots=True)
class Artifact:
    """A lock and its blobs, the lock first."""

    lock: Piece
    pieces: tuple[Piece, ...]

    @property
    def manifest(self) -> bytes:
        """The manifest's bytes: equal artifacts have equal ones."""
        return canonical_json(
            {
                "annotations": {_TITLE: self.lock.title},
                "artifactType": ARTIFACT,
                "config": self.lock.descriptor,
                "layers": [piece.descriptor for piece in self.pieces],
                "mediaType": MANIFEST,
                "schemaVersion": 2,
            }
        )


def tag_of(lock: Lock) -> str:
    """Return the name of a lock's artifact: the lock's name, and enough of its digest to tell locks apart."""
    return f"{lock.name}-{lock_digest(lock)[:12]}"


def files_of(lock: Lock) -> tuple[Piece, ...]:
    """List a lock's files, each once."""
    found = {item.sha256: Piece(digest=item.sha256, size=item.size, title=item.name) for item in lock_items(lock)}
    return tuple(found.values())


def artifact_of(lock: Lock, store: Store, more: Sequence[Piece] = ()) -> Artifact:
    """Describe what of a lock is to be copied; ``more`` are layers and what belongs to them.

    Raises:
        IntegrityError: files are not in the store, all of them named.
    """
    files = files_of(lock)
    absent = sorted(piece.title for piece in files if not store.has(piece.digest, piece.size))
    if absent:
        names = "".join(f"\n  {name}" for name in absent)
        raise IntegrityError(f"{len(absent)} files are not in the store {store.root}{names}", "run: envbuild fetch")
    held = (
        Piece(digest=piece.digest, size=piece.size, title=piece.title, path=store.path(piece.digest)) for piece in files
    )
    return Artifact(lock=piece_of(dumps(lock), LOCK, title=lock.file_name), pieces=(*held, *more))


def read_artifact(data: bytes, source: str) -> Artifact | None:
    """Read a manifest; None if it is of something else.

    Raises:
        IntegrityError: it is damaged.
    """
    try:
        found = json.loads(data)
        if not isinstance(found, dict) or found.get("artifactType") != ARTIFACT:
            return None
        return Artifact(lock=_piece(found["config"]), pieces=tuple(map(_piece, found["layers"])))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise IntegrityError(f"{source} is no sound manifest of a store's files", "push it there again") from None


def _piece(entry: Mapping[str, Any]) -> Piece:
    digest, size, notes = str(entry["digest"]), entry["size"], entry.get("annotations") or {}
    name = digest.removeprefix("sha256:")
    if not digest.startswith("sha256:") or not SHA256.fullmatch(name) or not isinstance(size, int) or size < 0:
        raise ValueError(digest)
    title, key = str(notes.get(_TITLE, "")), str(notes.get(_KEY, ""))
    return Piece(digest=name, size=size, kind=str(entry.get("mediaType")), title=title, key=key)
