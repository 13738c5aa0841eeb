"""A job for Kubernetes: as recorded, from a lock, and no value gets out of its place."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from envbuild.cluster.kubernetes import Kind, LockText, Needs, Pods, manifest, named
from envbuild.core.types import Policy
from envbuild.errors import UsageError
from envbuild.lockfile import model as locks
from envbuild.lockfile.hardware import Gpu, GpuDevice, Hardware
from envbuild.operations.manifest import kubernetes_manifest
from tests.support.locks import small_lock

GOLDEN = Path(__file__).parents[2] / "golden" / "kubernetes"
IMAGE = "registry.example.com/team/t@sha256:" + "a" * 64
NO_GPU = Hardware()
COMMAND = ("train.py", "--name", "it's: {x} $(HOME) # \\", "8")


def written(folder: Path, pods: Pods, hardware: Hardware = NO_GPU, *, config_map: bool = False) -> str:
    """The manifest of a small lock."""
    lock = msgspec.structs.replace(small_lock(), hardware=hardware)
    path = folder / lock.file_name
    path.write_bytes(locks.dumps(lock))
    return kubernetes_manifest(COMMAND, pods, path, config_map=config_map)


def objects(pods: Pods, needs: Needs) -> list[Any]:
    """Those of a job, as YAML is read."""
    return list(yaml.safe_load_all(manifest(pods, needs, ("a",), {})))


RANKS = Pods(name="big", image=IMAGE, ranks=4, claim="data", namespace="ml", memory="64Gi", shared_memory="8Gi")
MANIFESTS = {
    "job": Pods(name="", image=IMAGE),
    "ranks": RANKS,
    "claims": replace(RANKS, claims=True),
    "jobset": replace(RANKS, kind="jobset"),
    "trainjob": replace(RANKS, kind="trainjob", claims=True),
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_the_manifest_is_as_recorded(name: str, tmp_path: Path) -> None:
    """Job, Indexed Job with its Service, JobSet, TrainJob, claims of GPUs; ``ENVBUILD_GOLDEN=write`` changes them."""
    device = GpuDevice(model="NVIDIA H200", compute_capability="9.0", mig="none", count=2)
    gpu = Gpu(driver="580.159.04", devices=(device,))
    found = written(tmp_path, MANIFESTS[name], NO_GPU if name == "job" else Hardware(gpu=gpu))
    path = GOLDEN / f"{name}.yaml"
    if os.environ.get("ENVBUILD_GOLDEN") == "write":
        path.write_text(found)
    assert found == path.read_text()


@pytest.mark.parametrize("pods", [Pods(name="", image=IMAGE), MANIFESTS["trainjob"], MANIFESTS["ranks"]])
def test_the_lock_is_a_config_map_if_asked(pods: Pods, tmp_path: Path) -> None:
    """Its bytes, under a name that another lock does not have; pods see it read-only."""
    device = GpuDevice(model="NVIDIA H200", compute_capability="9.0", mig="none", count=2)
    hardware = Hardware(gpu=Gpu(driver="580.159.04", devices=(device,)))
    found = list(yaml.safe_load_all(written(tmp_path, pods, hardware, config_map=True)))
    (config,) = (each for each in found if each["kind"] == "ConfigMap")
    data = (tmp_path / "pylock.t.toml").read_bytes()
    assert (config["data"], config["immutable"]) == ({"pylock.t.toml": data.decode()}, True)
    name = config["metadata"]["name"]
    assert name.endswith(f"-lock-{hashlib.sha256(data).hexdigest()[:12]}")
    assert config["metadata"].get("namespace", "") == pods.namespace
    text = yaml.safe_dump(found)
    assert text.count("configMap:") == 1
    assert f"name: {name}" in text.split("configMap:")[1]
    assert "mountPath: /etc/envbuild/lock\n" in text


ALSO_BLOCKS = (
    "a = 1\n\n[b]\nc = 'it''s'\n", "a \nb\n", "ü\U0001f600\n", "---\n", "...\na\n", "# a\n",
    "{{ pods }}\n{% raw %}\n", "x: |\n  y\n",
)  # fmt: skip
QUOTED = ("a", "", "\n", "a\n\n", " a\n", "\ta\n", "a\rb\n", "a\r\nb\n", "\x7f\n", "\x85\n", "\u2028\n", "\ufeffa\n")


@pytest.mark.parametrize("text", [*ALSO_BLOCKS, *QUOTED])
def test_texts_arrive_as_they_are(text: str) -> None:
    """In a ConfigMap, as a block where that keeps them; as an argument and a variable, on one line."""
    lock = LockText(file="pylock.t.toml", text=text, sha256="a" * 64)
    pods = Pods(name="a", image=IMAGE, ranks=2, kind="trainjob", lock=lock)
    written = manifest(pods, Needs(architecture="amd64", cpus=1), ("a", text), {"V": text})
    config, runtime, _ = yaml.safe_load_all(written)
    assert config["data"] == {"pylock.t.toml": text}
    (jobs,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    (container,) = jobs["template"]["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["a", text]
    assert container["env"][0] == {"name": "V", "value": text}
    assert ("pylock.t.toml: |\n" in written) == (text in ALSO_BLOCKS)


def test_a_lock_too_large_for_a_config_map_is_refused() -> None:
    """Kubernetes would refuse it later."""
    text = LockText(file="pylock.t.toml", text="x" * 1_000_001, sha256="a" * 64)
    with pytest.raises(UsageError, match="--config-map"):
        manifest(Pods(name="a", image=IMAGE, lock=text), Needs(architecture="amd64", cpus=1), ("a",), {})


def test_arguments_arrive_as_they_were_typed(tmp_path: Path) -> None:
    """YAML keeps them, and Kubernetes, which replaces ``$(NAME)``, gives the text itself."""
    (job,) = yaml.safe_load_all(written(tmp_path, Pods(name="", image=IMAGE)))
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert [word.replace("$$(", "$(") for word in container["args"]] == ["python", *COMMAND]
    assert "$$(HOME)" in container["args"][3]


def test_a_refusal_is_not_tried_again() -> None:
    """Exit code 78 fails the job; the rule names the container that there is."""
    for ranks in (1, 3):
        *_, job = objects(Pods(name="a", image=IMAGE, ranks=ranks), Needs(architecture="amd64", cpus=1))
        rule = job["spec"]["podFailurePolicy"]["rules"][0]
        (container,) = job["spec"]["template"]["spec"]["containers"]
        assert (rule["action"], rule["onExitCodes"]["values"]) == ("FailJob", [78])
        assert rule["onExitCodes"]["containerName"] == container["name"]
        assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never", "or there is no failure policy"


def test_gpus_come_from_the_lock() -> None:
    """Whole GPUs with the label of their model, slices as the resource of their profile."""
    needs = Needs(architecture="arm64", cpus=1, gpus=2, model="NVIDIA H100 80GB HBM3")
    (job,) = objects(Pods(name="a", image=IMAGE), needs)
    pod = job["spec"]["template"]["spec"]
    assert pod["nodeSelector"]["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert pod["nodeSelector"]["kubernetes.io/arch"] == "arm64"
    assert pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "2"
    needs = Needs(architecture="amd64", cpus=1, gpus=1, mig="3g.40gb")
    (job,) = objects(Pods(name="a", image=IMAGE), needs)
    limits = job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"cpu": "1", "nvidia.com/mig-3g.40gb": "1"}


@pytest.mark.parametrize(
    ("policy", "condition"),
    [
        ("exact", ".compareTo(semver('580.9.4')) == 0"),
        ("at least", ".compareTo(semver('580.9.4')) >= 0"),
        ("same branch", ".major() == 580"),
        ("exact, warn", ""),
        ("any", ""),
    ],
)
def test_a_claim_states_what_the_guard_would_refuse(policy: Policy, condition: str, tmp_path: Path) -> None:
    """A driver's version in three numbers without leading zeros, as the policy means it; not what only warns."""
    gpu = Gpu(driver="580.09.04", devices=(GpuDevice(mig="3g.40gb", count=3),))
    hardware = Hardware(gpu=gpu, policy={"gpu.driver": policy})
    claim, *_, job = yaml.safe_load_all(written(tmp_path, Pods(name="a", image=IMAGE, claims=True), hardware))
    (request,) = claim["spec"]["spec"]["devices"]["requests"]
    assert (request["exactly"]["deviceClassName"], request["exactly"]["count"]) == ("mig.nvidia.com", 3)
    device = "device.attributes['gpu.nvidia.com']"
    expected = [f"{device}.profile == '3g.40gb'", *([f"{device}.driverVersion{condition}"] if condition else [])]
    assert [each["cel"]["expression"] for each in request["exactly"]["selectors"]] == [" && ".join(expected)]
    pod = job["spec"]["template"]["spec"]
    assert pod["resourceClaims"][0]["resourceClaimTemplateName"] == claim["metadata"]["name"]
    (container,) = pod["containers"]
    assert container["resources"]["claims"] == [{"name": pod["resourceClaims"][0]["name"]}]
    assert not [name for name in container["resources"]["limits"] if "nvidia" in name], "or it would get them twice"


