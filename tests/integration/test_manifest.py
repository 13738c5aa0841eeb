"""Manifests against the published schemas of Kubernetes, JobSet and Kubeflow's Trainer, as other programs have them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from envbuild.lockfile import model as locks
from envbuild.operations.manifest import Pods, kubernetes_manifest
from tests.support.environments import environment
from tests.support.locks import small_lock

GOLDEN = Path(__file__).parents[1] / "golden" / "kubernetes"
VALID = {
    "1.31": {"job": "Job", "ranks": "Service Job"},
    "1.37": {
        "job": "Job",
        "ranks": "Service Job",
        "claims": "ResourceClaimTemplate Service Job",
        "jobset": "JobSet",
        "trainjob": "ResourceClaimTemplate TrainingRuntime TrainJob",
    },
}
MISTAKES = [
    ("ranks", "podFailurePolicy", "podFailurePolice"),
    ("ranks", "backoffLimit: 0", "backoffLimit: none"),
    ("claims", "allocationMode", "allocationMood"),
    ("jobset", "replicas: 1", "replica: 1"),
    ("jobset", "podFailurePolicy", "podFailurePolice"),
    ("trainjob", "runtimeRef", "runtimeReference"),
    ("trainjob", "numNodes: 4", "numNodes: four"),
]
_VALIDATE = """
import sys, yaml, kubernetes_validate
from kubeflow_trainer_api import models
others = {
    "JobSet": models.JobsetV1alpha2JobSet,
    "TrainJob": models.TrainerV1alpha1TrainJob,
    "TrainingRuntime": models.TrainerV1alpha1TrainingRuntime,
}

def validate(value):
    if value["kind"] not in others:
        kubernetes_validate.validate(value, sys.argv[1], strict=True)
    elif others[value["kind"]].from_dict(value).to_dict() != value:  # these models drop what they do not know
        raise ValueError("a property that the schema does not have")
    return value["kind"]

for path in sys.argv[2:]:
    try:
        print(*[validate(value) for value in yaml.safe_load_all(open(path))])
    except (ValueError, kubernetes_validate.ValidationError) as error:
        print("invalid:", str(error).splitlines()[0])
"""


def _validated(paths: Sequence[Path], version: str = "1.37") -> list[str]:
    """The kinds of objects in each file, or ``invalid:`` and why."""
    variables = {**os.environ, "PYTHONPATH": str(environment("kubernetes"))}
    command = [sys.executable, "-c", _VALIDATE, version, *map(str, paths)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.network
def test_the_config_map_fits_the_schema(tmp_path: Path) -> None:
    """The lock as an object, and the volume that pods see it by."""
    lock = small_lock()
    (tmp_path / lock.file_name).write_bytes(locks.dumps(lock))
    image = "registry.example.com/team/t@sha256:" + "a" * 64
    found = kubernetes_manifest(["train.py"], Pods(name="", image=image), tmp_path / lock.file_name, config_map=True)
    (tmp_path / "job.yaml").write_text(found)
    (tmp_path / "wrong.yaml").write_text(found.replace("immutable: true", "immutable: perhaps"))
    good, bad = _validated([tmp_path / "job.yaml", tmp_path / "wrong.yaml"])
    assert good == "ConfigMap Job"
    assert bad.startswith("invalid:")


@pytest.mark.parametrize("version", VALID)
def test_manifests_are_valid(version: str) -> None:
    """What ``envbuild manifest`` prints (the golden files) keeps to the schemas, no property that they do not have."""
    expected = VALID[version]
    assert _validated([GOLDEN / f"{name}.yaml" for name in expected], version) == list(expected.values())


@pytest.mark.network
def test_the_validators_see_mistakes(tmp_path: Path) -> None:
    """A misspelt property and a wrong type are found, by the validator of each kind of object."""
    paths = []
    for number, (name, right, wrong) in enumerate(MISTAKES):
        text = (GOLDEN / f"{name}.yaml").read_text()
        assert right in text
        paths.append(tmp_path / f"{number}.yaml")
        paths[-1].write_text(text.replace(right, wrong))
    found = _validated(paths)
    assert [line.partition(":")[0] for line in found] == ["invalid"] * len(MISTAKES), found
