"""OCI image layouts: descriptors, configuration and manifest in one canonical form, and the ways to deliver them.

The identity of an image is the SHA-256 of its configuration, which names the layers by the digests of their
uncompressed tars: no compressor, engine or clock takes part in it. Layers stay uncompressed
(``application/vnd.oci.image.layer.v1.tar``). A ``manifest.json`` is next to ``index.json``, since older engines load
nothing else. Source: OCI image specification 1.1 (image-layout.md, manifest.md, config.md); ``docker save``'s format.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from envbuild.core.blob import FileBlob
from envbuild.core.digest import canonical_json, sha256_bytes
from envbuild.core.foreign_json import parse_json
from envbuild.core.fs import NOT_WRITABLE, atomic_file, temporary_folder
from envbuild.engine.protocol import Parcel, ParcelLayer
from envbuild.errors import BuildError, EnvbuildError, UsageError
from envbuild.image.plan.model import CREATED, Plan
from envbuild.image.tar.layer import BLOCK, Entry, header
from envbuild.image.tar.sink import write_all

_INDEX = "application/vnd.oci.image.index.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
_CHUNK = 1 << 20
_TAG = re.compile(r"(?:[a-z0-9.-]+:[0-9]+/)?[a-z0-9]+(?:[._/-]+[a-z0-9]+)*:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """A whole image: configuration and manifest as bytes, layers (bottom first) as files."""

    config: bytes
    manifest: bytes
    layers: tuple[FileBlob, ...]

    @property
    def config_digest(self) -> str:
        """The image's identity, hexadecimal."""
        return sha256_bytes(self.config)

    @property
    def manifest_digest(self) -> str:
        """What registries and the containerd image store call the image, hexadecimal."""
        return sha256_bytes(self.manifest)


def image(plan: Plan, layers: Sequence[FileBlob]) -> Image:
    """Make configuration and manifest for the plan's layers, given bottom first."""
    history = [{"created": CREATED, "created_by": f"envbuild: {spec.title}"} for spec in plan.layers]
    config = canonical_json(
        {
            **plan.platform,
            "config": dict(plan.config),
            "created": CREATED,
            "history": history,
            "rootfs": {"diff_ids": [f"sha256:{blob.digest}" for blob in layers], "type": "layers"},
        }
    )
    manifest = canonical_json(
        {
            "annotations": dict(plan.labels),
            "config": _descriptor(_CONFIG, sha256_bytes(config), len(config)),
            "layers": [_descriptor(_LAYER, blob.digest, blob.size) for blob in layers],
            "mediaType": _MANIFEST,
            "schemaVersion": 2,
        }
    )
    return Image(config=config, manifest=manifest, layers=tuple(layers))


def image_index(entries: Sequence[tuple[bytes, Mapping[str, str]]]) -> bytes:
    """Make the index of one image for several platforms: a function of the manifests alone, whatever their order.

    Args:
        entries: manifest and platform (``os``, ``architecture``, perhaps ``variant``) of each.
    """
    listed = [
        {**_descriptor(_MANIFEST, sha256_bytes(manifest), len(manifest)), "platform": dict(platform)}
        for manifest, platform in sorted(entries, key=lambda entry: sorted(entry[1].items()))
    ]
    return canonical_json({"manifests": listed, "mediaType": _INDEX, "schemaVersion": 2})


def index_of(images: Sequence[Image]) -> bytes:
    """Make the index of images for several platforms, which their configurations name."""
    return image_index([(image.manifest, _platform(image)) for image in images])


def parcel(image: Image, tag: str) -> Parcel:
    """Return an image whose layers are there as an engine takes it; see ``ImageStore.deliver``."""

    def layer(blob: FileBlob) -> ParcelLayer:
        return ParcelLayer(digest=blob.digest, size=blob.size, file=lambda: (blob.path, True))

    layers = tuple(map(layer, image.layers))
    archive = partial(docker_archive, image, tag)
    return Parcel(manifest=image.manifest, config=image.config, layers=layers, archive=archive)