def test_gpus_of_two_kinds_are_two_requests(tmp_path: Path) -> None:
    """Each with its own number and model."""
    devices = (GpuDevice(model="NVIDIA L4", count=1), GpuDevice(model="NVIDIA H200", count=2))
    hardware = Hardware(gpu=Gpu(devices=devices))
    claim, _ = yaml.safe_load_all(written(tmp_path, Pods(name="a", image=IMAGE, claims=True), hardware))
    requests = claim["spec"]["spec"]["devices"]["requests"]
    assert [(each["name"], each["exactly"]["count"]) for each in requests] == [("gpu-0", 1), ("gpu-1", 2)]
    assert "'NVIDIA H200'" in requests[1]["exactly"]["selectors"][0]["cel"]["expression"]


def test_a_model_does_not_get_out_of_its_selector(tmp_path: Path) -> None:
    """A quote in a model's name is an error, and so is a claim of a lock without GPUs."""
    hardware = Hardware(gpu=Gpu(devices=(GpuDevice(model="x' || true || '"),)))
    with pytest.raises(UsageError, match=r"gpu\.model"):
        written(tmp_path, Pods(name="a", image=IMAGE, claims=True), hardware)
    with pytest.raises(UsageError, match="--dra"):
        written(tmp_path, Pods(name="a", image=IMAGE, claims=True))


