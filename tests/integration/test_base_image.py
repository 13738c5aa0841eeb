"""A base image by digest instead of Debian packages: locked, built twice the same, run, and its Dockerfile."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envbuild.core.progress import Silent
from envbuild.engine.docker.adapter import connect
from envbuild.image.assemble import assemble
from envbuild.image.os.rootfs import build_os_layer
from envbuild.image.plan.model import plan
from envbuild.lockfile import model as locks
from envbuild.store.objects import Store
from tests.support.cli import Project
from tests.support.images import differences, docker_build
from tests.support.locks import sealed
from tests.support.oslocks import real_os, shared_store
from tests.support.registry import Registry, forget, running_registry
from tests.support.rootfs import write_rootfs
from tests.support.wheels import make_wheel

docker = pytest.importorskip("docker")
pytestmark = [pytest.mark.engine, pytest.mark.network]

TAG = f"envbuild-test-base-{os.getpid()}:latest"
NAME = f"base{os.getpid()}"
GREETING = "envbuild-test-greeting"
CHANGES = ["ENV BASE_SAYS=hello", "ENV PATH=/nowhere", "ENV PYTHONPATH=/nowhere", "ENV PYTHONHASHSEED=7", "USER nobody"]
SCRIPT = """
import json, os, sys
import envbuild_test_greeting
names = ("BASE_SAYS", "PYTHONPATH", "PYTHONHASHSEED")
print(json.dumps({"python": sys.version_info[:2], "base": sys.base_prefix, "greeting": envbuild_test_greeting.__file__,
                  "environment": {name: os.environ.get(name) for name in names}}))
"""


def locked(project: Project) -> locks.Lock:
    """The lock as it is."""
    return locks.load(project.folder / f"pylock.{NAME}.toml")


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
    made.must("lock")
    yield made
    client: Any = docker.from_env().api
    for built in {item["Id"] for name in (f"envbuild/{NAME}", TAG) for item in client.images(name=name)}:
        client.remove_image(built, force=True)


def make_project(folder: Path, spec: str) -> Project:
    """A project that is not locked yet."""
    (folder / "spec.yaml").write_text(f"name: {NAME}\n{spec}")
    return Project(folder=folder, store=folder / "store")


def test_the_lock_names_image_and_file_system(project: Project, image: str) -> None:
    """Both digests are locked; Python and C library are those found in the image, its variables but ours too."""
    lock = locked(project)
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
    """An image by digest never changes: the second lock has the same bytes, and asks no registry."""
    before = (project.folder / f"pylock.{NAME}.toml").read_bytes()
    project.must("lock", DOCKER_HOST="unix:///nowhere/docker.sock")
    assert (project.folder / f"pylock.{NAME}.toml").read_bytes() == before


def test_builds_from_empty_stores_agree(project: Project, image: str, tmp_path: Path) -> None:
    """From the store, and from a store that has to pull the image again: one config digest."""
    forget(image)
    project.must("build")
    first = json.loads((project.folder / f"pylock.{NAME}.image.json").read_text())
    output = project.must("build", "--output", f"oci:{tmp_path / 'image'}", ENVBUILD_STORE=str(tmp_path / "store")).out
    assert "reproduces the recorded digest" in output
    assert json.loads((project.folder / f"pylock.{NAME}.image.json").read_text())["config"] == first["config"]
    labels = docker.from_env().images.get(first["reference"]).labels
    assert f"{labels['org.opencontainers.image.base.name']}@{labels['org.opencontainers.image.base.digest']}" == image


def test_without_an_engine_it_comes_from_its_registry(project: Project, tmp_path: Path) -> None:
    """The same lock and the same image, byte for byte; and a program runs in it, all without Docker."""
    own = project.copy(tmp_path, own_store=True)
    shutil.rmtree(own.store)
    (own.folder / f"pylock.{NAME}.toml").unlink()
    local = {"ENVBUILD_ENGINE": "local", "DOCKER_HOST": "unix:///nowhere/docker.sock"}
    own.must("lock", **local)
    assert (own.folder / f"pylock.{NAME}.toml").read_bytes() == (project.folder / f"pylock.{NAME}.toml").read_bytes()
    assert "reproduces the recorded digest" in own.must("build", **local).out
    assert json.loads(own.must("run", "script.py", **local).out.splitlines()[-1])["base"] == "/usr"


def test_programs_run_in_it(project: Project) -> None:
    """The guard lets the run begin, the image's Python runs it, and finds the locked wheel and variables."""
    found = json.loads(project.must("run", "script.py").out.splitlines()[-1])
    assert found == {
        "python": [3, 11],
        "base": "/usr",
        "greeting": "/opt/env/lib/python3.11/site-packages/envbuild_test_greeting.py",
        "environment": {
            "BASE_SAYS": "hello",
            "PYTHONPATH": None,
            "PYTHONHASHSEED": locked(project).environment["PYTHONHASHSEED"],
        },
    }