def docker_archive(image: Image, tag: str, skip: Collection[str] = ()) -> Iterator[bytes]:
    """Stream the image as a tar that engines load, old ones (``manifest.json``) and new ones (OCI layout).

    Args:
        tag: ``name:tag`` it gets in the engine.
        skip: layers (diff IDs, hexadecimal) left out because the engine holds them.

    Raises:
        BuildError: the tag is not one, or a layer's file is not as it was made (reported at its end, since it is hashed
            while it is sent).
    """
    yield _directory("blobs")
    yield _directory("blobs/sha256")
    for blob in image.layers:
        if blob.digest not in skip:
            yield from _member(_blob(blob.digest), blob)
    for path, content in sorted(_documents(image, tag).items()):
        yield from _small_member(path, content)
    yield bytes(2 * BLOCK)


def write_index_tar(images: Sequence[Image], tag: str, path: Path) -> None:
    """Write images for several platforms as one file, an OCI layout; equal images and tags give equal bytes.

    Raises:
        BuildError, UsageError: as for ``not_written``; or as ``docker_archive`` does.
    """
    try:
        with atomic_file(path) as stream:
            for folder in ("blobs", "blobs/sha256"):
                stream.write(_directory(folder))
            for name, content in sorted(_index_files(images, tag).items()):
                for chunk in _member(name, content) if isinstance(content, FileBlob) else _small_member(name, content):
                    stream.write(chunk)
            stream.write(bytes(2 * BLOCK))
    except OSError as error:
        raise not_written(path, error) from error


def not_written(path: Path, error: OSError) -> EnvbuildError:
    """Return what a person can act on where a file or folder that they named for an image cannot be written.

    ``UsageError`` where it may not be, else ``BuildError``: the disk is full.
    """
    message = f"cannot write {path}: {error.strerror}"
    if error.errno in NOT_WRITABLE:
        return UsageError(message, "choose another place")
    return BuildError(message, "choose another place")


def write_tar(image: Image, tag: str, path: Path) -> None:
    """Write the image as one file; equal images and tags give equal bytes.

    Raises:
        BuildError, UsageError: as for ``not_written``; or as ``docker_archive`` does.
    """
    try:
        with atomic_file(path) as stream:
            for chunk in docker_archive(image, tag):
                stream.write(chunk)
    except OSError as error:
        raise not_written(path, error) from error


def write_layout_dir(image: Image, tag: str, folder: Path) -> None:
    """Write the image as an OCI image layout into ``folder``, which appears whole or not at all.

    Raises:
        BuildError: the folder exists already and is not empty.
        BuildError, UsageError: as for ``not_written``.
    """
    _write_folder(_files(image, tag), folder)


def write_index_dir(images: Sequence[Image], tag: str, folder: Path) -> None:
    """Write images for several platforms as one OCI image layout; errors as for ``write_layout_dir``."""
    _write_folder(_index_files(images, tag), folder)


