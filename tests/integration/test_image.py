"""A real image of real wheels: the same from empty caches each time, loadable, and its environment works."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import pytest

from envbuild.core.digest import sha256_file
from envbuild.core.progress import Silent
from envbuild.engine.docker.adapter import connect
from envbuild.image.assemble import Built, assemble
from envbuild.image.bytecode.interpreter import interpreter_of
from envbuild.image.layer_cache import TAR
from envbuild.image.oci import layout
from envbuild.image.os.rootfs import build_os_layer
from envbuild.image.plan.model import plan
from envbuild.image.tar.layer import Layer
from envbuild.lockfile.model import Lock, PythonPackage, Wheel
from envbuild.store.objects import Store
from tests.support.locks import small_lock
from tests.support.oslocks import os_lock, real_os, shared_store
from tests.support.steps import LocalSteps, write_os_layer
from tests.support.wheels import wheel_bytes

docker = pytest.importorskip("docker")

TAG = f"envbuild-test-image-{os.getpid()}:latest"
NAMES = ("markdown-it-py", "mdurl", "pygments", "markupsafe")

# Runs in the image: every file of every distribution is there and as RECORD specifies; prints what was seen.
_PROBE = """
import base64, hashlib, importlib.metadata, json, sys
import markdown_it, markupsafe._speedups, pygments
seen = {}
for item in importlib.metadata.distributions():
    seen[item.metadata["Name"].lower()] = item.version
    assert item.read_text("INSTALLER") == "envbuild\\n"
    for file in item.files:
        data = file.locate().read_bytes()
        if file.hash:
            found = base64.urlsafe_b64encode(hashlib.new(file.hash.mode, data).digest()).rstrip(b"=").decode()
            assert found == file.hash.value, file
print(json.dumps({"prefix": sys.prefix, "base": sys.base_prefix, "seen": seen, "cached": pygments.__cached__}))
"""


class SplitStore(Store):
    """A store with empty caches whose files are those of the shared store."""

    def path(self, sha256: str) -> Path:
        """Return the shared store's path."""
        return shared_store().path(sha256)


@dataclass(frozen=True)
class Case:
    """A lock, and its image made from empty caches."""

    lock: Lock
    built: Built
    store: Store

    def again(self, store: Store, lock: Lock | None = None) -> Built:
        """Assemble once more, taking the OS layer from the first build; the interpreter compiles without it."""
        kinds = [layer.kind for layer in self.built.layers]
        blob = self.built.image.layers[kinds.index("os")]

        def copy(path: Path, stream: BinaryIO | None) -> Layer:
            path.write_bytes(blob.path.read_bytes())
            return Layer(diff_id=blob.digest, size=blob.size)

        lock = lock or self.lock
        return assemble(
            plan(lock), lock, cache=store, runner=connect(), build_os=copy, progress=Silent(),
            interpreter=interpreter_of(lock, store.path),
        )  # fmt: skip


@pytest.fixture(scope="module", name="case")
def _case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """The image, made once for all tests here."""
    folder = tmp_path_factory.mktemp("image")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest"]
    target = ["--python-version=3.11", "--platform=manylinux2014_x86_64", "--implementation=cp"]
    subprocess.run([*command, str(folder / "wheels"), *target, *NAMES], check=True)
    packages = []
    for path in sorted((folder / "wheels").iterdir()):
        digest = sha256_file(path)
        shared_store().add_file(path, digest)
        name, version = path.name.split("-")[:2]
        wheel = Wheel(name=path.name, size=path.stat().st_size, sha256=digest)
        packages.append(PythonPackage(name=name.lower().replace("_", "-"), version=version, wheel=wheel))
    lock = os_lock(real_os("debian-12", "python3.11"), packages=tuple(packages), name="image")
    store, engine = SplitStore(folder / "store"), connect()

    def build_os(path: Path, stream: BinaryIO | None) -> Layer:
        return build_os_layer(lock.os, store.path, engine, path, Silent(), stream)

    built = assemble(plan(lock), lock, cache=store, runner=engine, build_os=build_os, progress=Silent())
    return Case(lock=lock, built=built, store=store)


@pytest.fixture(name="client")
def _client() -> Iterator[Any]:
    """The docker SDK's client; the test's image is removed afterwards."""
    client = docker.from_env(timeout=600)
    yield client
    for image in client.images.list(name=TAG):
        client.images.remove(image.id, force=True)


