"""OCI layouts: canonical, loadable by old and new engines, whole or absent."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from envbuild.core.blob import FileBlob
from envbuild.errors import BuildError, EnvbuildError, UsageError
from envbuild.image.oci import layout
from envbuild.image.plan.layer_order import LayerSpec
from envbuild.image.plan.model import CREATED, Plan
from envbuild.image.tar.layer import Entry, LayerWriter


def blob(path: Path, name: str) -> FileBlob:
    """A layer holding one empty folder."""
    with path.open("wb") as stream, LayerWriter(stream) as writer:
        writer.add(Entry(path=name, kind="dir", mode=0o755))
    return FileBlob(digest=writer.digest, size=writer.size, path=path)


@pytest.fixture
def image(tmp_path: Path) -> layout.Image:
    """An image of two layers."""
    plan = Plan(
        name="t",
        lock="0" * 64,
        layout=2,
        python="3.11",
        executable="/usr/bin/python3.11",
        interpreter="1" * 64,
        layers=(LayerSpec(kind="os", title="the OS", key="a"), LayerSpec(kind="runtime", title="the rest", key="b")),
        platform={"os": "linux", "architecture": "amd64"},
        config={"Cmd": ["x"]},
        labels={"a": "b"},
    )
    return layout.image(plan, [blob(tmp_path / "1", "etc"), blob(tmp_path / "2", "opt")])


def test_configuration(image: layout.Image) -> None:
    """The configuration names layers by uncompressed digest, and is what the identity is taken of."""
    config = json.loads(image.config)
    assert config["rootfs"] == {
        "diff_ids": [f"sha256:{layer.digest}" for layer in image.layers],
        "type": "layers",
    }
    assert config["history"] == [
        {"created": CREATED, "created_by": "envbuild: the OS"},
        {"created": CREATED, "created_by": "envbuild: the rest"},
    ]
    assert (config["architecture"], config["os"], config["created"]) == ("amd64", "linux", CREATED)
    assert image.config_digest == hashlib.sha256(image.config).hexdigest()
    assert image.config == json.dumps(config, sort_keys=True, separators=(",", ":")).encode()


def test_manifest(image: layout.Image) -> None:
    """The manifest's descriptors are the blobs' true digests and sizes; layers are not compressed."""
    manifest = json.loads(image.manifest)
    assert manifest["config"]["digest"] == f"sha256:{image.config_digest}"
    assert manifest["config"]["size"] == len(image.config)
    assert manifest["annotations"] == {"a": "b"}
    for descriptor, layer in zip(manifest["layers"], image.layers, strict=True):
        data = layer.path.read_bytes()
        assert descriptor == {
            "digest": f"sha256:{hashlib.sha256(data).hexdigest()}",
            "mediaType": "application/vnd.oci.image.layer.v1.tar",
            "size": len(data),
        }


def read(chunks: bytes) -> dict[str, bytes]:
    """Files of a tar."""
    with tarfile.open(fileobj=io.BytesIO(chunks)) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar if member.isreg()}  # type: ignore[union-attr]


def test_archive(image: layout.Image) -> None:
    """The archive serves both kinds of engines, and every blob is named by its digest."""
    found = read(b"".join(layout.docker_archive(image, "envbuild/t:1")))
    for name, data in found.items():
        if name.startswith("blobs/sha256/"):
            assert hashlib.sha256(data).hexdigest() == name.rpartition("/")[2]
    (legacy,) = json.loads(found["manifest.json"])
    assert legacy == {
        "Config": f"blobs/sha256/{image.config_digest}",
        "Layers": [f"blobs/sha256/{layer.digest}" for layer in image.layers],
        "RepoTags": ["envbuild/t:1"],
    }
    (descriptor,) = json.loads(found["index.json"])["manifests"]
    assert descriptor["digest"] == f"sha256:{image.manifest_digest}"
    assert descriptor["annotations"] == {
        "io.containerd.image.name": "docker.io/envbuild/t:1",
        "org.opencontainers.image.ref.name": "1",
    }
    assert found["oci-layout"] == b'{"imageLayoutVersion":"1.0.0"}'


def test_layers_the_engine_holds_are_left_out(image: layout.Image) -> None:
    """Only what is missing is sent; the manifests still name everything."""
    skipped = image.layers[0].digest
    whole = read(b"".join(layout.docker_archive(image, "t:1")))
    found = read(b"".join(layout.docker_archive(image, "t:1", skip={skipped})))
    assert whole.keys() - found.keys() == {f"blobs/sha256/{skipped}"}


def test_folder_and_file_hold_the_same(image: layout.Image, tmp_path: Path) -> None:
    """Both outputs are the same layout, and the file is the same bytes each time."""
    layout.write_layout_dir(image, "t:1", tmp_path / "layout")
    layout.write_tar(image, "t:1", tmp_path / "a.tar")
    layout.write_tar(image, "t:1", tmp_path / "b.tar")
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()
    files = {path for path in (tmp_path / "layout").rglob("*") if path.is_file()}
    assert {str(path.relative_to(tmp_path / "layout")): path.read_bytes() for path in files} == read(
        (tmp_path / "a.tar").read_bytes()
    )


def test_an_existing_folder_is_kept(image: layout.Image, tmp_path: Path) -> None:
    """A folder with something in it is not touched."""
    (tmp_path / "layout").mkdir()
    (tmp_path / "layout/mine").write_text("x")
    with pytest.raises(BuildError) as caught:
        layout.write_layout_dir(image, "t:1", tmp_path / "layout")
    assert caught.value.message == f"{tmp_path}/layout exists already"
    assert [path.name for path in (tmp_path / "layout").iterdir()] == ["mine"]


def test_nothing_half_written(image: layout.Image, tmp_path: Path) -> None:
    """A layer that is not as it was made ends the writing, and nothing is left."""
    target = tmp_path / "out"
    target.mkdir()
    blob = image.layers[1]
    for data in (b"short", bytes(blob.size), bytes(blob.size + 1)):
        blob.path.write_bytes(data)
        for write, name in ((layout.write_tar, "a.tar"), (layout.write_layout_dir, "layout")):
            with pytest.raises(BuildError) as caught:
                write(image, "t:1", target / name)
            assert caught.value.message == f"{blob.path} is not as it was made: expected sha256 {blob.digest}"
            assert caught.value.hint == f"remove it and build again: rm -r {tmp_path}"
    assert list(target.iterdir()) == []


@pytest.mark.parametrize("tag", ["", "t", "T:1", "t:../x", "t:1 --evil", "-t:1", "t:" + "x" * 129])
def test_tags_are_checked(image: layout.Image, tag: str) -> None:
    """Only what every engine takes as a name goes out."""
    with pytest.raises(BuildError) as caught:
        list(layout.docker_archive(image, tag))
    assert caught.value.message == f"expected an image name such as 'digits:latest', found {tag!r}"


def test_names_with_a_registry(image: layout.Image) -> None:
    """A registry's name stays; short names get what containerd calls them."""
    for tag, name in (("t:1", "docker.io/library/t:1"), ("r.example:5000/t:1", "r.example:5000/t:1")):
        (descriptor,) = json.loads(read(b"".join(layout.docker_archive(image, tag)))["index.json"])["manifests"]
        assert descriptor["annotations"]["io.containerd.image.name"] == name


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.EROFS, UsageError), (errno.EACCES, UsageError), (errno.ENOSPC, BuildError)]
)
def test_a_place_that_may_not_be_written_is_no_full_disk(
    number: int, kind: type[EnvbuildError], image: layout.Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``build --output`` into a project that is mounted read-only is exit code 2, as ``sbom -o`` there."""

    def refuse(path: Path) -> None:
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(layout, "atomic_file", refuse)
    place = tmp_path / "o.tar"
    with pytest.raises(kind, match=f"^cannot write {place}: {os.strerror(number)}$"):
        layout.write_tar(image, "t:1", place)
