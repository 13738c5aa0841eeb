"""An image in a registry, known by its manifest and configuration; a file of one layer, without the others.

Source: OCI image specification 1.1 (manifest.md, config.md, layer.md); Docker image manifest version 2, schema 2.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any, BinaryIO, Protocol, cast

from envbuild.core.blob import Blob
from envbuild.core.digest import SHA256, sha256_bytes
from envbuild.core.foreign_json import parse_json
from envbuild.errors import IntegrityError, RegistryError
from envbuild.registry.repository import DOCKER_INDEX, OCI_INDEX, Manifest, descriptors

CONFIG_LIMIT = 8 << 20
_LAYER_LIMIT = 64 << 20
_SLICE = 1 << 14
"""Bytes decompressed at once: a thousand times as many may come out."""
_INDEXES = (OCI_INDEX, DOCKER_INDEX)
_TAR = ("application/vnd.oci.image.layer.v1.tar", "application/vnd.docker.image.rootfs.diff.tar")
_GZIP = ("application/vnd.oci.image.layer.v1.tar+gzip", "application/vnd.docker.image.rootfs.diff.tar.gzip")


@dataclass(frozen=True, kw_only=True, slots=True)
class RemoteLayer:
    """A layer: its blob, the SHA-256 of its uncompressed tar (hexadecimal), and what its history reports of it."""

    blob: Blob
    diff_id: str
    title: str

    @property
    def compressed(self) -> bool:
        """Whether the blob is not the tar itself; Docker calls blobs compressed that are not."""
        return self.blob.digest != self.diff_id


@dataclass(frozen=True)
class RemoteImage:
    """An image in a registry: manifest and configuration, both checked, and its layers, bottom first.

    Attributes:
        index: digest (hexadecimal) of the index that it was found by, for one of its platforms; empty: by none.
    """

    manifest: Manifest
    config: bytes
    layers: tuple[RemoteLayer, ...]
    index: str = ""

    @cached_property
    def config_digest(self) -> str:
        """The image's identity, hexadecimal."""
        return sha256_bytes(self.config)

    @cached_property
    def document(self) -> Mapping[str, Any]:
        """The configuration."""
        return dict(parse_json(self.config))

    @property
    def labels(self) -> Mapping[str, str]:
        """The image's labels."""
        found = (self.document.get("config") or {}).get("Labels") or {}
        return {str(key): str(value) for key, value in found.items()}

    @property
    def plain(self) -> bool:
        """Whether it is as envbuild pushes images: OCI layers, uncompressed."""
        return all(layer.blob.media_type == _TAR[0] for layer in self.layers)

    @property
    def platform(self) -> str:
        """Such as ``linux/amd64``."""
        return "/".join(str(self.document[key]) for key in ("os", "architecture", "variant") if self.document.get(key))


class Named(Protocol):
    """A reference as messages need it."""

    @property
    def name(self) -> str:
        """Where the image is."""


class ImageSource(Protocol):
    """What has images: a registry's repository, or a layout in a file."""

    @property
    def reference(self) -> Named:
        """Its name."""

    def manifest(self, target: str) -> Manifest | None:
        """Return the manifest at a tag or at ``sha256:…``, checked, or None."""

    def read_blob(self, digest: str, limit: int) -> bytes:
        """Return a small blob, checked."""


def read_image(repository: ImageSource, target: str, architecture: str) -> RemoteImage:
    """Read manifest and configuration of an image.

    Args:
        target: a tag, or ``sha256:…``; if it names an index, the image for ``architecture`` is taken.

    Raises:
        RegistryError: there is no such image.
        IntegrityError: something has bytes that do not match its digest, or is no image.
    """
    manifest = repository.manifest(target)
    name = f"{repository.reference.name}{'@' if target.startswith('sha256:') else ':'}{target}"
    index = ""
    if manifest is not None and _kind(manifest) in _INDEXES:
        index = manifest.digest
        manifest = repository.manifest(f"sha256:{_choose(manifest, name, architecture)}")
    if manifest is None:
        raise RegistryError(f"there is no image {name}", "check the name; envbuild push makes one")
    found = descriptors(manifest, "config")
    if len(found) != 1 or found[0].size > CONFIG_LIMIT:
        raise IntegrityError(f"{name} is no image: expected one configuration of at most {CONFIG_LIMIT} bytes")
    config = repository.read_blob(found[0].digest, CONFIG_LIMIT)
    return RemoteImage(manifest, config, _layers(manifest, config, name), index)


