"""Small images on their way into an engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from envbuild.core.blob import FileBlob
from envbuild.core.digest import canonical_json, sha256_bytes, sha256_file
from envbuild.engine.protocol import Parcel, ParcelLayer
from envbuild.image.oci.layout import Image
from envbuild.image.oci.layout import parcel as oci_parcel

_KIND = "application/vnd.oci.image"


_SETTINGS = {"Cmd": ["/bin/sh"], "Env": ["PATH=/bin"]}


def small_image(layers: Sequence[Path], settings: Mapping[str, object] = _SETTINGS) -> Image:
    """An image over tars, with what its configuration says of programs."""
    blobs = tuple(FileBlob(digest=sha256_file(path), size=path.stat().st_size, path=path) for path in layers)
    config = canonical_json(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": settings,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{blob.digest}" for blob in blobs]},
        }
    )
    manifest = canonical_json(
        {
            "schemaVersion": 2,
            "mediaType": f"{_KIND}.manifest.v1+json",
            "config": _descriptor(f"{_KIND}.config.v1+json", sha256_bytes(config), len(config)),
            "layers": [_descriptor(f"{_KIND}.layer.v1.tar", blob.digest, blob.size) for blob in blobs],
        }
    )
    return Image(config=config, manifest=manifest, layers=blobs)


def layer_of(path: Path, digest: str, size: int) -> ParcelLayer:
    """A layer whose file is there."""
    return ParcelLayer(digest=digest, size=size, file=lambda: (path, True))


def parts(
    layers: Sequence[Path], tag: str, counts: Sequence[int] = (), settings: Mapping[str, object] = _SETTINGS
) -> Iterator[Parcel]:
    """The lowest layers of an image, as many as each count specifies, then the whole image."""
    for count in (*counts, len(layers)):
        yield oci_parcel(small_image(layers[:count], settings), tag)


def _descriptor(media_type: str, digest: str, size: int) -> dict[str, object]:
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": size}
