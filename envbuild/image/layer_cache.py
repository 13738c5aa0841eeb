"""Layers kept between builds: one folder per layer, named by the digest of all it depends on, whole or absent.

A layer's bytes are a tar in that folder, or the tree of the local engine that has its diff ID, or both: a build for the
local engine writes trees alone, and whoever wants a tar has it made from the tree, byte for byte the same.
"""

from __future__ import annotations

import hashlib
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from envbuild.core.blob import FileBlob
from envbuild.core.digest import canonical_json, sha256_file, sha256_stream
from envbuild.core.foreign_json import parse_json
from envbuild.core.fs import NOT_WRITABLE, atomic_file, atomic_write, way_out
from envbuild.errors import BuildError, UsageError
from envbuild.image.tar.layer import Layer
from envbuild.image.tar.members import read_members
from envbuild.image.tar.sink import write_all

TAR = "layer.tar"
_LAYER = "layer.json"
_BOOT = "boot"
KIND = "layers"
"""What a store calls the folders of layers."""


class Cache(Protocol):
    """What assembly needs of the store: files by digest, and folders that are made once per key, whole or absent."""

    def path(self, sha256: str) -> Path:
        """Return where the file with this digest is."""

    def derived(self, kind: str, key: str) -> Path | None:
        """Return the folder made for ``key``, or None."""

    def derive(self, kind: str, key: str, make: Callable[[Path], None]) -> Path:
        """Return the folder for ``key``, letting ``make`` fill an empty one if there is none yet."""

    def forget(self, kind: str, key: str) -> None:
        """Remove the folder made for ``key``."""


class TreeOutput(Protocol):
    """Unpacks a layer from the bytes of its tar."""

    def write(self, piece: bytes | bytearray | memoryview) -> int:
        """Take the next bytes; raises ``BuildError`` or ``OSError``."""

    def keep(self, diff_id: str) -> None:
        """Keep what came as the tree of the layer with this diff ID."""


class LayerTrees(Protocol):
    """What is needed of the local engine's trees, by diff ID."""

    def holds(self, diff_id: str) -> bool:
        """Whether a layer's tree is there; the first time after a restart of the machine it is read and compared."""

    def writer(self, key: str) -> AbstractContextManager[TreeOutput]:
        """Give what makes a tree, which is kept or gone at the end; ``key`` names the work."""

    def tar_of(self, diff_id: str) -> Iterator[bytes]:
        """Yield a tar; raises ``OSError``, ``ValueError``, ``zlib.error`` or ``BuildError`` if the tree is damaged."""

    def file_names(self, diff_id: str) -> Iterator[str]:
        """Yield the paths of all that are no folders; raises as ``tar_of`` does."""

    def path(self, diff_id: str) -> Path:
        """Return the folder with a layer's files."""

    def forget(self, diff_id: str) -> None:
        """Remove a layer's tree."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """Where a layer that is made goes.

    Attributes:
        folder: for notes of it and temporary files; kept with the layer.
        tree: takes the layer's tar; None: it goes into the folder as ``TAR``.
    """

    folder: Path
    tree: TreeOutput | None = None

    def stream(self) -> BinaryIO | None:
        """Return what takes the tar's bytes if that is no file."""
        return cast("BinaryIO | None", self.tree)

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open what takes the tar's bytes."""
        if (stream := self.stream()) is not None:
            yield stream
            return
        with (self.folder / TAR).open("wb", buffering=0) as stream:
            yield stream


