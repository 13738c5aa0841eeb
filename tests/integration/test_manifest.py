"""Manifests against the published schemas of Kubernetes, as another program has them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.environments import environment

GOLDEN = Path(__file__).parents[1] / "golden" / "kubernetes"
_VALIDATE = """
import sys, yaml, kubernetes_validate
for value in yaml.safe_load_all(open(sys.argv[1])):
    kubernetes_validate.validate(value, sys.argv[2], strict=True)
    print(value["kind"])
"""


def _validate(path: Path, version: str = "1.37") -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "PYTHONPATH": str(environment("kubernetes"))}
    command = [sys.executable, "-c", _VALIDATE, str(path), version]
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.network
@pytest.mark.parametrize("version", ["1.31", "1.37"])
@pytest.mark.parametrize(("name", "kinds"), [("job", ["Job"]), ("ranks", ["Service", "Job"])])
def test_manifests_are_valid(name: str, kinds: list[str], version: str) -> None:
    """What ``envbuild manifest`` prints (the golden files) keeps to the schemas, no property that they do not have."""
    done = _validate(GOLDEN / f"{name}.yaml", version)
    assert (done.returncode, done.stdout.split()) == (0, kinds), done.stderr


@pytest.mark.network
def test_the_validator_sees_mistakes(tmp_path: Path) -> None:
    """A misspelt property and a wrong type are found."""
    text = (GOLDEN / "ranks.yaml").read_text()
    for right, wrong in (("podFailurePolicy", "podFailurePolice"), ("backoffLimit: 0", "backoffLimit: none")):
        path = tmp_path / "wrong.yaml"
        path.write_text(text.replace(right, wrong))
        assert _validate(path).returncode != 0
