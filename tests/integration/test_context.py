"""The Dockerfile builds, offline and without envbuild, what envbuild assembles: compared path by path."""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from envbuild.core.progress import Silent
from envbuild.engine.docker.adapter import connect
from envbuild.image.assemble import Built, assemble
from envbuild.image.dockerfile import render, write_context
from envbuild.image.os.rootfs import build_os_layer
from envbuild.image.plan.model import plan
from envbuild.lockfile.model import Hardware, Lock, PythonPackage, Wheel
from envbuild.store.objects import Store
from tests.support.images import assembled_tree, differences, docker_build
from tests.support.oslocks import os_lock, real_os, shared_store
from tests.support.wheels import Member, make_wheel

docker = pytest.importorskip("docker")
pytestmark = [pytest.mark.engine, pytest.mark.network]

TAG = f"envbuild-test-context-{os.getpid()}:latest"


def test_a_context_builds_the_assembled_image(tmp_path: Path, images: Any) -> None:
    """Every path of both images has the same type, mode, owner, link target, attributes and content."""
    store = shared_store()
    lock = _lock(tmp_path, store)
    built = _assemble(lock, store)
    write_context(render(lock), store.path, tmp_path / "context")
    docker_build(images, tmp_path / "context", TAG)

    expected = assembled_tree(built)
    assert "opt/env/bin/greet" in expected
    assert any(path.endswith(".pyc") and path.startswith("opt/env/") for path in expected)
    assert differences(images, TAG, built) == {}
    _check_config(built, images.inspect_image(TAG)["Config"])


@pytest.fixture(name="images")
def _images() -> Iterator[Any]:
    """The docker SDK's client; the test's image is removed afterwards."""
    client = docker.from_env(timeout=600).api
    yield client
    for image in client.images(name=TAG):
        client.remove_image(image["Id"], force=True)


def _lock(folder: Path, store: Store) -> Lock:
    """A small lock with what is hard: a large wheel, scripts, data, odd names, variables that need quoting."""
    noise = random.Random(1).randbytes(5 << 20)  # too large for the shared layer, and not compressible
    wheels = [
        make_wheel(folder, "large", files={"large/__init__.py": "x = 1\n", "large/data.bin": noise}),
        make_wheel(
            folder,
            "greeting",
            files={"greeting/__init__.py": "def main():\n    print('hello')\n", "greeting/bad.py": "not python\n"},
            entry_points={"console_scripts": {"greet": "greeting:main"}},
            data={"scripts/run-it": "#!python\nprint(1)\n", "data/share/greeting/ünicode.txt": "x"},
            members=[Member(name="greeting/tool.sh", data=b"#!/bin/sh\n", mode=0o755)],
        ),
        make_wheel(folder, "other-name", files={"other_name.py": "VALUE = {1, 2, 3}\n", "large/extra.py": "y = 2\n"}),
    ]
    packages = []
    for path in wheels:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        store.add_file(path, digest)
        name, version = path.name.split("-")[:2]
        wheel = Wheel(name=path.name, size=path.stat().st_size, sha256=digest)
        packages.append(PythonPackage(name=name.replace("_", "-"), version=version, wheel=wheel))
    return os_lock(
        real_os("debian-12", "python3.11"),
        packages=tuple(packages),
        hardware=Hardware(kernel=">=4.0"),
        environment={"LANG": "C.UTF-8", "TRICKY": """a "b" $HOME ${X} \\ 'c' # d"""},
    )


def _assemble(lock: Lock, store: Store) -> Built:
    engine = connect()

    def build_os(output: Path, stream: Any) -> Any:
        return build_os_layer(lock.os, store.path, engine, output, Silent(), stream)

    return assemble(plan(lock), lock, cache=store, runner=engine, build_os=build_os, progress=Silent())


def _check_config(built: Built, found: dict[str, Any]) -> None:
    """The Dockerfile's image starts as the assembled one does."""
    expected = msgspec.json.decode(built.image.config)["config"]
    assert sorted(found["Env"]) == sorted(expected["Env"])
    for field in ("Entrypoint", "Cmd", "WorkingDir", "Labels"):
        assert found[field] == expected[field]
