"""The same adapter on the machine's engine and on a newer one with the containerd image store."""

from __future__ import annotations

import tarfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from envbuild.core.blob import FileBlob
from envbuild.core.digest import canonical_json, sha256_bytes, sha256_file
from envbuild.engine.docker.adapter import DockerEngine, connect
from envbuild.engine.docker.images import remove_image
from envbuild.engine.protocol import ContainerRun, Step
from envbuild.image.oci.layout import Image, docker_archive
from tests.support.rootfs import write_rootfs, write_tar
from tests.support.second_engine import second_engine

pytestmark = [pytest.mark.engine, pytest.mark.network]

TAG = f"envbuild-test:{uuid.uuid4().hex}"


@pytest.fixture(scope="module", params=["own", "newer"])
def engine(request: pytest.FixtureRequest) -> Iterator[DockerEngine]:
    """The machine's engine, then a newer one brought up next to it (and stopped, unless it ran before)."""
    if request.param == "own":
        yield connect()
        return
    with second_engine() as host:
        yield connect({"DOCKER_HOST": host})


@pytest.fixture(scope="module")
def rootfs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("versions") / "rootfs.tar"
    write_rootfs(path)
    return path


def small_image(*layers: Path) -> Image:
    """An image over tars, with an environment variable and a separate command."""
    blobs = tuple(FileBlob(digest=sha256_file(path), size=path.stat().st_size, path=path) for path in layers)
    config = canonical_json(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Cmd": ["/bin/sh", "-c", "exit 9"], "Env": ["PATH=/bin", "KIND=small"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{blob.digest}" for blob in blobs]},
        }
    )
    kind = "application/vnd.oci.image"
    manifest = canonical_json(
        {
            "schemaVersion": 2,
            "mediaType": f"{kind}.manifest.v1+json",
            "config": _descriptor(f"{kind}.config.v1+json", sha256_bytes(config), len(config)),
            "layers": [_descriptor(f"{kind}.layer.v1.tar", blob.digest, blob.size) for blob in blobs],
        }
    )
    return Image(config=config, manifest=manifest, layers=blobs)


def _descriptor(media_type: str, digest: str, size: int) -> dict[str, object]:
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": size}


def test_a_step_an_image_and_a_run(engine: DockerEngine, rootfs: Path, tmp_path: Path) -> None:
    """A build step gives its result, an image loads under its tag with its layers, a run passes its exit code on.

    The classic image store calls an image by its configuration's digest, the containerd store by its manifest's.
    """
    write_tar(tmp_path / "inputs.tar", {"in.txt": b"input\n"})
    step = Step(
        base=rootfs,
        base_key=uuid.uuid4().hex,
        inputs=tmp_path / "inputs.tar",
        command=(
            "/bin/sh",
            "-c",
            "cat /in.txt /proc/sys/kernel/hostname > /tmp/out.txt && ls /sys/class/net >> /tmp/out.txt",
        ),
        environment={"PATH": "/bin"},
        result="/tmp/out.txt",
    )
    with engine.run_step(step) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
        member = tar.next()
        assert member is not None
        content = tar.extractfile(member)
        assert content is not None
        assert (member.name, content.read()) == ("out.txt", b"input\nenvbuild\nlo\n")

    write_tar(tmp_path / "layer.tar", {"workspace/second": b"layer\n"})
    image = small_image(rootfs, tmp_path / "layer.tar")
    engine.load(docker_archive(image, TAG))
    found = engine.find_image(TAG)
    assert found is not None
    assert found.diff_ids == tuple(blob.digest for blob in image.layers)
    containerd = engine.describe()["storage"] == "overlayfs"
    assert found.config == (image.manifest_digest if containerd else image.config_digest)
    try:
        command = ("/bin/sh", "-c", 'cat /workspace/second && [ "$KIND" = small ] && exit 42')
        assert engine.run_container(ContainerRun(image=TAG, command=command)) == 42
    finally:
        engine._sdk_client().remove_image(TAG, force=True)
        remove_image(engine._sdk_client(), f"envbuild-step:{step.base_key}")  # unless other builds have swept it away
