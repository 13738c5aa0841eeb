"""Where ``store push`` and ``store pull`` copy to and from: a folder, or a repository of a registry."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Protocol

from envbuild.cli.console import Console
from envbuild.errors import UsageError
from envbuild.store.bundle import MANIFEST, Artifact, Piece
from envbuild.store.bundle_folder import Folder, Moved
from envbuild.store.objects import Store

_SCHEME = "oci://"


class Place(Protocol):
    """Holds artifacts by tag. All methods raise ``EnvbuildError`` if the place does not answer or is damaged."""

    def push(self, artifact: Artifact, tag: str, console: Console) -> Moved:
        """Copy what the place lacks."""

    def pull(self, pieces: Sequence[Piece], store: Store, console: Console) -> None:
        """Bring blobs into the store, checked; blobs that it has are left alone."""

    def held(self, pieces: Sequence[Piece]) -> list[Piece]:
        """Return those that the place has."""

    def manifest(self, tag: str) -> bytes | None:
        """Return the manifest of a tag, or None."""

    def tags(self) -> Sequence[str]:
        """List what the place has."""

    def read(self, digest: str, limit: int) -> bytes:
        """Return a small blob, checked."""


def open_place(text: str, *, exists: bool = False) -> AbstractContextManager[Place]:
    """Open ``oci://HOST[:PORT]/REPOSITORY`` or a folder, which must be there if it is read from (``exists``).

    Raises:
        UsageError: it is neither, or not there.
    """
    if not text.startswith(_SCHEME):
        if "://" in text:
            raise UsageError(f"{text}: expected a folder or {_SCHEME}HOST/REPOSITORY", "e.g. /mnt/share/envbuild")
        if exists and not Path(text).is_dir():
            raise UsageError(f"there is no folder {text}", f"fill one: envbuild store push {shlex.quote(text)}")
        return nullcontext(FolderPlace(Folder(Path(text))))
    return RegistryPlace(text)


class FolderPlace:
    """A folder."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self.manifest = folder.manifest
        self.tags = folder.tags
        self.read = folder.read

    def push(self, artifact: Artifact, tag: str, console: Console) -> Moved:
        """Write what the folder lacks."""
        return self._folder.push(artifact, tag, console)

    def pull(self, pieces: Sequence[Piece], store: Store, console: Console) -> None:
        """Fetch from the folder as from any other."""
        from envbuild.net.config import NetworkConfig
        from envbuild.store.fetch import Item, fetch

        items = [
            Item(
                name=piece.title or piece.digest,
                size=piece.size,
                sha256=piece.digest,
                sources=(str(self._folder.path(piece.digest).absolute()),),
            )
            for piece in pieces
        ]
        fetch(items, store, console, NetworkConfig())

    def held(self, pieces: Sequence[Piece]) -> list[Piece]:
        """Look for the files."""
        return [piece for piece in pieces if self._folder.has(piece)]


class RegistryPlace:
    """A repository of a registry."""

    def __init__(self, text: str) -> None:
        from envbuild.net.config import network_config
        from envbuild.registry.reference import parse_reference
        from envbuild.registry.repository import Repository

        reference = parse_reference(text.removeprefix(_SCHEME))
        if reference.target:
            raise UsageError(f"{text}: expected a repository without tag", f"{_SCHEME}{reference.name}")
        self._repository = Repository(reference, network_config())

    def __enter__(self) -> RegistryPlace:
        """Return the place."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close idle connections."""
        self._repository.close()

    def push(self, artifact: Artifact, tag: str, console: Console) -> Moved:
        """Upload what the repository lacks."""
        from envbuild.registry.repository import Manifest
        from envbuild.registry.upload import Blob, push

        pieces = {piece.digest: piece for piece in (*artifact.pieces, artifact.lock)}.values()
        blobs = [Blob(digest=piece.digest, size=piece.size, path=piece.path, data=piece.data) for piece in pieces]
        pushed = push(self._repository, blobs, Manifest(artifact.manifest, MANIFEST), console, tag=tag)
        return Moved(sent=pushed.uploaded, bytes=pushed.sent, held=pushed.held + pushed.mounted)

    def pull(self, pieces: Sequence[Piece], store: Store, console: Console) -> None:
        """Download into the store."""
        from envbuild.registry.download import pull_blobs
        from envbuild.registry.repository import Descriptor

        blobs = [
            Descriptor(media_type=piece.kind, digest=piece.digest, size=piece.size, annotations={}) for piece in pieces
        ]
        pull_blobs(self._repository, blobs, store, console)

    def held(self, pieces: Sequence[Piece]) -> list[Piece]:
        """Ask for each one, several at once."""
        with ThreadPoolExecutor(8) as pool:
            sizes = pool.map(lambda piece: self._repository.blob_size(piece.digest), pieces)
            return [piece for piece, size in zip(pieces, sizes, strict=True) if size in (piece.size, -1)]

    def manifest(self, tag: str) -> bytes | None:
        """Ask for a tag."""
        found = self._repository.manifest(tag)
        return None if found is None else found.data

    def tags(self) -> Sequence[str]:
        """List all tags; some may be of other things."""
        return self._repository.tags()

    def read(self, digest: str, limit: int) -> bytes:
        """Download a small blob."""
        return self._repository.read_blob(digest, limit)
