"""Layers kept between builds: one folder per layer, named by the digest of all it depends on, whole or absent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from envbuild.core.blob import FileBlob
from envbuild.core.digest import canonical_json, sha256_file, sha256_stream
from envbuild.core.foreign_json import parse_json
from envbuild.core.fs import atomic_write
from envbuild.image.tar.layer import Layer

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


def cached_layer(cache: Cache, key: str, boot: str) -> FileBlob | None:
    """Return a layer that an earlier build made, or None.

    Layers are not synced to the disk when they are made, which would double a build's time: after a restart of the
    machine, the first use of each one reads and hashes it, and drops it if a power cut has damaged it.

    Args:
        boot: identifies this run of the machine; empty if unknown, and every layer is read.
    """
    folder = cache.derived(KIND, key)
    if folder is None:
        return None
    blob = _read(folder)
    if boot and (folder / _BOOT).read_text().strip() == boot:
        return blob
    if sha256_file(blob.path) != blob.digest:
        cache.forget(KIND, key)
        return None
    atomic_write(folder / _BOOT, boot.ljust(36).encode(), sync=False)
    return blob


def is_sound(folder: Path, advance: Callable[[int], None] = lambda amount: None) -> bool:
    """Read a kept layer's folder and report whether it has the bytes it was made with.

    Args:
        advance: receives the number of bytes read.
    """
    try:
        blob = _read(folder)
        with blob.path.open("rb", buffering=0) as stream:
            return sha256_stream(stream, advance) == blob.digest
    except (FileNotFoundError, ValueError, KeyError):
        return False


def make_layer(cache: Cache, key: str, boot: str, make: Callable[[Path], Layer]) -> FileBlob:
    """Return the layer for ``key``, made now if need be.

    Args:
        boot: as for ``cached_layer``.
        make: writes ``TAR`` into the folder it is given; may leave other files there.

    Raises:
        BuildError: the disk is full. Whatever ``make`` raises passes through, and nothing is left behind.
    """

    def fill(folder: Path) -> None:
        layer = make(folder)
        (folder / _LAYER).write_bytes(canonical_json({"diff_id": layer.diff_id, "size": layer.size}))
        (folder / _BOOT).write_text(boot.ljust(36))
        (folder / TAR).chmod(0o444)

    return _read(cache.derive(KIND, key, fill))


def _read(folder: Path) -> FileBlob:
    table = parse_json((folder / _LAYER).read_bytes())
    return FileBlob(digest=table["diff_id"], size=table["size"], path=folder / TAR)
