"""A lock's files as one artifact of an OCI image layout or registry, so that any tool for those can copy it.

The artifact's configuration is the lock; its blobs are the lock's files under the digests the lock has for them, and,
if asked for, layers made of them. Source: OCI image specification 1.1, manifest.md, "Guidelines for artifact usage".
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from envbuild.core.blob import OCTETS, Blob, blob_of
from envbuild.core.digest import SHA256, canonical_json, sha256_bytes
from envbuild.core.foreign_json import parse_json
from envbuild.core.fs import atomic_file, atomic_write, clone, locked, read_regular
from envbuild.core.progress import Progress
from envbuild.errors import IntegrityError
from envbuild.lockfile.model import Lock, dumps, lock_digest
from envbuild.store.fetch import lock_items
from envbuild.store.objects import Store, not_written

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
ARTIFACT = "application/vnd.envbuild.store.v1"
LOCK = "application/vnd.envbuild.lock.v1+toml"
FILE = OCTETS
LAYER = "application/vnd.oci.image.layer.v1.tar"
CONFIG = "application/vnd.oci.image.config.v1+json"
_TITLE = "org.opencontainers.image.title"
_KEY = "envbuild.layer"
_NAME = "org.opencontainers.image.ref.name"
_INDEX = "application/vnd.oci.image.index.v1+json"
_OF_ARTIFACT = re.compile(r".+-[0-9a-f]{12}")
"""What ``tag_of`` makes."""
_CHUNK = 1 << 20
_INDEX_LIMIT = 16 << 20
"""Bytes of a folder's index: some sixty thousand artifacts."""


def title_of(blob: Blob) -> str:
    """Return a file's name, as a manifest has it; empty if it has none."""
    return blob.annotations.get(_TITLE, "")


def annotated(title: str = "", key: str = "") -> dict[str, str]:
    """Return what a manifest adds to a blob: its name, and the key of its layer."""
    return {name: value for name, value in ((_TITLE, title), (_KEY, key)) if value}


@dataclass(frozen=True, kw_only=True, slots=True)
class Artifact:
    """A lock and its blobs, the lock first."""

    lock: Blob
    blobs: tuple[Blob, ...]

    @property
    def manifest(self) -> bytes:
        """The manifest's bytes: equal artifacts have equal ones."""
        return canonical_json(
            {
                "annotations": {_TITLE: title_of(self.lock)},
                "artifactType": ARTIFACT,
                "config": _descriptor(self.lock),
                "layers": [_descriptor(blob) for blob in self.blobs],
                "mediaType": MANIFEST,
                "schemaVersion": 2,
            }
        )


def tag_of(lock: Lock) -> str:
    """Return the name of a lock's artifact: the lock's name, and enough of its digest to distinguish locks."""
    return f"{lock.name}-{lock_digest(lock)[:12]}"


def without_artifacts(tags: Iterable[str]) -> list[str]:
    """Return the tags of a repository that are not named like artifacts of locks; all of them if each is."""
    found = list(tags)
    return [tag for tag in found if not _OF_ARTIFACT.fullmatch(tag)] or found


def files_of(lock: Lock) -> tuple[Blob, ...]:
    """List a lock's files, each once."""
    found = {
        item.sha256: Blob(digest=item.sha256, size=item.size, annotations=annotated(item.name))
        for item in lock_items(lock)
    }
    return tuple(found.values())


def artifact_of(lock: Lock, store: Store, more: Sequence[Blob] = ()) -> Artifact:
    """Describe what of a lock is to be copied; ``more`` are layers and what belongs to them.

    Raises:
        IntegrityError: files are not in the store, all of them named.
    """
    files = files_of(lock)
    absent = sorted(title_of(blob) for blob in files if not store.has(blob.digest, blob.size))
    if absent:
        names = "".join(f"\n  {name}" for name in absent)
        raise IntegrityError(f"{len(absent)} files are not in the store {store.root}{names}", "run: envbuild fetch")
    held = (msgspec.structs.replace(blob, path=store.path(blob.digest)) for blob in files)
    return Artifact(lock=blob_of(dumps(lock), LOCK, annotated(lock.file_name)), blobs=(*held, *more))


def read_artifact(data: bytes, source: str) -> Artifact | None:
    """Read a manifest; None if it is of something else.

    Raises:
        IntegrityError: it is damaged.
    """
    try:
        found = parse_json(data)
        if not isinstance(found, dict) or found.get("artifactType") != ARTIFACT:
            return None
        return Artifact(lock=_blob(found["config"]), blobs=tuple(map(_blob, found["layers"])))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise IntegrityError(f"{source} is no sound manifest of a store's files", "push it there again") from None


def _descriptor(blob: Blob) -> dict[str, Any]:
    found: dict[str, Any] = {"digest": f"sha256:{blob.digest}", "mediaType": blob.media_type, "size": blob.size}
    return {**found, "annotations": dict(blob.annotations)} if blob.annotations else found


def _notes(entry: Mapping[str, Any]) -> Any:
    """Return the annotations of an index's entry, which should be an object."""
    return entry.get("annotations") or {}


