"""A base image by digest instead of Debian packages: locked, built twice the same, run, and its Dockerfile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from envbuild import lock as locks
from envbuild.engine.docker import connect
from envbuild.image.assemble import assemble
from envbuild.image.plan import plan
from envbuild.image.rootfs import build_os_layer
from envbuild.progress import Silent
from envbuild.store import Store
from tests.support.images import differences, docker_build
from tests.support.oslocks import real_os, shared_store
from tests.support.registry import Registry, forget, running_registry
from tests.support.rootfs import write_rootfs
from tests.support.wheels import make_wheel

docker = pytest.importorskip("docker")
pytestmark = [pytest.mark.engine, pytest.mark.network]

TAG = "envbuild-test-base:latest"
GREETING = "envbuild-test-greeting"
CHANGES = ["ENV BASE_SAYS=hello", "ENV PATH=/nowhere", "ENV PYTHONPATH=/nowhere", "ENV PYTHONHASHSEED=7", "USER nobody"]
SCRIPT = """
import json, os, sys
import envbuild_test_greeting
names = ("BASE_SAYS", "PYTHONPATH", "PYTHONHASHSEED")
print(json.dumps({"python": sys.version_info[:2], "base": sys.base_prefix, "greeting": envbuild_test_greeting.__file__,
                  "environment": {name: os.environ.get(name) for name in names}}))
