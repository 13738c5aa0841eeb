"""A job for Kubernetes: as recorded, from a lock, and no value gets out of its place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from envbuild.cluster.kubernetes import Needs, Pods, manifest, named
from envbuild.errors import UsageError
from envbuild.lockfile import model as locks
from envbuild.lockfile.hardware import Gpu, GpuDevice, Hardware
from envbuild.operations.manifest import kubernetes_manifest
from tests.support.locks import small_lock

GOLDEN = Path(__file__).parents[2] / "golden" / "kubernetes"
IMAGE = "registry.example.com/team/t@sha256:" + "a" * 64
NO_GPU = Hardware()
COMMAND = ("train.py", "--name", "it's: {x} $(HOME) # \\", "8")


def written(folder: Path, pods: Pods, hardware: Hardware = NO_GPU) -> str:
    """The manifest of a small lock."""
    lock = msgspec.structs.replace(small_lock(), hardware=hardware)
    path = folder / lock.file_name
    path.write_bytes(locks.dumps(lock))
    return kubernetes_manifest(COMMAND, pods, path)


@pytest.mark.parametrize("name", ["job", "ranks"])
def test_the_manifest_is_as_recorded(name: str, tmp_path: Path) -> None:
    """A Job, and an Indexed Job with its Service; to change them: ``ENVBUILD_GOLDEN=write``."""
    gpu = Gpu(driver="580.159.04", devices=(GpuDevice(model="NVIDIA H200", mig="none", count=2),))
    pods = {
        "job": Pods(name="", image=IMAGE),
        "ranks": Pods(
            name="big", image=IMAGE, ranks=4, claim="data", namespace="ml", memory="64Gi", shared_memory="8Gi"
        ),
    }[name]
    found = written(tmp_path, pods, Hardware(gpu=gpu) if name == "ranks" else NO_GPU)
    path = GOLDEN / f"{name}.yaml"
    if os.environ.get("ENVBUILD_GOLDEN") == "write":
        path.write_text(found)
    assert found == path.read_text()


def test_arguments_arrive_as_they_were_typed(tmp_path: Path) -> None:
    """YAML keeps them, and Kubernetes, which replaces ``$(NAME)``, gives the text itself."""
    (job,) = yaml.safe_load_all(written(tmp_path, Pods(name="", image=IMAGE)))
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert [word.replace("$$(", "$(") for word in container["args"]] == ["python", *COMMAND]
    assert "$$(HOME)" in container["args"][3]


def test_a_refusal_is_not_tried_again() -> None:
    """Exit code 78 fails the job; the rule names the container that there is."""
    for ranks in (1, 3):
        *_, job = manifest(Pods(name="a", image=IMAGE, ranks=ranks), Needs(architecture="amd64", cpus=1), ("a",), {})
        rule = job["spec"]["podFailurePolicy"]["rules"][0]
        (container,) = job["spec"]["template"]["spec"]["containers"]
        assert (rule["action"], rule["onExitCodes"]["values"]) == ("FailJob", [78])
        assert rule["onExitCodes"]["containerName"] == container["name"]
        assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never", "or there is no failure policy"


def test_gpus_come_from_the_lock() -> None:
    """Whole GPUs with the label of their model, slices as the resource of their profile."""
    needs = Needs(architecture="arm64", cpus=1, gpus=2, model="NVIDIA H100 80GB HBM3")
    (job,) = manifest(Pods(name="a", image=IMAGE), needs, ("a",), {})
    pod = job["spec"]["template"]["spec"]
    assert pod["nodeSelector"]["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert pod["nodeSelector"]["kubernetes.io/arch"] == "arm64"
    assert pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "2"
    needs = Needs(architecture="amd64", cpus=1, gpus=1, mig="3g.40gb")
    (job,) = manifest(Pods(name="a", image=IMAGE), needs, ("a",), {})
    limits = job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"cpu": "1", "nvidia.com/mig-3g.40gb": "1"}


@pytest.mark.parametrize(
    ("option", "fields"),
    [
        ("--name", {"name": "A"}),
        ("--name", {"name": "a\n"}),
        ("--name", {"name": "a" * 53}),
        ("--namespace", {"namespace": "-a"}),
        ("--claim", {"claim": "a b"}),
        ("--memory", {"memory": "8 GB"}),
        ("--shared-memory", {"shared_memory": "0"}),
        ("--ranks", {"ranks": 0}),
    ],
)
def test_values_that_do_not_fit_are_refused(option: str, fields: dict[str, Any]) -> None:
    """Before anything is printed; the message names the option."""
    pods = Pods(**({"name": "a", "image": IMAGE} | fields))
    with pytest.raises(UsageError, match=f"^{option}: expected"):
        manifest(pods, Needs(architecture="amd64", cpus=1), ("a",), {})


@pytest.mark.parametrize("image", ["registry.example.com/t:latest", "registry.example.com/t", "t@sha256:1"])
def test_an_image_has_a_digest(image: str, tmp_path: Path) -> None:
    """A tag may mean another image tomorrow."""
    with pytest.raises(UsageError):
        written(tmp_path, Pods(name="", image=image))


@pytest.mark.parametrize(("lock", "name"), [("Digits_2.0", "digits-2-0"), ("x" * 80, "x" * 52), ("___", "train")])
def test_the_name_of_a_lock_fits(lock: str, name: str) -> None:
    """Names of locks may hold what names of Kubernetes may not."""
    assert named(Pods(name="", image=IMAGE), lock).name == name
