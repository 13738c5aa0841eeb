"""``envbuild ci`` and the action: what they write and call is run here, against a registry with TLS and a password."""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from envbuild.core.own_wheel import own_wheel
from tests.support.cli import Project
from tests.support.cosign import PASSWORD as KEY_PASSWORD
from tests.support.cosign import cosign_program, make_keys
from tests.support.images import forget_images
from tests.support.registry import PASSWORD, USER, Registry, running_registry

pytestmark = [pytest.mark.engine, pytest.mark.network]

ROOT = Path(__file__).parents[2]
NAME = f"ci{secrets.token_hex(4)}"


@pytest.fixture(scope="module", name="registry")
def _registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with running_registry(tmp_path_factory.mktemp("registry"), secure=True) as running:
        yield running


def documented() -> list[list[str]]:
    """Return the commands of docs/how-to/ci.md that are marked as tested, block by block, without their comments."""
    page = (ROOT / "docs/how-to/ci.md").read_text()
    blocks = re.findall(r"<!-- tested -->\n(.*?)<!-- /tested -->", page, re.S)
    return [[line.split("  #")[0].strip() for line in block.strip().splitlines() if line.strip()] for block in blocks]


@pytest.fixture(scope="module", name="mine")
def _mine(made: Project, registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project made by the first commands of the page, its spec edited as it asks for; it trusts the registry."""
    project = made.copy(tmp_path_factory.mktemp("mine"))
    spec = (project.folder / "spec.yaml").read_text().replace("clitest", NAME)
    for file in (*project.folder.glob("pylock.*"), project.folder / "spec.yaml", project.folder / "Dockerfile"):
        file.unlink()
    assert registry.certificate is not None
    runner = project.folder.parent / "runner"
    project.environ |= {"SSL_CERT_FILE": str(registry.certificate), "RUNNER_TEMP": str(runner)}
    project.environ |= {f"GIT_{who}_{what}": "me" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    (runner / "envbuild-ci" / "bin").mkdir(parents=True)
    (runner / "envbuild-ci" / "bin" / "envbuild").symlink_to(Path(sys.executable).parent / "envbuild")
    subprocess.run(["git", "init", "--quiet", project.folder], check=True)
    for command in documented()[0]:
        done = run(project, "sh", "-c", command)
        assert done.returncode == 0, command + done.stderr
        if command == "envbuild init":
            project.write("spec.yaml", spec)
    yield project
    forget_images(f"envbuild/{NAME}")


def run(project: Project, *words: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    variables = project.environ | environ
    return subprocess.run(
        [str(word) for word in words], cwd=project.folder, env=variables, capture_output=True, text=True, check=False
    )


def test_build_compare_publish(mine: Project, registry: Registry) -> None:
    """Built twice, equal, pushed with a password that is not reported, signed by a key that is in a variable alone."""
    keys = make_keys(mine.folder.parent / "keys")
    *builds, comparing = documented()[1]
    for command in builds:
        built = run(mine, "sh", "-c", command)
        assert built.returncode == 0, built.stderr
    compared = run(mine, "sh", "-c", comparing)
    lines = compared.stdout.splitlines()
    assert lines[0].rpartition("  ")[2] == lines[1].rpartition("  ")[2]
    assert lines[2] == "compare   equal: every layer and the configuration"
    who = {"REGISTRY_USER": USER, "REGISTRY_PASSWORD": PASSWORD, "ENVBUILD_SIGN": "env://COSIGN_PRIVATE_KEY"}
    key = {"COSIGN_PRIVATE_KEY": Path(keys.private).read_text(), "COSIGN_PASSWORD": KEY_PASSWORD}
    cosign = {"ENVBUILD_COSIGN": cosign_program()}
    done = run(mine, "ci/envbuild.sh", "publish", f"{registry.host}/Team/Mine", "build/one", **who, **key, **cosign)
    assert done.returncode == 0, done.stderr
    assert not [word for word in (PASSWORD, KEY_PASSWORD, "PRIVATE KEY") if word in done.stdout + done.stderr]
    (published,) = json.loads((mine.folder / f"pylock.{NAME}.published.json").read_bytes())["references"]
    config = registry.docker_config(mine.folder.parent / "docker")
    demand = ("inspect", published, "--require-signature", keys.public)
    assert mine.must(*demand, DOCKER_CONFIG=str(config), **cosign).out.startswith(f"image     {published}")


def test_of_several_locks_one_is_named(mine: Project) -> None:
    """Which of them is the image decides nobody but the workflow: without ENVBUILD_LOCK the build stops."""
    (lock,) = mine.folder.glob("pylock.*.toml")
    (mine.folder / "pylock.another.toml").write_bytes(lock.read_bytes())
    refused = run(mine, "ci/envbuild.sh", "build", "build/several")
    (mine.folder / "pylock.another.toml").unlink()
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith(
        "ci        . holds 2 locks: set ENVBUILD_LOCK to one of them, such as ENVBUILD_LOCK=./"
    )
    absent = run(mine, "ci/envbuild.sh", "build", "build/several", ENVBUILD_LOCK="pylock.another.toml")
    assert absent.stderr == "ci        there is no lock pylock.another.toml: envbuild lock spec.yaml\n"
    built = run(mine, "ci/envbuild.sh", "build", "build/several", ENVBUILD_LOCK=lock.name)
    assert built.returncode == 0, built.stderr
    assert (mine.folder / "build/several/image").is_dir()


def test_what_is_committed_is_what_a_runner_needs(mine: Project) -> None:
    """The page's last two commands commit lock, digests, script and workflow."""
    command = ["git", "ls-files", "ci", ".github", "pylock.*"]
    listed = subprocess.run(command, cwd=mine.folder, check=True, capture_output=True, text=True).stdout
    assert listed.splitlines() == [
        ".github/workflows/image.yml",
        f"ci/{own_wheel()[0]}",
        "ci/envbuild.sh",
        "ci/requirements.txt",
        f"pylock.{NAME}.image.json",
        f"pylock.{NAME}.toml",
    ]


def test_a_runner_installs_what_is_committed(mine: Project) -> None:
    """Dependencies and envbuild by digest, without asking for another index; one changed byte of the wheel ends it."""
    command = (mine.folder / "ci/envbuild.sh").read_text()
    (install,) = re.findall(r"env -u [^\n]*\\\n[^\n]*\n", command)
    tools = mine.folder.parent / "fresh"
    subprocess.run([sys.executable, "-m", "venv", tools], check=True)
    variables = {**os.environ, "tools": str(tools), "here": str(mine.folder / "ci")}
    variables["PIP_EXTRA_INDEX_URL"] = "http://127.0.0.1:1/"  # nobody listens there

    def installed(line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["sh", "-c", line], env=variables, capture_output=True, text=True, check=False)

    done = installed(install)
    assert done.returncode == 0, done.stderr
    shown = run(mine, tools / "bin/envbuild", "--version")
    assert shown.stdout.startswith("envbuild "), shown.stderr
    wheel = mine.folder / "ci" / own_wheel()[0]
    good = wheel.read_bytes()
    wheel.write_bytes(good.replace(b"exit code", b"exit-code", 1))
    try:
        again = installed(install.replace(" install ", " install --force-reinstall --no-deps "))
    finally:
        wheel.write_bytes(good)
    assert again.returncode != 0
    assert "DO NOT MATCH THE HASHES" in again.stderr


def test_another_image_ends_it(mine: Project) -> None:
    """Digests that differ: exit code 16; and what was not compared is not pushed."""
    for name, text in (("one", "1"), ("other", "2")):
        mine.write(f"{name}/digests.json", f'{{\n  "config": "{text}"\n}}\n')
    done = run(mine, "ci/envbuild.sh", "compare", "one", "other")
    assert done.returncode == 16
    assert done.stderr == "ci        the two machines built different images\n"


def test_the_action_gives_its_outputs(mine: Project, registry: Registry) -> None:
    """Digest, configuration, reference and bill of materials are the step's outputs."""
    output = mine.folder.parent / "output"
    action = ROOT / ".github" / "actions" / "image" / "image.sh"
    who = {"REGISTRY_USER": USER, "REGISTRY_PASSWORD": PASSWORD}
    where = {"REFERENCE": f"{registry.host}/Team/Action:v1", "GITHUB_OUTPUT": str(output), "ENVBUILD_SPEC": "spec.yaml"}
    done = run(mine, action, VERIFY="false", **who, **where)
    assert done.returncode == 0, done.stderr
    given = dict(line.split("=", 1) for line in output.read_text().splitlines())
    recorded = json.loads((mine.folder / f"pylock.{NAME}.image.json").read_bytes())
    assert given == {
        "digest": f"sha256:{recorded['manifest']}",
        "config": f"sha256:{recorded['config']}",
        "reference": f"{registry.host}/team/action@sha256:{recorded['manifest']}",
        "sbom": given["sbom"],
    }
    assert json.loads(Path(given["sbom"]).read_bytes())["bomFormat"] == "CycloneDX"


def test_what_was_edited_stays(mine: Project) -> None:
    """A second ``ci`` changes nothing; an edited file is refused with the way on."""
    assert mine.must("ci", "github").out.splitlines()[0] == "wrote     ci/envbuild.sh"
    assert os.access(mine.folder / "ci" / "envbuild.sh", os.X_OK)
    mine.write(".gitlab-ci.yml", "stages: [mine]\n")
    done = mine("ci", "gitlab")
    assert done.code == 2
    assert done.err.splitlines() == [
        "envbuild: .gitlab-ci.yml exists already, with other content",
        "  → replace it: envbuild ci gitlab --force",
    ]
    assert (mine.folder / ".gitlab-ci.yml").read_text() == "stages: [mine]\n"
    mine.must("ci", "gitlab", "--force")
    assert "stages: [build, compare, publish]" in (mine.folder / ".gitlab-ci.yml").read_text()
