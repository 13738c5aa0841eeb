"""Where a lock's files are copied to and from: a folder, or a repository of a registry."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Protocol

from envbuild.core.blob import Blob
from envbuild.core.progress import Progress
from envbuild.errors import UsageError
from envbuild.store.bundle import MANIFEST, Artifact, BundleFolder, Moved, title_of
from envbuild.store.objects import Store

_SCHEME = "oci://"


class StoreRemote(Protocol):
    """Holds artifacts by tag. All methods raise ``EnvbuildError`` if it does not answer or is damaged."""

    def push(self, artifact: Artifact, tag: str, progress: Progress) -> Moved:
        """Copy what the remote lacks."""

    def pull(self, blobs: Sequence[Blob], store: Store, progress: Progress) -> None:
        """Bring blobs into the store, checked; blobs that it has are left alone."""

    def held(self, blobs: Sequence[Blob]) -> list[Blob]:
        """Return those that the remote has."""

    def manifest(self, tag: str) -> bytes | None:
        """Return the manifest of a tag, or None."""

    def tags(self) -> Sequence[str]:
        """List what the remote has."""

    def read(self, digest: str, limit: int) -> bytes:
        """Return a small blob, checked."""


def open_remote(text: str, *, exists: bool = False) -> AbstractContextManager[StoreRemote]:
    """Open ``oci://HOST[:PORT]/REPOSITORY`` or a folder, which must be there if it is read from (``exists``).

    Raises:
        UsageError: it is neither, or not there.
    """
    if not text.startswith(_SCHEME):
        if "://" in text:
            raise UsageError(f"{text}: expected a folder or {_SCHEME}HOST/REPOSITORY", "e.g. /mnt/share/envbuild")
        if exists and not Path(text).is_dir():
            raise UsageError(f"there is no folder {text}", f"fill one: envbuild store push {shlex.quote(text)}")
        return nullcontext(FolderRemote(BundleFolder(Path(text))))
    return RegistryRemote(text)


class FolderRemote:
    """A folder."""

    def __init__(self, folder: BundleFolder) -> None:
        self._folder = folder
        self.push = folder.push
        self.manifest = folder.manifest
        self.tags = folder.tags
        self.read = folder.read

    def pull(self, blobs: Sequence[Blob], store: Store, progress: Progress) -> None:
        """Fetch from the folder as from any other."""
        from envbuild.net.config import NetworkConfig
        from envbuild.store.fetch import Item, fetch

        items = [
            Item(
                name=title_of(blob) or blob.digest,
                size=blob.size,
                sha256=blob.digest,
                sources=(str(self._folder.path(blob.digest).absolute()),),
            )
            for blob in blobs
        ]
        fetch(items, store, progress, NetworkConfig())

    def held(self, blobs: Sequence[Blob]) -> list[Blob]:
        """Look for the files."""
        return [blob for blob in blobs if self._folder.has(blob)]


class RegistryRemote:
    """A repository of a registry."""

    def __init__(self, text: str) -> None:
        from envbuild.net.config import network_config
        from envbuild.registry.reference import parse_reference
        from envbuild.registry.repository import Repository

        reference = parse_reference(text.removeprefix(_SCHEME))
        if reference.target:
            raise UsageError(f"{text}: expected a repository without tag", f"{_SCHEME}{reference.name}")
        self._repository = Repository(reference, network_config())
        self.tags = self._repository.tags
        self.read = self._repository.read_blob

    def __enter__(self) -> RegistryRemote:
        """Return the remote."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close idle connections."""
        self._repository.close()

    def push(self, artifact: Artifact, tag: str, progress: Progress) -> Moved:
        """Upload what the repository lacks."""
        from envbuild.registry.repository import Manifest
        from envbuild.registry.upload import push

        pushed = push(
            self._repository,
            (*artifact.blobs, artifact.lock),
            Manifest(artifact.manifest, MANIFEST),
            progress,
            tag=tag,
        )
        return Moved(sent=pushed.uploaded, bytes=pushed.sent, held=pushed.held + pushed.mounted)

    def pull(self, blobs: Sequence[Blob], store: Store, progress: Progress) -> None:
        """Download into the store."""
        from envbuild.registry.download import pull_blobs

        pull_blobs(self._repository, blobs, store, progress)

    def held(self, blobs: Sequence[Blob]) -> list[Blob]:
        """Ask for each one, several at once."""
        with ThreadPoolExecutor(8) as pool:
            sizes = pool.map(lambda blob: self._repository.blob_size(blob.digest), blobs)
            return [blob for blob, size in zip(blobs, sizes, strict=True) if size in (blob.size, -1)]

    def manifest(self, tag: str) -> bytes | None:
        """Ask for a tag."""
        found = self._repository.manifest(tag)
        return None if found is None else found.data
