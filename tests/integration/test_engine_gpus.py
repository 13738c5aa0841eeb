"""GPUs through real engines: one without NVIDIA's toolkit, and one with CDI whose devices are stand-ins."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envbuild.determinism import policy
from envbuild.engine.docker.adapter import DockerEngine, connect
from envbuild.engine.docker.gpus import INSTALL, GpuWays, device_requests
from envbuild.engine.docker.images import import_tar
from envbuild.engine.docker.run import run_container
from envbuild.engine.protocol import ContainerRun, Gpus, GpusRefusedError
from envbuild.lockfile.hardware import Cuda
from tests.support.rootfs import write_rootfs
from tests.support.second_engine import HOOK_LOG, described_gpus

pytestmark = [pytest.mark.engine, pytest.mark.network]
TAG = f"envbuild-test:{uuid.uuid4().hex}"


def held(engine: DockerEngine, folder: Path) -> Iterator[DockerEngine]:
    """The engine with a tiny image of this machine's programs, removed afterwards."""
    write_rootfs(folder / "rootfs.tar")
    with (folder / "rootfs.tar").open("rb") as stream:
        import_tar(engine._sdk_client(), stream, *TAG.split(":"), {})
    yield engine
    engine._sdk_client().remove_image(TAG, force=True)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerEngine]:
    """The machine's engine."""
    yield from held(connect(), tmp_path_factory.mktemp("own"))


def device(name: str, **edits: Any) -> dict[str, Any]:
    """A CDI device that is known by a file and a variable."""
    return {"name": name, "containerEdits": {"env": [f"GIVEN_{name.replace('-', '_').replace(':', '_')}=1"], **edits}}


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerEngine]:
    """The newer engine, which learns of three GPUs from a CDI file; the last one's driver file is not there."""
    gone = [{"hostPath": "/nowhere/libcuda.so.1", "containerPath": "/libcuda.so.1", "options": ["ro", "bind"]}]
    names = ["10", "0", "1", "GPU-a", "all"]
    specification = {
        "cdiVersion": "0.5.0",
        "kind": "nvidia.com/gpu",
        "containerEdits": {"env": ["NVIDIA_VISIBLE_DEVICES=void"]},
        "devices": [*(device(name) for name in names), device("2", mounts=gone)],
    }
    with described_gpus(json.dumps(specification)) as host:
        yield from held(connect({"DOCKER_HOST": host}), tmp_path_factory.mktemp("newer"))


def given(engine: DockerEngine, gpus: Gpus | None, capfd: pytest.CaptureFixture[str]) -> list[str]:
    """Run a container with these GPUs and return the variables that it got with them."""
    capfd.readouterr()
    command = ("/bin/sh", "-c", "set")
    assert engine.run_container(ContainerRun(image=TAG, command=command, environment={"PATH": "/bin"}, gpus=gpus)) == 0
    lines = (line.replace("'", "") for line in capfd.readouterr().out.splitlines())
    return sorted(line for line in lines if line.startswith(("GIVEN", "NVIDIA")))


def test_an_engine_without_the_toolkit_gets_the_install_hint(own: DockerEngine) -> None:
    """Nothing is left of a container that could not get its GPUs; the error states what to install."""
    assert own.gpu_support() == ""
    request = ContainerRun(image=TAG, command=("/bin/true",), gpus=Gpus(count=1), labels={"envbuild-test": TAG})
    with pytest.raises(GpusRefusedError) as caught:
        own.run_container(request)
    assert caught.value.message == (
        "the engine cannot hand GPUs to containers: NVIDIA's container toolkit is not installed or not configured"
    )
    assert (caught.value.hint, caught.value.exit_code) == (INSTALL, 15)
    left = own._sdk_client().containers(all=True, quiet=True, filters={"label": f"envbuild-test={TAG}"})
    assert left == []


def test_a_run_without_gpus_is_given_none(own: DockerEngine, capfd: pytest.CaptureFixture[str]) -> None:
    """Also where NVIDIA's runtime were the default: the variable that it reads reports it."""
    assert given(own, None, capfd) == ["NVIDIA_VISIBLE_DEVICES=void"]


@pytest.mark.parametrize(
    ("gpus", "names"),
    [
        (Gpus(count=1), ["0"]),
        (Gpus(count=2), ["0", "1"]),
        (Gpus(), ["all"]),
        (Gpus(devices=("GPU-a", "10")), ["10", "GPU_a"]),
    ],
)
def test_cdi_devices_reach_the_container(
    newer: DockerEngine, gpus: Gpus, names: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    """The lowest indexes for a count, all, or those that are named."""
    assert newer.gpu_support() == "cdi"
    assert given(newer, gpus, capfd) == [*(f"GIVEN_{name}=1" for name in names), "NVIDIA_VISIBLE_DEVICES=void"]


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (("77",), "the engine knows no GPU nvidia.com/gpu=77"),
        (("2",), "the engine's description of the GPUs names /nowhere/libcuda.so.1, which the host does not have"),
    ],
)
def test_cdi_devices_that_cannot_be_given(newer: DockerEngine, names: tuple[str, ...], sentence: str) -> None:
    """A GPU that is not listed, and a description from before a driver's update, are reported with a next command."""
    with pytest.raises(GpusRefusedError) as caught:
        newer.run_container(ContainerRun(image=TAG, command=("/bin/true",), gpus=Gpus(devices=names)))
    assert caught.value.message == sentence
    assert "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml" in caught.value.hint


def by_hook(engine: DockerEngine, *names: str, **environment: str) -> int:
    """Run a container whose GPUs come through NVIDIA's hook, as on an engine without CDI."""
    request = ContainerRun(image=TAG, command=("/bin/true",), environment=environment, gpus=Gpus(devices=names))
    assert request.gpus is not None
    devices = device_requests(request.gpus, GpuWays(support="nvidia"))
    return run_container(engine._client, request, devices)


def test_the_hook_is_given_the_gpus_and_locked_variables_stay(newer: DockerEngine) -> None:
    """The engine itself sets NVIDIA_VISIBLE_DEVICES alone: what a lock sets is as the guard will expect it."""
    locked = policy.gpu_environment(Cuda(version="12.9", driver="525.60.13"))
    assert by_hook(newer, "GPU-a", "1", **locked) == 0
    seen = [json.loads(line).partition("=") for line in HOOK_LOG.read_text().splitlines()]
    assert {name: value for name, _, value in seen} == {"NVIDIA_VISIBLE_DEVICES": "GPU-a,1", **locked}


def test_the_hooks_refusal_is_reported(newer: DockerEngine) -> None:
    """NVIDIA_REQUIRE_CUDA that the driver does not satisfy, as the engine wraps it, becomes one clear sentence."""
    with pytest.raises(GpusRefusedError) as caught:
        by_hook(newer, "99")
    assert caught.value.message == "the host's NVIDIA driver is too old for this image, which needs cuda>=99.0"
    assert caught.value.hint == "update the driver, or compare this host with the lock: envbuild check"