@pytest.mark.parametrize(
    ("kind", "first"), [("job", "a-0.a"), ("jobset", "a-train-0-0.a"), ("trainjob", "a-node-0-0.a")]
)
def test_ranks_find_the_first_one(kind: Kind, first: str, tmp_path: Path) -> None:
    """Its address is the name that the kind's controller gives it; the failure policy names the container there is."""
    text = written(tmp_path, Pods(name="a", image=IMAGE, ranks=2, kind=kind))
    *_, job = (value for value in yaml.safe_load_all(text) if value["kind"] in ("Job", "JobSet", "TrainingRuntime"))
    spec = job["spec"]["template"]["spec"] if kind == "trainjob" else job["spec"]
    if kind != "job":
        (one,) = spec["replicatedJobs"]
        spec = one["template"]["spec"]
        assert "subdomain" not in spec["template"]["spec"], "the set's controller gives it"
    (container,) = spec["template"]["spec"]["containers"]
    assert {each["name"]: each.get("value") for each in container["env"]}["MASTER_ADDR"] == first
    assert spec["podFailurePolicy"]["rules"][0]["onExitCodes"]["containerName"] == container["name"]


@pytest.mark.parametrize(
    ("option", "fields"),
    [
        ("--name", {"name": "A"}),
        ("--name", {"name": "a\n"}),
        ("--name", {"name": "a" * 53}),
        ("--name", {"name": "a" * 45, "kind": "jobset"}),
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