def _blob(entry: Mapping[str, Any]) -> Blob:
    digest, size, notes = str(entry["digest"]), entry["size"], entry.get("annotations") or {}
    name = digest.removeprefix("sha256:")
    if not digest.startswith("sha256:") or not SHA256.fullmatch(name) or not isinstance(size, int) or size < 0:
        raise ValueError(digest)
    kept = annotated(str(notes.get(_TITLE, "")), str(notes.get(_KEY, "")))
    return Blob(digest=name, size=size, media_type=str(entry.get("mediaType")), annotations=kept)


@dataclass(kw_only=True, slots=True)
class Moved:
    """What a copy did: blobs written, their bytes, blobs that were there."""

    sent: int = 0
    bytes: int = 0
    held: int = 0


@dataclass(frozen=True, slots=True)
class BundleFolder:
    """A folder that carries locks' files from store to store: an OCI image layout; made when something is written.

        <folder>/oci-layout, index.json   which artifacts there are
        <folder>/blobs/sha256/<digest>    files, manifests, locks

    Any number of locks share it, and any number of commands may write it at once. What is there already is not written
    again, so that an interrupted push continues where it was. Source: OCI image specification 1.1, image-layout.md.
    """

    root: Path

    def path(self, digest: str) -> Path:
        """Return where a blob is, or would be; raises ``ValueError`` if that is no SHA-256."""
        if not SHA256.fullmatch(digest):
            raise ValueError(f"not a lower-case hexadecimal SHA-256: {digest!r}")
        return self.root / "blobs" / "sha256" / digest

    def has(self, blob: Blob) -> bool:
        """Whether a blob is there with the right size; its bytes are checked by the reader."""
        with suppress(OSError):
            return self.path(blob.digest).stat().st_size == blob.size
        return False

    def push(self, artifact: Artifact, tag: str, progress: Progress) -> Moved:
        """Write what the folder lacks of an artifact, then its name: nobody ever sees half of one.

        Raises:
            IntegrityError: a file does not match its digest.
            BuildError, UsageError: as for ``not_written``.
        """
        moved = Moved()
        data = artifact.manifest
        manifest = blob_of(data, MANIFEST)
        blobs = (*artifact.blobs, artifact.lock, manifest)
        with progress.phase("push", sum(blob.size for blob in blobs)) as advance:
            for blob in blobs:
                if self.has(blob):
                    moved.held += 1
                    advance(blob.size)
                    continue
                self._write(blob, advance)
                moved.sent += 1
                moved.bytes += blob.size
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
            if _notes(entry).get(_NAME) == tag:
                digest = str(entry.get("digest", "")).removeprefix("sha256:")
                return self.read(digest, 4 << 20)
        return None

    def tags(self) -> list[str]:
        """Return the names of all artifacts of this kind."""
        named = (entry for entry in self._entries() if entry.get("artifactType") == ARTIFACT)
        return sorted(str(_notes(entry).get(_NAME, "")) for entry in named)

    def read(self, digest: str, limit: int) -> bytes:
        """Return a small blob, checked.

        Raises:
            IntegrityError: it is not there, too large, or has other bytes.
        """
        with suppress(OSError, ValueError):
            data = read_regular(self.path(digest), limit)
            if sha256_bytes(data) == digest:
                return data
        raise IntegrityError(f"{self.root} is damaged: sha256 {digest[:64]}", "push it there again")

    def _entries(self) -> list[dict[str, Any]]:
        path = self.root / "index.json"
        try:
            found = parse_json(read_regular(path, _INDEX_LIMIT))["manifests"]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, KeyError, TypeError):
            raise IntegrityError(f"{path} is no index of an OCI image layout", "name another folder") from None
        entries = found if isinstance(found, list) else []
        return [entry for entry in entries if isinstance(entry, dict) and isinstance(_notes(entry), dict)]

    def _name(self, manifest: Blob, tag: str) -> None:
        """Put an artifact into the index; the folder's lock is held."""
        others = [entry for entry in self._entries() if _notes(entry).get(_NAME) != tag]
        entry = {
            "annotations": {_NAME: tag},
            "artifactType": ARTIFACT,
            "digest": f"sha256:{manifest.digest}",
            "mediaType": MANIFEST,
            "size": manifest.size,
        }
        index = {"manifests": [*others, entry], "mediaType": _INDEX, "schemaVersion": 2}
        atomic_write(self.root / "index.json", canonical_json(index))

    def _write(self, blob: Blob, advance: Callable[[int], None]) -> None:
        target = self.path(blob.digest)
        with self._explained(target), atomic_file(target) as stream:
            if blob.path is None:
                stream.write(blob.data)
                advance(blob.size)
            else:
                with blob.path.open("rb") as source:
                    copy_checked(source, stream, blob, advance)

    @contextmanager
    def _explained(self, target: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise not_written(target, error) from error


def copy_checked(
    source: BinaryIO, target: BinaryIO, blob: Blob, advance: Callable[[int], None] = lambda amount: None
) -> None:
    """Copy a file, sharing its blocks where the file system can, reading and hashing it once.

    Raises:
        IntegrityError: its bytes are not those of the blob.
    """
    shared = clone(source, target)
    digest = hashlib.sha256()
    while chunk := source.read(_CHUNK):
        digest.update(chunk)
        if not shared:
            target.write(chunk)
        advance(len(chunk))
    if digest.hexdigest() != blob.digest:
        raise IntegrityError(
            f"{title_of(blob) or blob.digest} is damaged in the store: expected sha256 {blob.digest}, "
            f"found {digest.hexdigest()}",
            "find and replace what is damaged: envbuild store verify",
        )