class Layers:
    """The layers of a store.

    Args:
        cache: the store.
        boot: identifies this run of the machine; empty if unknown, and every tar is read before it is used.
        trees: the local engine's; None: there are none, and none are looked for.
        unpacked: new layers are made as trees, and those that are one already need no tar.
    """

    def __init__(self, cache: Cache, boot: str, trees: LayerTrees | None = None, *, unpacked: bool = False) -> None:
        self._cache, self._boot, self._trees = cache, boot, trees
        self._target = trees if unpacked else None

    def find(self, key: str) -> FileBlob | None:
        """Return a layer that an earlier build made, or None; its tar is there unless trees are enough.

        Layers are not synced to the disk when they are made, which would double a build's time: after a restart of the
        machine, the first use of each one reads and hashes it, and drops it if a power cut has damaged it.
        """
        folder = self._cache.derived(KIND, key)
        if folder is None:
            return None
        blob = _read(folder)
        if self._target is not None and self._target.holds(blob.digest):
            return blob
        if self._has_tar(blob):
            return blob
        if self._trees is not None and self._trees.holds(blob.digest):
            if self._made_from_tree(blob):
                return blob
            self._trees.forget(blob.digest)
        self._cache.forget(KIND, key)
        return None

    def make(self, key: str, pack: Callable[[Target], Layer]) -> FileBlob:
        """Return the layer for ``key``, made now if need be.

        Args:
            pack: writes the layer's tar to where ``Target`` opens; may leave other files in its folder.

        Raises:
            BuildError: the disk is full. Whatever ``pack`` raises passes through, and nothing is left behind.
        """

        def fill(folder: Path) -> Layer:
            if self._target is None:
                return pack(Target(folder=folder))
            with self._target.writer(key) as tree:
                layer = pack(Target(folder=folder, tree=tree))
                tree.keep(layer.diff_id)
                return layer

        if (found := self.find(key)) is not None:
            return found
        blob = make_layer(self._cache, key, self._boot, fill)
        if self._target is None:
            self.tar(blob)  # another build may have made it meanwhile, as a tree
        return blob

    def tar(self, blob: FileBlob) -> Path:
        """Return the tar of a layer that ``find`` or ``make`` returned; made from its tree if need be.

        Raises:
            BuildError: the tree is damaged, which is removed; or the disk is full.
            UsageError: the store may not be written.
        """
        if not blob.path.exists() and not (self._trees is not None and self._made_from_tree(blob)):
            if self._trees is not None:
                self._trees.forget(blob.digest)
            raise BuildError(f"the layer {blob.digest[:12]}… was damaged in the store; removed", "build again")
        return blob.path

    def tar_of(self, blob: FileBlob) -> Iterator[bytes]:
        """Yield the tar of a layer that ``find`` or ``make`` returned, without making one.

        Raises:
            OSError, ValueError, zlib.error, BuildError: it is damaged.
        """
        if self._trees is not None and not blob.path.exists():
            yield from self._trees.tar_of(blob.digest)
            return
        with blob.path.open("rb") as stream:
            while chunk := stream.read(1 << 20):
                yield chunk

    def file_names(self, blob: FileBlob) -> Iterator[str]:
        """Yield the paths of all entries of a layer that are no folders; raises ``BuildError`` if it is damaged."""
        if blob.path.exists() or self._trees is None:
            return names_in(blob.path)
        return self._trees.file_names(blob.digest)

    def unpacked(self, blob: FileBlob) -> Path | None:
        """Return the folder with the files of a layer that has no tar; None if it has one."""
        return None if self._trees is None or blob.path.exists() else self._trees.path(blob.digest)

    def tree(self, blob: FileBlob) -> Path | None:
        """Return the folder with the files of a layer, if there is one that can be relied on without reading it."""
        return None if self._trees is None or not self._trees.holds(blob.digest) else self._trees.path(blob.digest)

    def _has_tar(self, blob: FileBlob) -> bool:
        """Whether a layer's tar is there and sound; one that a power cut has damaged is removed."""
        try:
            if blob.path.stat().st_size == blob.size:
                place = blob.path.with_name(_BOOT)
                if self._boot and place.read_text().strip() == self._boot:
                    return True
                if sha256_file(blob.path) == blob.digest:
                    atomic_write(place, self._boot.ljust(36).encode(), sync=False)
                    return True
        except FileNotFoundError:
            return False
        blob.path.unlink(missing_ok=True)
        return False

    def _made_from_tree(self, blob: FileBlob) -> bool:
        """Write a layer's tar from its tree; False if other bytes came out, and nothing is written."""
        assert self._trees is not None  # noqa: S101 - asked before
        digest = hashlib.sha256()
        try:
            with atomic_file(blob.path, mode=0o444, sync=False) as stream:
                for chunk in self._trees.tar_of(blob.digest):
                    digest.update(chunk)
                    write_all(stream, chunk)
                if digest.hexdigest() != blob.digest:
                    raise _OtherBytesError
            atomic_write(blob.path.with_name(_BOOT), self._boot.ljust(36).encode(), sync=False)
        except (_OtherBytesError, FileNotFoundError, ValueError, zlib.error, BuildError):
            return False
        except OSError as error:
            message, hint = f"cannot make {blob.path} from its tree: {error.strerror}", way_out(error.errno)
            if error.errno in NOT_WRITABLE:
                raise UsageError(message, hint) from error
            raise BuildError(message, hint) from error
        return True


class _OtherBytesError(Exception):
    """A tree gave another tar."""


def names_in(tar: Path) -> Iterator[str]:
    """Yield the paths of all entries of a tar that are no folders."""
    with tarfile.open(tar) as archive:
        for member in read_members(archive):
            if not member.isdir():
                yield member.name


def is_sound(folder: Path, advance: Callable[[int], None] = lambda amount: None) -> bool:
    """Read a kept layer's folder and report whether it has the bytes it was made with.

    Args:
        advance: receives the number of bytes read.
    """
    try:
        blob = _read(folder)
        with blob.path.open("rb", buffering=0) as stream:
            return sha256_stream(stream, advance) == blob.digest
    except FileNotFoundError:
        return (folder / _LAYER).is_file()  # its bytes are a tree, which is read as such
    except (ValueError, KeyError):
        return False


def make_layer(cache: Cache, key: str, boot: str, make: Callable[[Path], Layer]) -> FileBlob:
    """Return the layer for ``key``, made now if need be.

    Args:
        boot: as for ``Layers``.
        make: writes ``TAR`` into the folder it is given, or the layer's tree; may leave other files there.

    Raises:
        BuildError: the disk is full. Whatever ``make`` raises passes through, and nothing is left behind.
    """

    def fill(folder: Path) -> None:
        layer = make(folder)
        (folder / _LAYER).write_bytes(canonical_json({"diff_id": layer.diff_id, "size": layer.size}))
        (folder / _BOOT).write_text(boot.ljust(36))
        if (folder / TAR).exists():
            (folder / TAR).chmod(0o444)

    return _read(cache.derive(KIND, key, fill))


def _read(folder: Path) -> FileBlob:
    table = parse_json((folder / _LAYER).read_bytes())
    return FileBlob(digest=table["diff_id"], size=table["size"], path=folder / TAR)
