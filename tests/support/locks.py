"""Small valid locks for tests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from envbuild.core.digest import sha256_bytes, sha256_file
from envbuild.errors import LockError
from envbuild.lockfile.model import (
    Determinism,
    Hardware,
    Lock,
    Os,
    OsPackage,
    Python,
    PythonBuild,
    PythonPackage,
    Wheel,
    loads,
)
from tests.support.pythons import RELEASE, file_name


def small_lock(
    wheels: Mapping[str, bytes] | None = None, debs: Mapping[str, bytes] | None = None, name: str = "t"
) -> Lock:
    """Return a lock over these files: content by wheel name (``a-1.0-py3-none-any.whl``) and by package file name."""
    return Lock(
        name=name,
        resolution={"spec": sha256_bytes(b"spec")},
        os=Os(release="debian-12", architecture="amd64", packages=tuple(_deb(*pair) for pair in (debs or {}).items())),
        python=Python(version="3.11", executable="/usr/bin/python3.11", platform="manylinux_2_36_x86_64"),
        packages=tuple(_wheel(*pair) for pair in (wheels or {}).items()),
        frameworks={},
        hardware=Hardware(),
        determinism=Determinism(level="ops", seed=0, threads=2),
        environment={"LANG": "C.UTF-8"},
    )


def standalone_lock(lock: Lock, archive: Path, version: str = "3.12.7") -> Lock:
    """Return a lock whose Python is a standalone build: this archive."""
    feature, path = version.rpartition(".")[0], f"{RELEASE}/{file_name(version)}"
    build = PythonBuild(version=version, path=path, size=archive.stat().st_size, sha256=sha256_file(archive))
    executable = f"/opt/python/bin/python{feature}"
    python = Python(version=feature, executable=executable, platform=lock.python.platform, build=build)
    return msgspec.structs.replace(lock, python=python)


def sealed(text: str) -> str:
    """Return an edited lock's text with the digest of its content, as somebody who edits it on purpose leaves it."""
    try:
        loads(text.encode())
    except LockError as error:
        return re.sub(r'(?m)^digest = ".*"$', f'digest = "{error.message.rsplit(" ", 1)[1]}"', text)
    return text


def _deb(file: str, data: bytes) -> OsPackage:
    name, version, architecture = file.removesuffix(".deb").split("_")
    return OsPackage(
        name=name,
        version=version,
        architecture=architecture,
        archive="debian",
        path=f"pool/main/{name[0]}/{name}/{file}",
        size=len(data),
        sha256=sha256_bytes(data),
    )


def _wheel(file: str, data: bytes) -> PythonPackage:
    name, version = file.split("-")[:2]
    wheel = Wheel(name=file, size=len(data), sha256=sha256_bytes(data))
    return PythonPackage(name=name.replace("_", "-").lower(), version=version, wheel=wheel)
