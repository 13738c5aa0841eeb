"""A folder that carries locks' files from store to store: an OCI image layout.

    <folder>/oci-layout, index.json   which artifacts there are
    <folder>/blobs/sha256/<digest>    files, manifests, locks

Any number of locks share it, and any number of commands may write it at once. What is there already is not written
again, so that a push that was interrupted goes on where it was. Source: OCI image specification 1.1, image-layout.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from envbuild.core.digest import SHA256, canonical_json, sha256_bytes
from envbuild.core.fs import atomic_file, atomic_write, clone, locked
from envbuild.core.progress import Progress
from envbuild.errors import IntegrityError
from envbuild.store.bundle import ARTIFACT, MANIFEST, Artifact, Piece

_NAME = "org.opencontainers.image.ref.name"
_INDEX = "application/vnd.oci.image.index.v1+json"
_CHUNK = 1 << 20


@dataclass(kw_only=True, slots=True)
class Moved:
    """What a copy did: blobs written, their bytes, blobs that were there."""

    sent: int = 0
    bytes: int = 0
    held: int = 0


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder; made when something is written."""

    root: Path

    def path(self, digest: str) -> Path:
        """Return where a blob is, or would be; raises ``ValueError`` if that is no SHA-256."""
        if not SHA256.fullmatch(digest):
            raise ValueError(f"not a lower-case hexadecimal SHA-256: {digest!r}")
        return self.root / "blobs" / "sha256" / digest

    def has(self, piece: Piece) -> bool:
        """Whether a blob is there with the right size; its bytes are checked by whoever reads it."""
        with suppress(OSError):
            return self.path(piece.digest).stat().st_size == piece.size
        return False

    def push(self, artifact: Artifact, tag: str, progress: Progress) -> Moved:
        """Write what the folder lacks of an artifact, then its name: nobody ever sees half of one.

        Raises:
            IntegrityError: a file is not what its digest says, or the folder cannot be written.
        """
        moved = Moved()
        data = artifact.manifest
        manifest = Piece(digest=sha256_bytes(data), size=len(data), data=data)
        pieces = (*artifact.pieces, artifact.lock, manifest)
        with progress.phase("push", sum(piece.size for piece in pieces)) as advance:
            for piece in pieces:
                if self.has(piece):
                    moved.held += 1
                    advance(piece.size)
                    continue
                self._write(piece, advance)
                moved.sent += 1
                moved.bytes += piece.size
        with self._explained(self.root / "index.json"), locked(self.root / ".lock"):
            atomic_write(self.root / "oci-layout", canonical_json({"imageLayoutVersion": "1.0.0"}))
            self._name(manifest, tag)
        return moved

    def manifest(self, tag: str) -> bytes | None:
        """Return the manifest of a name, checked against the index; None if there is none.

        Raises:
            IntegrityError: the folder is damaged.
        """
        for entry in self._entries():
            if (entry.get("annotations") or {}).get(_NAME) == tag:
                digest = str(entry.get("digest", "")).removeprefix("sha256:")
                return self.read(digest, 4 << 20)
        return None

    def tags(self) -> list[str]:
        """Return the names of all artifacts of this kind."""
        named = (entry for entry in self._entries() if entry.get("artifactType") == ARTIFACT)
        return sorted(str((entry.get("annotations") or {}).get(_NAME, "")) for entry in named)

    def read(self, digest: str, limit: int) -> bytes:
        """Return a small blob, checked.

        Raises:
            IntegrityError: it is not there, too large, or has other bytes.
        """
        with suppress(OSError, ValueError), self.path(digest).open("rb") as stream:
            data = stream.read(limit + 1)
            if len(data) <= limit and sha256_bytes(data) == digest:
                return data
        raise IntegrityError(f"{self.root} is damaged: sha256 {digest[:64]}", "push it there again")

    def _entries(self) -> list[dict[str, Any]]:
        path = self.root / "index.json"
        try:
            found = json.loads(path.read_bytes())["manifests"]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, KeyError, TypeError):
            raise IntegrityError(f"{path} is no index of an OCI image layout", "name another folder") from None
        return [entry for entry in found if isinstance(entry, dict)]

    def _name(self, manifest: Piece, tag: str) -> None:
        """Put an artifact into the index; the folder's lock is held."""
        others = [entry for entry in self._entries() if (entry.get("annotations") or {}).get(_NAME) != tag]
        entry = {
            "annotations": {_NAME: tag},
            "artifactType": ARTIFACT,
            "digest": f"sha256:{manifest.digest}",
            "mediaType": MANIFEST,
            "size": manifest.size,
        }
        index = {"manifests": [*others, entry], "mediaType": _INDEX, "schemaVersion": 2}
        atomic_write(self.root / "index.json", canonical_json(index))

    def _write(self, piece: Piece, advance: Callable[[int], None]) -> None:
        target = self.path(piece.digest)
        with self._explained(target), atomic_file(target) as stream:
            if piece.path is None:
                stream.write(piece.data)
                advance(piece.size)
            else:
                with piece.path.open("rb") as source:
                    copy_checked(source, stream, piece, advance)

    @contextmanager
    def _explained(self, target: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise IntegrityError(f"cannot write {target}: {error.strerror}", "choose another folder") from error


def copy_checked(
    source: BinaryIO, target: BinaryIO, piece: Piece, advance: Callable[[int], None] = lambda amount: None
) -> None:
    """Copy a file, sharing its blocks where the file system can, reading and hashing it once.

    Raises:
        IntegrityError: its bytes are not those of the piece.
    """
    shared = clone(source, target)
    digest = hashlib.sha256()
    while chunk := source.read(_CHUNK):
        digest.update(chunk)
        if not shared:
            target.write(chunk)
        advance(len(chunk))
    if digest.hexdigest() != piece.digest:
        raise IntegrityError(
            f"{piece.title or piece.digest} is damaged in the store: expected sha256 {piece.digest}, "
            f"found {digest.hexdigest()}",
            "find and replace what is damaged: envbuild store verify",
        )
