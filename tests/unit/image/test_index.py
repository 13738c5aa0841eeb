"""The index of one image for several platforms."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path

import pytest

from envbuild.core.blob import FileBlob
from envbuild.core.digest import sha256_bytes
from envbuild.errors import UsageError
from envbuild.image.oci.layout import Image, index_of, write_index_dir, write_index_tar
from envbuild.operations.export import parse_target


def image(folder: Path, architecture: str, *layers: bytes) -> Image:
    """Make an image of layers that are in a folder."""
    blobs = []
    for data in layers:
        path = folder / sha256_bytes(data)
        path.write_bytes(data)
        blobs.append(FileBlob(digest=path.name, size=len(data), path=path))
    variant = {"variant": "v8"} if architecture == "arm64" else {}
    config = json.dumps({"architecture": architecture, "os": "linux", **variant}).encode()
    return Image(config=config, manifest=f'{{"of": "{architecture}"}}'.encode(), layers=tuple(blobs))


def test_the_order_of_platforms_makes_no_difference(tmp_path: Path) -> None:
    """The index is a function of the images, as the OCI specification has it (image-index.md)."""
    images = [image(tmp_path, name) for name in ("arm64", "amd64", "riscv64")]
    found = {index_of(each) for each in permutations(images)}
    assert len(found) == 1
    document = json.loads(found.pop())
    assert [entry["platform"]["architecture"] for entry in document["manifests"]] == ["amd64", "arm64", "riscv64"]
    assert document["manifests"][1] == {
        "digest": f"sha256:{images[0].manifest_digest}",
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "platform": {"architecture": "arm64", "os": "linux", "variant": "v8"},
        "size": len(images[0].manifest),
    }


def test_a_layout_holds_every_blob_once(tmp_path: Path) -> None:
    """Layers that images share are there once; folder and file have the same content, whoever writes them."""
    images = [image(tmp_path, "amd64", b"shared", b"one"), image(tmp_path, "arm64", b"shared", b"two")]
    write_index_dir(images, "envbuild/t:1", tmp_path / "layout")
    blobs = sorted(path.name for path in (tmp_path / "layout/blobs/sha256").iterdir())
    assert len(blobs) == 3 + 2 + 2 + 1
    for name in blobs:
        assert sha256_bytes((tmp_path / "layout/blobs/sha256" / name).read_bytes()) == name
    for name in ("a.tar", "b.tar"):
        write_index_tar(images, "envbuild/t:1", tmp_path / name)
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()
    top = json.loads((tmp_path / "layout/index.json").read_bytes())
    assert [entry["digest"] for entry in top["manifests"]] == [f"sha256:{sha256_bytes(index_of(images))}"]


@pytest.mark.parametrize("output", ["docker-archive:x.tar", "sqsh:x", "dir:x"])
def test_what_holds_one_image_takes_no_platforms(output: str) -> None:
    """The other forms have no index."""
    with pytest.raises(UsageError, match="it holds one image, and there is one for each platform"):
        parse_target(output).of_several(output, [])
