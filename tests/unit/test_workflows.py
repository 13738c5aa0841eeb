"""The workflows under .github: pinned, with least rights, and made of steps that run here, too."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools import ci_images

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
NAMES = [path.stem for path in WORKFLOWS]
_PINNED = re.compile(r"[\w.-]+/[\w.-]+(/[\w.-]+)*@[0-9a-f]{40}")
_BOOTSTRAP = (
    "apt-get update && apt-get install --yes --no-install-recommends ca-certificates git make python3 python3-venv"
)
"""What a bare Debian container needs before the checkout: the only command that is no step of this repository."""


def load(path: Path) -> dict[str, Any]:
    """Read a workflow; YAML 1.1 reads ``on`` as true."""
    document = yaml.safe_load(path.read_text())
    return {"on" if name is True else name: value for name, value in document.items()}


def jobs(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from load(path)["jobs"].items()


def steps(path: Path) -> Iterator[dict[str, Any]]:
    for _, job in jobs(path):
        yield from job["steps"]


@pytest.fixture(name="targets", scope="module")
def _targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))


def test_there_are_four() -> None:
    """Tests, images, refresh, release."""
    assert NAMES == ["images", "refresh", "release", "tests"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=NAMES)
def test_actions_are_pinned_by_commit(path: Path) -> None:
    """Each foreign action is named by a commit, with its version next to it; one action is one commit everywhere."""
    lines = [line.strip() for line in path.read_text().splitlines() if re.match(r"\s*(- )?uses:", line)]
    assert lines
    for line in lines:
        assert re.fullmatch(r"(- )?uses: \S+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line
    used = {step["uses"] for file in WORKFLOWS for step in steps(file) if "uses" in step}
    assert all(_PINNED.fullmatch(name) for name in used)
    assert len({name.partition("@")[0] for name in used}) == len(used)


def test_images_are_pinned_by_digest() -> None:
    """No container is named by a tag alone, here or in what users get; one tag is one digest everywhere."""
    named: dict[str, set[str]] = {}
    for path in ci_images.files():
        for line in re.findall(r"(?im)^[ -]*image: (.+)$", path.read_text()):
            if line not in ("${{ matrix.image }}", "${{ matrix.builder.image }}", "$IMAGE"):
                assert ci_images.PINNED.fullmatch(line.strip('"')), f"{path.name}: {line}"
        for found in ci_images.PINNED.finditer(path.read_text()):
            named.setdefault(f"{found['name']}:{found['tag']}", set()).add(found["digest"])
        assert not re.search(r"debian:\d+(?![\d@])", path.read_text()), path.name
    assert {name: len(digests) for name, digests in named.items()} == {"debian:12": 1, "debian:13": 1}


def test_the_refresh_of_images_changes_digests_alone() -> None:
    """``make pins`` replaces each digest by the one that its tag has now, and nothing else."""
    text = f"image: debian:12@sha256:{'a' * 64}\nother: x\n"
    assert ci_images.moved(text, lambda name, tag: "b" * 64) == text.replace("a" * 64, "b" * 64)


_BLOCK = re.compile(r"^([a-z0-9-]+)==[^\n]*\\\n(?: +--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+", re.M)
_LOCKED = ("templates/ci/requirements.txt", ".github/actions/image/requirements.txt")
_ENVIRONMENTS = ("requirements-dev.txt", "requirements-docs.txt", "requirements-fuzz.txt")


@pytest.mark.parametrize("name", _LOCKED)
def test_what_pipelines_install_is_locked_by_digest(name: str) -> None:
    """Each line has digests and is a line of the tested environment's requirements."""
    text, tested = ((ROOT / path).read_text() for path in (name, "requirements-dev.txt"))
    assert _BLOCK.sub("", text) == ""
    assert _pins(text) <= _pins(tested)


@pytest.mark.parametrize("name", _ENVIRONMENTS)
def test_an_environment_is_made_of_what_is_locked(name: str) -> None:
    """Each line has digests; scripts/venv.sh finds its installer and envbuild's builder among them."""
    text = (ROOT / name).read_text()
    assert _BLOCK.sub("", text) == ""
    assert {"uv", "hatchling"} <= {match.group(1) for match in _BLOCK.finditer(text)}


def _pins(text: str) -> set[tuple[str, frozenset[str]]]:
    """Versions with their digests; which of them a system needs (the marker) is for each file to state."""
    blocks = [match.group() for match in _BLOCK.finditer(text)]
    return {(block.split()[0], frozenset(re.findall(r"sha256:\w+", block))) for block in blocks}


