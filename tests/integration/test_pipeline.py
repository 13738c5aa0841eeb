"""``scripts/pipeline.sh`` end to end: a tiny lock built on two builders, compared, published to a registry here."""

from __future__ import annotations

import base64
import json
import os
import re
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.registry import PASSWORD, USER
from tests.support.wheels import make_wheel

pytestmark = [pytest.mark.engine, pytest.mark.network]

ROOT = Path(__file__).parents[2]
NAME = f"pipeline{secrets.token_hex(4)}"
_SPEC = f"""\
name: {NAME}
os: debian-12
python: "3.11"
requirements: [tool]
wheels: [wheels]
determinism: {{threads: 1}}
"""


def pipeline(*words: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a step."""
    hidden = ("GITHUB_", "RUNNER_", "PIPELINE_", "COSIGN_PASSWORD")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    command = [ROOT / "scripts" / "pipeline.sh", *words]
    return subprocess.run(command, env={**variables, **environ}, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module", name="folder")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a lock of one small wheel."""
    folder = tmp_path_factory.mktemp("pipeline") / "tiny"
    make_wheel(folder / "wheels", "tool")
    (folder / "spec.yaml").write_text(_SPEC)
    environ = {**os.environ, "PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INDEX": "1"}
    command = [sys.executable, "-m", "envbuild", "lock"]
    subprocess.run(command, cwd=folder, env=environ, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module", name="whole")
def _whole(folder: Path) -> str:
    """What the whole pipeline states."""
    done = pipeline("run", folder, "--work", folder.parent / "work")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_an_image_is_built_twice_published_and_received(whole: str) -> None:
    """Two builders, one digest, reported twice; guard both ways; bills valid; pushed, signed, pulled by that digest."""
    reported = re.findall(rf"^(\w+) +{NAME}  (.*)$", whole, re.M)
    assert [step for step, _ in reported] == [
        *("fresh", "fetch", "build", "built", "build", "built", "compare", "compare", "compare"),
        *("guard", "guard", "example", "sbom", "push", "sign", "inspect", "pull", "image"),
    ]
    (here, elsewhere) = (text for step, text in reported if step == "build")
    assert "engine own" in here
    assert "engine none, date 20" in elsewhere
    assert "locale tr_TR.UTF-8, zone Pacific/Kiritimati" in elsewhere
    last = re.search(rf"^image +{NAME}  sha256:([0-9a-f]{{64}})  sha256:([0-9a-f]{{64}})  equal$", whole, re.M)
    assert last is not None
    assert last[1] == last[2]
    assert f"pull      {NAME}  sha256:{last[1]}, on an empty store, signature checked" in whole


def test_nothing_secret_is_reported(whole: str) -> None:
    """Neither the registry's password, plain or encoded, nor a private key is in the output."""
    for secret in (PASSWORD, base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode(), "PRIVATE KEY"):
        assert secret not in whole


@pytest.mark.usefixtures("whole")
def test_a_builder_that_leaks_is_found(folder: Path) -> None:
    """An image with its builder's mask in it: comparing and pushing end with exit code 16 and state where."""
    step = ("--work", folder.parent / "work", folder)
    built = pipeline("build", "--builder", "elsewhere", "--leak", *step)
    assert built.returncode == 0, built.stdout + built.stderr
    done = pipeline("compare", *step)
    assert done.returncode == 16
    assert done.stderr.splitlines() == [
        f"pipeline: {NAME}: the two builders made different images",
        "  all layers are equal; the configuration differs",
        f"  → see the path and field: envbuild build --verify pylock.{NAME}.toml",
    ]
    pushed = pipeline("push", "--registry", "127.0.0.1:9/nowhere", *step)
    assert pushed.returncode != 0
    assert "nowhere@sha256" not in pushed.stdout


def test_a_stale_lock_stops_it(folder: Path, tmp_path: Path) -> None:
    """A spec that moved on after its lock: exit code 11, and nothing is built."""
    (tmp_path / "spec.yaml").write_text(_SPEC.replace("threads: 1", "threads: 2"))
    for path in (*folder.glob("pylock.*.toml"), folder / "Dockerfile"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "wheels").symlink_to(folder / "wheels")
    done = pipeline("fresh", tmp_path, "--work", tmp_path / "work")
    assert done.returncode == 11
    assert "is stale" in done.stderr


def test_credentials_are_kept_for_their_owner_alone(tmp_path: Path) -> None:
    """``login`` writes a docker configuration that only its owner reads, and never prints the password."""
    user = {"REGISTRY_USER": "me", "REGISTRY_PASSWORD": "open sesame", "RUNNER_TEMP": str(tmp_path)}
    done = pipeline("login", "--registry", "registry.example.invalid/Me/Project", **user)
    assert (done.returncode, done.stdout) == (0, "login     registry.example.invalid as me\n")
    config = tmp_path / "docker" / "config.json"
    assert config.stat().st_mode & 0o777 == 0o600
    auth = base64.b64encode(b"me:open sesame").decode()
    assert json.loads(config.read_bytes()) == {"auths": {"registry.example.invalid": {"auth": auth}}}