def _write_folder(files: Mapping[str, bytes | FileBlob], folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BuildError(f"{folder} exists already", "remove it, or name another folder")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder(f".{folder.name}.", folder.parent) as scratch:
            fresh = scratch / "layout"
            (fresh / "blobs" / "sha256").mkdir(parents=True)
            for name, content in files.items():
                with (fresh / name).open("wb", buffering=0) as stream:
                    for chunk in _content(content) if isinstance(content, FileBlob) else (content,):
                        write_all(stream, chunk)
                (fresh / name).chmod(0o644)
            for made in (fresh, fresh / "blobs", fresh / "blobs" / "sha256"):
                made.chmod(0o755)
            fresh.replace(folder)
    except OSError as error:
        raise not_written(folder, error) from error


def _files(image: Image, tag: str) -> dict[str, bytes | FileBlob]:
    """Every file of the layout by path."""
    return {**{_blob(blob.digest): blob for blob in image.layers}, **_documents(image, tag)}


def _index_files(images: Sequence[Image], tag: str) -> dict[str, bytes | FileBlob]:
    """Every file of the layout of several images, by path: its index names theirs, which registries get too."""
    index = index_of(images)
    descriptor = {**_descriptor(_INDEX, sha256_bytes(index), len(index)), "annotations": _names(tag)}
    top = {"manifests": [descriptor], "mediaType": _INDEX, "schemaVersion": 2}
    found: dict[str, bytes | FileBlob] = {
        _blob(sha256_bytes(index)): index,
        "index.json": canonical_json(top),
        "oci-layout": canonical_json({"imageLayoutVersion": "1.0.0"}),
    }
    for image in images:
        found |= {_blob(blob.digest): blob for blob in image.layers}
        found |= {_blob(image.config_digest): image.config, _blob(image.manifest_digest): image.manifest}
    return found


def _documents(image: Image, tag: str) -> dict[str, bytes]:
    """Every file of the layout but the layers, by path."""
    config = _blob(image.config_digest)
    manifest = _descriptor(_MANIFEST, image.manifest_digest, len(image.manifest))
    index = {
        "manifests": [{**manifest, "annotations": _names(tag), "platform": _platform(image)}],
        "mediaType": _INDEX,
        "schemaVersion": 2,
    }
    legacy = [{"Config": config, "Layers": [_blob(blob.digest) for blob in image.layers], "RepoTags": [tag]}]
    return {
        config: image.config,
        _blob(image.manifest_digest): image.manifest,
        "index.json": canonical_json(index),
        "manifest.json": canonical_json(legacy),
        "oci-layout": canonical_json({"imageLayoutVersion": "1.0.0"}),
    }


_PLATFORM = ("architecture", "os", "variant")


def _platform(image: Image) -> dict[str, str]:
    return {key: str(value) for key, value in parse_json(image.config).items() if key in _PLATFORM}


def _names(tag: str) -> dict[str, str]:
    """Return the annotations that name an image in a layout; raises ``BuildError`` for what is no name."""
    if not _TAG.fullmatch(tag):
        raise BuildError(f"expected an image name such as 'digits:latest', found {tag!r}")
    return {
        "io.containerd.image.name": _qualified(tag),
        "org.opencontainers.image.ref.name": tag.rpartition(":")[2],
    }


def _qualified(tag: str) -> str:
    """The name as containerd writes it: with a registry and, for short ones, ``library/``."""
    first, slash, _ = tag.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return tag
    return f"docker.io/{tag}" if slash else f"docker.io/library/{tag}"


def _blob(digest: str) -> str:
    return f"blobs/sha256/{digest}"


def _descriptor(media_type: str, digest: str, size: int) -> Mapping[str, Any]:
    return {"digest": f"sha256:{digest}", "mediaType": media_type, "size": size}


def _directory(path: str) -> bytes:
    return header(Entry(path=path, kind="dir", mode=0o755))


def _member(path: str, blob: FileBlob) -> Iterator[bytes]:
    yield header(Entry(path=path, kind="file", mode=0o644, size=blob.size))
    yield from _content(blob)
    yield bytes(-blob.size % BLOCK)


def _small_member(path: str, content: bytes) -> Iterator[bytes]:
    entry = Entry(path=path, kind="file", mode=0o644, size=len(content))
    yield header(entry) + content + bytes(-len(content) % BLOCK)


def check(blob: FileBlob) -> None:
    """Read a layer's file; raises ``BuildError`` if it is not as it was made."""
    for _ in _content(blob):
        pass


def _content(blob: FileBlob) -> Iterator[bytes]:
    """A layer's bytes, at the end of which they have proved to be the layer's."""
    digest = hashlib.sha256()
    left = blob.size
    with blob.path.open("rb", buffering=0) as stream:
        while chunk := stream.read(min(_CHUNK, left)):
            left -= len(chunk)
            digest.update(chunk)
            yield chunk
    if left or digest.hexdigest() != blob.digest:
        raise BuildError(
            f"{blob.path} is not as it was made: expected sha256 {blob.digest}",
            f"remove it and build again: rm -r {shlex.quote(str(blob.path.parent))}",
        )