def test_what_pipelines_install_is_complete() -> None:
    """Every dependency of envbuild and of its builder is locked, the dependencies of these too: ``make cipins``."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    roots = {"templates/ci/requirements.txt": project["project"]["dependencies"]}
    roots[".github/actions/image/requirements.txt"] = project["build-system"]["requires"]
    for name, requirements in roots.items():
        found = {match.group(1) for match in _BLOCK.finditer((ROOT / name).read_text())}
        waiting, seen = [Requirement(each) for each in requirements], set()
        while waiting:
            requirement = waiting.pop()
            key = canonicalize_name(requirement.name)
            if key in seen or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
                continue
            seen.add(key)
            waiting += [Requirement(each) for each in metadata.distribution(key).requires or ()]
        assert seen <= found, name


_INSTALLS = re.compile(r"\bpip\"? (?:install|sync)[^&\n]*(?:\\\n[^\n]*)*")


@pytest.mark.parametrize(
    "name", ["templates/ci/envbuild.sh", ".github/actions/image/image.sh", "scripts/venv.sh", "scripts/refresh.sh"]
)
def test_nothing_is_installed_without_digests(name: str) -> None:
    """Whatever a job with a signing identity installs is compared with digests, or is this repository itself."""
    for command in _INSTALLS.findall((ROOT / name).read_text()):
        local = "--no-deps --no-build-isolation" in command and command.split()[-1] in (".", '"$root"')
        assert local or "--require-hashes" in command, command


def test_no_job_has_a_second_index() -> None:
    """An extra index is for files of the lock: in the environment of the steps that fetch them, and of no job."""
    for path in ci_images.files():
        for name, job in jobs(path) if path.name != "gitlab.yml" else ():
            assert "PIP_EXTRA_INDEX_URL" not in (job.get("env") or {}), f"{path.name} {name}"
            for step in job["steps"]:
                if "PIP_EXTRA_INDEX_URL" in (step.get("env") or {}):
                    assert not re.search(r"prepare|make", step["run"]), step["run"]
    script = (ROOT / "templates/ci/envbuild.sh").read_text()
    assert "env -u PIP_EXTRA_INDEX_URL" in script


@pytest.mark.parametrize("path", WORKFLOWS, ids=NAMES)
def test_rights_are_the_least(path: Path) -> None:
    """None by default; each job names its own; only what publishes may write."""
    assert load(path)["permissions"] == {}
    writing = set()
    for name, job in jobs(path):
        assert "permissions" in job, name
        assert job["timeout-minutes"] <= 90
        if "write" in job["permissions"].values():
            writing.add(f"{path.stem}.{name}")
    allowed = {"images": {"images.publish"}, "refresh": {"refresh.propose"}, "release": {"release.publish"}}
    assert writing == allowed.get(path.stem, set())


@pytest.mark.parametrize("path", WORKFLOWS, ids=NAMES)
def test_each_step_is_one_of_this_repository(path: Path, targets: set[str]) -> None:
    """A ``run`` is one line: a target of make, or a script that is there and may be run."""
    for step in steps(path):
        if "run" not in step or step["run"] == _BOOTSTRAP:
            continue
        program, *words = step["run"].split()
        assert "\n" not in step["run"].strip()
        if program == "make":
            assert {word for word in words if word != '"$PREPARE"'} <= targets
        else:
            assert os.access(ROOT / program, os.X_OK), program


@pytest.mark.parametrize("path", WORKFLOWS, ids=NAMES)
def test_nothing_untrusted_reaches_a_shell(path: Path) -> None:
    """No expression is in a command; pull requests of strangers never run with rights of the repository."""
    assert "pull_request_target" not in load(path)["on"]
    assert "workflow_run" not in load(path)["on"]
    for step in steps(path):
        assert "${{" not in step.get("run", "")


@pytest.mark.parametrize("path", WORKFLOWS, ids=NAMES)
def test_secrets_go_to_single_steps(path: Path) -> None:
    """No secret is in the environment of a job or workflow; checkouts keep no credentials."""
    assert "secrets." not in str(load(path).get("env", ""))
    for name, job in jobs(path):
        assert "secrets." not in str(job.get("env", "")), name
    for step in steps(path):
        if str(step.get("uses", "")).startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False
        for value in (step.get("env") or {}).values():
            assert "secrets." not in str(value) or value == "${{ secrets.GITHUB_TOKEN }}"


def test_what_users_get_is_pinned_alike() -> None:
    """What ``envbuild ci`` writes: the same commits, no rights by default, commands that are steps of its script."""
    path = ROOT / "templates" / "ci" / "github.yml"
    document = load(path)
    ours = {step["uses"] for file in WORKFLOWS for step in steps(file) if "uses" in step}
    assert {step["uses"] for step in steps(path) if "uses" in step} <= ours
    assert document["permissions"] == {}
    assert {name for name, job in jobs(path) if "write" in job["permissions"].values()} == {"publish"}
    script = (ROOT / "templates" / "ci" / "envbuild.sh").read_text()
    reported = [step["run"] for step in steps(path) if "run" in step]
    reported += [line for job in _gitlab_jobs() for line in job["script"]]
    for command in reported:
        program, name, step, *_ = command.split()
        assert (program, name) == ("sh", "ci/envbuild.sh")
        assert f"\n{step}() {{" in script
        assert "${{" not in command


@pytest.mark.subprocess
def test_no_step_runs_what_others_put_into_a_shared_folder(tmp_path: Path) -> None:
    """Programs in /tmp, or what TMPDIR names, come before nothing on the path: another user may have put them there."""
    planted = tmp_path / "shared" / "envbuild-ci" / "bin" / "envbuild"
    planted.parent.mkdir(parents=True)
    planted.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    planted.chmod(0o755)
    (tmp_path / "pylock.x.toml").touch()
    script = ROOT / "templates" / "ci" / "envbuild.sh"
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "shared")}
    done = subprocess.run(["sh", script, "build", "out"], cwd=tmp_path, env=environ, capture_output=True)
    assert done.returncode == 127, done.stderr
    assert not (tmp_path / "ran").exists()
    assert "/tmp" not in re.sub(r"(?m)^#.*", "", script.read_text())


def _gitlab_jobs() -> list[dict[str, Any]]:
    document = yaml.safe_load((ROOT / "templates" / "ci" / "gitlab.yml").read_text())
    found = [job for job in document.values() if isinstance(job, dict)]
    assert [job["stage"] for job in found] == document["stages"] == ["build", "compare", "publish"]
    return found


def test_the_action_hands_inputs_over_as_variables() -> None:
    """The composite action runs one script; inputs reach it in its environment and nowhere else."""
    folder = ROOT / ".github" / "actions" / "image"
    action = yaml.safe_load((folder / "action.yml").read_text())
    (step,) = action["runs"]["steps"]
    assert step["run"] == '"$GITHUB_ACTION_PATH/image.sh"'
    assert os.access(folder / "image.sh", os.X_OK)
    written = set(re.findall(r"^    echo \"(\w+)=", (folder / "image.sh").read_text(), re.M))
    assert written == set(action["outputs"])
    assert {f"${{{{ inputs.{name} }}}}" for name in action["inputs"]} == set(step["env"].values())


def test_steps_of_the_pipeline_exist() -> None:
    """Each step that a workflow asks of scripts/pipeline.sh is one that it has, with options that it knows."""
    from scripts.pipeline.__main__ import _parser

    asked = [step["run"] for path in WORKFLOWS for step in steps(path) if "pipeline.sh" in step.get("run", "")]
    assert len(asked) > 10
    for line in asked:
        words = [word.strip('"').replace("$BUILDER", "here") for word in line.split()[1:]]
        _parser().parse_intermixed_args(words)


@pytest.mark.parametrize("path", WORKFLOWS, ids=NAMES)
def test_runs_do_not_trample_on_each_other(path: Path) -> None:
    """Each workflow states what happens to a run that a newer one overtakes."""
    assert load(path)["concurrency"]["group"]


def test_what_is_built_follows_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a commit to compare with, everything is built; a small lock always is."""
    from scripts.pipeline import subject

    everything = sorted(path.parent.name for path in (ROOT / "lockfiles").glob("*/spec.yaml"))
    for since in ("", "0" * 40, "f" * 39, "--output=x"):
        assert subject.names_to_build(since) == everything
    answer = b"lockfiles/jax-cpu/spec.yaml\0lockfiles/README.md\0"
    monkeypatch.setattr(
        subject.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0, answer.decode(), "")
    )
    assert subject.names_to_build("a" * 40) == ["digits", "jax-cpu"]


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("tool", "variables", "code", "sentence"),
    [
        ("actionlint", {}, 3, "actionlint -color"),
        ("go", {}, 3, "go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12 -color"),
        ("", {}, 0, "not run, neither actionlint nor go is here"),
        ("", {"GITHUB_ACTIONS": "true"}, 1, "not run, neither actionlint nor go is here"),
    ],
)
def test_actionlint_runs_where_it_can_be_had(
    tmp_path: Path, tool: str, variables: dict[str, str], code: int, sentence: str
) -> None:
    """The one on PATH, else its pinned release by Go; without either it is reported, and on GitHub an error."""
    (tmp_path / "dirname").symlink_to("/usr/bin/dirname")
    if tool:
        (tmp_path / tool).write_text(f'#!/bin/sh\necho "{tool} $*"\nexit 3\n')
        (tmp_path / tool).chmod(0o755)
    command = ["/bin/sh", str(ROOT / "scripts/actionlint.sh"), "-color"]
    done = subprocess.run(
        command,
        env={"PATH": str(tmp_path), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.strip().removeprefix("actionlint: ")) == (code, sentence)