"""


@dataclass(frozen=True)
class Project:
    """A folder with a spec over a base image, and a store of its own."""

    folder: Path
    store: Path

    def envbuild(self, *arguments: str, store: Path | None = None, **environment: str) -> tuple[int, str, str]:
        """Run the command there; returns exit code, standard output and standard error."""
        variables = {**os.environ, "ENVBUILD_STORE": str(store or self.store), **environment}
        command = [sys.executable, "-m", "envbuild", *arguments]
        done = subprocess.run(command, cwd=self.folder, env=variables, capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    def done(self, *arguments: str, store: Path | None = None, **environment: str) -> str:
        """Run the command, which must succeed."""
        code, output, errors = self.envbuild(*arguments, store=store, **environment)
        assert code == 0, output + errors
        return output

    @property
    def lock(self) -> locks.Lock:
        """The lock as it is."""
        return locks.load(self.folder / "pylock.t.toml")


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A registry of this module's own."""
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture(scope="module")
def image(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A base image in the registry: Debian with Python, and variables that are no good."""
    system = real_os("debian-12", "python3.11")
    tar = tmp_path_factory.mktemp("base") / "rootfs.tar"
    build_os_layer(system, shared_store().path, connect(), tar, Silent())
    reference = registry.push(tar, "team/base", CHANGES)
    yield reference
    forget(reference)


@pytest.fixture(scope="module")
def project(image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A locked project over the base image; the images it builds are removed afterwards."""
    folder = tmp_path_factory.mktemp("project")
    made = make_project(folder, f"os:\n  image: {image}\nrequirements: [{GREETING}]\nwheels: [wheels]\n")
    make_wheel(folder / "wheels", GREETING)
    (folder / "script.py").write_text(SCRIPT)
    made.done("lock")
    yield made
    client: Any = docker.from_env().api
    for built in {item["Id"] for name in ("envbuild/t", TAG) for item in client.images(name=name)}:
        client.remove_image(built, force=True)


def make_project(folder: Path, spec: str) -> Project:
    """A project that is not locked yet."""
    (folder / "spec.yaml").write_text(f"name: t\n{spec}")
    return Project(folder=folder, store=folder / "store")


def test_the_lock_names_image_and_file_system(project: Project, image: str) -> None:
    """Both digests are locked; Python and C library are those found in the image, its variables but ours too."""
    lock = project.lock
    assert (lock.os.image, lock.os.release, lock.os.packages) == (image, "debian-12", ())
    assert lock.python == locks.Python(
        version="3.11", executable="/usr/bin/python3.11", platform="manylinux_2_36_x86_64"
    )
    assert lock.environment["BASE_SAYS"] == "hello"
    assert lock.environment["PYTHONHASHSEED"] != "7"
    assert not {"PATH", "PYTHONPATH"} & lock.environment.keys()
    tar = Store(project.store).path(lock.os.image_rootfs)
    assert tar.stat().st_size == lock.os.image_size
    assert lock.added == {}


def test_locking_again_asks_no_engine(project: Project) -> None:
    """An image by digest never changes: the second lock has the same bytes, and needs nobody to tell."""
    before = (project.folder / "pylock.t.toml").read_bytes()
    project.done("lock", DOCKER_HOST="unix:///nowhere/docker.sock")
    assert (project.folder / "pylock.t.toml").read_bytes() == before


def test_builds_from_empty_stores_agree(project: Project, image: str, tmp_path: Path) -> None:
    """From the store, and from a store that has to pull the image again: one config digest."""
    forget(image)
    project.done("build")
    first = json.loads((project.folder / "pylock.t.image.json").read_text())
    output = project.done("build", "--output", f"oci:{tmp_path / 'image'}", store=tmp_path / "store")
    assert "reproduces the recorded digest" in output
    assert json.loads((project.folder / "pylock.t.image.json").read_text())["config"] == first["config"]
    labels = docker.from_env().images.get(first["reference"]).labels
    assert f"{labels['org.opencontainers.image.base.name']}@{labels['org.opencontainers.image.base.digest']}" == image


def test_programs_run_in_it(project: Project) -> None:
    """The guard lets the run begin, the image's Python runs it, and finds the locked wheel and variables."""
    found = json.loads(project.done("run", "script.py").splitlines()[-1])
    assert found == {
        "python": [3, 11],
        "base": "/usr",
        "greeting": "/opt/env/lib/python3.11/site-packages/envbuild_test_greeting.py",
        "environment": {
            "BASE_SAYS": "hello",
            "PYTHONPATH": None,
            "PYTHONHASHSEED": project.lock.environment["PYTHONHASHSEED"],
        },
    }


def test_the_context_builds_the_assembled_image(project: Project, image: str) -> None:
    """The Dockerfile needs neither registry nor network, and makes the same files."""
    forget(image)
    project.done("context", "context")
    client: Any = docker.from_env(timeout=600).api
    docker_build(client, project.folder / "context", TAG)
    lock, store, engine = project.lock, Store(project.store), connect()
    built = assemble(
        plan(lock),
        lock,
        cache=store,
        runner=engine,
        build_os=lambda output: build_os_layer(lock.os, store.path, engine, output, Silent()),
        progress=Silent(),
    )
    assert differences(client, TAG, built) == {}


def test_another_file_system_than_locked_is_refused(project: Project, tmp_path: Path) -> None:
    """Whatever a registry or engine gives, only the bytes that were locked are built on."""
    lock = project.lock
    altered = (project.folder / "pylock.t.toml").read_text().replace(lock.os.image_rootfs, "0" * 64)
    other = Project(folder=tmp_path, store=tmp_path / "store")
    (tmp_path / "pylock.t.toml").write_text(altered)
    code, _, errors = other.envbuild("fetch", store=tmp_path / "store")
    assert code == 13
    assert f"the file system of {lock.os.image} is not the one locked" in errors
    assert f"expected  sha256:{'0' * 64}" in errors
    assert f"found     sha256:{lock.os.image_rootfs}" in errors


def test_offline_needs_the_file_system_at_hand(project: Project, image: str, tmp_path: Path) -> None:
    """Without network, store and image, the error names what is missing."""
    forget(image)
    output = f"oci:{tmp_path / 'image'}"
    code, _, errors = project.envbuild("build", "--offline", "--output", output, store=tmp_path / "store")
    bare = image.replace(":1@", "@")
    assert code == 13
    assert f"neither store nor engine has {bare}" in errors


@pytest.mark.parametrize("python", ["3.12", "3.9"])
def test_a_python_that_the_image_lacks_is_told(python: str, project: Project, image: str, tmp_path: Path) -> None:
    """The error says which Python the image has, and what to write."""
    made = make_project(tmp_path, f'python: "{python}"\nos:\n  image: {image}\n')
    code, _, errors = made.envbuild("lock", store=project.store)
    assert code == 12
    assert f"python: {image} has Python 3.11, not {python}" in errors
    assert 'write in the spec: python: "3.11"' in errors


def test_a_digest_that_the_registry_lacks_is_told(registry: Registry, tmp_path: Path) -> None:
    """The error names the image and what to check; no lock is written."""
    made = make_project(tmp_path, f"os:\n  image: {registry.host}/team/base@sha256:{'a' * 64}\n")
    code, _, errors = made.envbuild("lock")
    assert code == 12
    assert f"os.image: cannot pull {registry.host}/team/base@sha256:{'a' * 64}: " in errors
    assert "check the digest, and that the engine may read that registry: docker pull" in errors
    assert not (tmp_path / "pylock.t.toml").exists()


def test_an_image_of_no_use_is_refused(registry: Registry, tmp_path: Path) -> None:
    """A system without Python is told at lock time, and bytes altered in the registry never get as far."""
    write_rootfs(tmp_path / "tiny.tar", ("true",))
    reference = registry.push(tmp_path / "tiny.tar", "team/tiny", [])
    made = make_project(tmp_path, f"os:\n  image: {reference}\n")
    try:
        code, _, errors = made.envbuild("lock")
        assert code == 12
        assert f"python: {reference} has no Python" in errors

        forget(reference)
        blob = registry.layer_blob(reference)
        data = bytearray(blob.read_bytes())
        data[len(data) // 2] ^= 1
        blob.write_bytes(data)
        code, _, errors = made.envbuild("lock", store=tmp_path / "other")
        assert code == 12
        assert f"os.image: cannot pull {reference.replace(':1@', '@')}: " in errors
    finally:
        forget(reference)


def test_no_engine_is_told(registry: Registry, tmp_path: Path) -> None:
    """Only an engine can read a registry; without one the error says how to get one."""
    made = make_project(tmp_path, f"os:\n  image: {registry.host}/team/base@sha256:{'a' * 64}\n")
    code, _, errors = made.envbuild("lock", DOCKER_HOST="unix:///nowhere/docker.sock")
    assert code == 15
    assert "no container engine answers" in errors