def read_member(repository: ImageSource, layer: RemoteLayer, path: str, limit: int) -> bytes:
    """Return one file of a layer, which is read and checked as a whole; the layer must be a small one.

    Args:
        path: as in the tar, without a leading slash.
        limit: bytes that the file may have at most.

    Raises:
        IntegrityError: the layer has bytes that do not match its digest, is too large, or has no such file.
    """
    name = f"the layer sha256:{layer.diff_id[:12]}… of {repository.reference.name}"
    if layer.blob.size > _LAYER_LIMIT:
        raise IntegrityError(f"{name} has {layer.blob.size} bytes; expected a small one, guard and lock")
    data = repository.read_blob(layer.blob.digest, _LAYER_LIMIT)
    if layer.compressed:
        data = b"".join(unpacked(iter((data,)), _LAYER_LIMIT, name))
    if hashlib.sha256(data).hexdigest() != layer.diff_id:
        raise IntegrityError(f"{name} is not the one that the image's configuration names")
    with closing(io.BytesIO(data)) as stream, tarfile.open(fileobj=cast(BinaryIO, stream), mode="r:") as archive:
        for member in archive:
            if member.name == path and member.isreg() and member.size <= limit:
                found = archive.extractfile(member)
                return found.read() if found is not None else b""
    raise IntegrityError(f"{name} has no file /{path}", "the image was not made by envbuild, or by one much older")


def unpacked(chunks: Iterator[bytes], limit: int, name: str) -> Iterator[bytes]:
    """Decompress gzip while it comes in; raises ``IntegrityError`` if it is damaged or larger than ``limit`` bytes."""
    machine = zlib.decompressobj(wbits=31)
    size = 0
    try:
        for chunk in chunks:
            for start in range(0, len(chunk), _SLICE):
                left = chunk[start : start + _SLICE]
                while left:
                    machine = zlib.decompressobj(wbits=31) if machine.eof else machine
                    data = machine.decompress(left)
                    left = machine.unused_data  # the next of several gzip members
                    size += len(data)
                    if size > limit:
                        raise IntegrityError(f"{name} holds more than {limit} bytes")
                    yield data
    except zlib.error as error:
        raise IntegrityError(f"{name} cannot be decompressed: {error}") from None
    if not machine.eof:
        raise IntegrityError(f"{name} ends too early")


def _kind(manifest: Manifest) -> str:
    return str(manifest.document.get("mediaType") or manifest.media_type)


def _choose(index: Manifest, name: str, architecture: str) -> str:
    """Return the digest of an index's image for an architecture."""
    entries = index.document.get("manifests") or []
    platforms = [entry.get("platform") or {} for entry in entries if isinstance(entry, dict)]
    for descriptor, platform in zip(descriptors(index, "manifests"), platforms, strict=True):
        if platform.get("os") == "linux" and platform.get("architecture") == architecture:
            return descriptor.digest
    raise RegistryError(f"{name} has no image for linux/{architecture}", "name the digest of another one")


def _layers(manifest: Manifest, config: bytes, name: str) -> tuple[RemoteLayer, ...]:
    """Pair blobs with the configuration's digests of uncompressed tars."""
    try:
        document = parse_json(config)
        diff_ids = [str(entry).removeprefix("sha256:") for entry in document["rootfs"]["diff_ids"]]
        history = [entry for entry in document.get("history") or () if not entry.get("empty_layer")]
        titles = [str(entry.get("created_by") or "").removeprefix("envbuild: ") for entry in history]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise IntegrityError(f"{name} is no image: its configuration cannot be read") from None
    blobs = descriptors(manifest, "layers")
    if len(blobs) != len(diff_ids) or not all(SHA256.fullmatch(entry) for entry in diff_ids):
        raise IntegrityError(f"{name} is no image: its configuration names {len(diff_ids)} layers, not {len(blobs)}")
    titles += [""] * (len(blobs) - len(titles))
    layers = tuple(
        RemoteLayer(blob=blob, diff_id=diff_id, title=title)
        for blob, diff_id, title in zip(blobs, diff_ids, titles, strict=False)
    )
    for layer in layers:
        if layer.blob.media_type not in (*_TAR, *_GZIP):
            raise IntegrityError(
                f"{name} has a layer of a kind that envbuild does not read: {layer.blob.media_type[:80]!r}",
                "push it uncompressed or with gzip: envbuild push does",
            )
        if layer.compressed and layer.blob.media_type in _TAR:
            raise IntegrityError(f"{name}: a layer's digest is not the one that its configuration names")
    return layers