@pytest.mark.engine
@pytest.mark.network
def test_the_environment_works(case: Case, client: Any) -> None:
    """The engine knows the image by its config digest; imports, metadata, RECORD and scripts work; bytecode is used."""
    engine = connect()
    engine.load(layout.docker_archive(case.built.image, TAG))
    found = engine.find_image(TAG)
    assert found is not None
    assert found.diff_ids == tuple(blob.digest for blob in case.built.image.layers)
    assert client.images.get(TAG).id in (
        f"sha256:{case.built.image.config_digest}",
        f"sha256:{case.built.image.manifest_digest}",
    )
    seen = json.loads(_run(client, "python", "-c", _PROBE))
    assert (seen["prefix"], seen["base"]) == ("/opt/env", "/usr")
    assert seen["seen"] == {package.name: package.version for package in case.lock.packages}
    assert _run(client, "pygmentize", "-V").startswith(b"Pygments version")
    assert b"code object from '" + seen["cached"].encode() in _run(client, "python", "-v", "-c", "import pygments")


@pytest.mark.engine
@pytest.mark.network
def test_empty_caches_give_the_same_image(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another store, umask, time zone and locale: the same configuration and manifest, bytecode included."""
    for name, value in {"TZ": "Asia/Tokyo", "LC_ALL": "C", "PYTHONHASHSEED": "1", "HOME": "/nowhere"}.items():
        monkeypatch.setenv(name, value)
    time.tzset()
    before = os.umask(0o077)
    try:
        again = case.again(SplitStore(tmp_path))
    finally:
        os.umask(before)
        monkeypatch.undo()
        time.tzset()
    assert again.image.config == case.built.image.config
    assert again.image.manifest == case.built.image.manifest


@pytest.mark.engine
@pytest.mark.network
def test_only_new_layers_are_sent(case: Case, client: Any) -> None:
    """After a change of the environment, the engine takes an archive without the layers it holds."""
    engine = connect()
    engine.load(layout.docker_archive(case.built.image, TAG))
    changed = msgspec.structs.replace(case.lock, environment={**case.lock.environment, "EXTRA": "1"})
    again = case.again(case.store, changed)
    chain = [blob.digest for blob in again.image.layers]
    assert [layer.reused for layer in again.layers] == [True] * (len(chain) - 1) + [False]
    if any(held[: len(chain) - 1] == tuple(chain[:-1]) for held in engine.held_layers() or ()):
        engine.load(layout.docker_archive(again.image, TAG, skip=set(chain[:-1])))
    else:
        engine.load(layout.docker_archive(again.image, TAG))
    assert _run(client, "python", "-c", "import os; print(os.environ['EXTRA'])") == b"1\n"


_KILLED = """
import os, signal, sys
from pathlib import Path
from tests.integration.test_image import offline_build
def die(path, stream):
    path.write_bytes(b"half a layer")
    os.kill(os.getpid(), signal.SIGKILL)
offline_build(Path(sys.argv[1]), die)
"""


def offline_build(folder: Path, build_os: Any = write_os_layer) -> Built:
    """Assemble a lock over one made wheel, without engine and network."""
    wheels = {"a-1.0-py3-none-any.whl": wheel_bytes("a", files={"a.py": "names = {'x', 'y'}\n"})}
    lock, store = small_lock(wheels), Store(folder / "store")
    store.add_bytes(*wheels.values())
    runner = LocalSteps(folder / "steps", fresh=True)
    return assemble(plan(lock), lock, cache=store, runner=runner, build_os=build_os, progress=Silent())


def test_a_killed_build_leaves_a_working_store(tmp_path: Path) -> None:
    """After kill -9 in the middle of a layer the next build gives the right image, and drops the half layer."""
    child = subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path)], cwd=Path(__file__).parents[2], check=False)
    assert child.returncode == -signal.SIGKILL
    halves = [path for path in (tmp_path / "store").rglob(TAR) if path.read_bytes() == b"half a layer"]
    assert len(halves) == 1
    assert offline_build(tmp_path).image.config == offline_build(tmp_path / "fresh").image.config
    assert not halves[0].exists()


def _run(client: Any, *command: str) -> bytes:
    """Run a command in the image, past its entry point; returns output and errors together."""
    return bytes(
        client.containers.run(
            TAG,
            [command[0], *command[1:]],
            entrypoint=["/usr/bin/env"],
            network_mode="none",
            remove=True,
            stdout=True,
            stderr=True,
        )
    )