def test_the_context_builds_the_assembled_image(project: Project, image: str) -> None:
    """The Dockerfile needs neither registry nor network, and makes the same files."""
    forget(image)
    project.must("context", "context")
    client: Any = docker.from_env(timeout=600).api
    docker_build(client, project.folder / "context", TAG)
    lock, store, engine = locked(project), Store(project.store), connect()
    built = assemble(
        plan(lock),
        lock,
        cache=store,
        runner=engine,
        build_os=lambda output, stream: build_os_layer(lock.os, store.path, engine, output, Silent(), stream),
        progress=Silent(),
    )
    assert differences(client, TAG, built) == {}


def test_another_file_system_than_locked_is_refused(project: Project, tmp_path: Path) -> None:
    """Whatever a registry or engine gives, only the bytes that were locked are built on."""
    lock = locked(project)
    altered = (project.folder / f"pylock.{NAME}.toml").read_text().replace(lock.os.image_rootfs, "0" * 64)
    other = Project(folder=tmp_path, store=tmp_path / "store")
    (tmp_path / f"pylock.{NAME}.toml").write_text(sealed(altered))
    done = other("fetch")
    assert done.code == 13
    assert f"the file system of {lock.os.image} is not the one locked" in done.err
    assert f"expected  sha256:{'0' * 64}" in done.err
    assert f"found     sha256:{lock.os.image_rootfs}" in done.err


def test_offline_needs_the_file_system_at_hand(project: Project, image: str, tmp_path: Path) -> None:
    """Without network, store and image, the error names what is missing."""
    forget(image)
    output = f"oci:{tmp_path / 'image'}"
    done = project("build", "--offline", "--output", output, ENVBUILD_STORE=str(tmp_path / "store"))
    bare = image.replace(":1@", "@")
    assert done.code == 13
    assert f"neither store nor engine has {bare}" in done.err


@pytest.mark.parametrize("python", ["3.12", "3.9"])
def test_a_python_that_the_image_lacks_is_reported(python: str, project: Project, image: str, tmp_path: Path) -> None:
    """The error states which Python the image has, and what to write."""
    made = make_project(tmp_path, f'python: "{python}"\nos:\n  image: {image}\n')
    done = made("lock", ENVBUILD_STORE=str(project.store))
    assert done.code == 12
    assert f"python: {image} has Python 3.11, not {python}" in done.err
    assert 'write in the spec: python: "3.11"' in done.err


def test_a_digest_that_the_registry_lacks_is_reported(registry: Registry, tmp_path: Path) -> None:
    """The error names the image and what to check; no lock is written."""
    made = make_project(tmp_path, f"os:\n  image: {registry.host}/team/base@sha256:{'a' * 64}\n")
    done = made("lock")
    assert done.code == 12
    assert f"os.image: cannot pull {registry.host}/team/base@sha256:{'a' * 64}: " in done.err
    assert "check the digest, and that the engine may read that registry: docker pull" in done.err
    assert not (tmp_path / f"pylock.{NAME}.toml").exists()


def test_an_image_of_no_use_is_refused(registry: Registry, tmp_path: Path) -> None:
    """A system without Python is reported at lock time, and bytes altered in the registry never get as far."""
    write_rootfs(tmp_path / "tiny.tar", ("true",))
    reference = registry.push(tmp_path / "tiny.tar", "team/tiny", [])
    made = make_project(tmp_path, f"os:\n  image: {reference}\n")
    try:
        done = made("lock")
        assert done.code == 12
        assert f"python: {reference} has no Python" in done.err

        forget(reference)
        blob = registry.layer_blob(reference)
        data = bytearray(blob.read_bytes())
        data[len(data) // 2] ^= 1
        blob.write_bytes(data)
        done = made("lock", ENVBUILD_STORE=str(tmp_path / "other"))
        assert done.code == 12
        assert f"os.image: cannot pull {reference.replace(':1@', '@')}: " in done.err
    finally:
        forget(reference)


def test_no_engine_is_reported(registry: Registry, tmp_path: Path) -> None:
    """Only an engine can read a registry; without one the error states how to get one."""
    made = make_project(tmp_path, f"os:\n  image: {registry.host}/team/base@sha256:{'a' * 64}\n")
    done = made("lock", DOCKER_HOST="unix:///nowhere/docker.sock")
    assert done.code == 15
    assert "no container engine answers" in done.err
