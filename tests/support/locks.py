"""Small valid locks for tests."""

from __future__ import annotations

from collections.abc import Mapping

from envbuild.core.digest import sha256_bytes
from envbuild.lockfile.model import Determinism, Hardware, Lock, Os, OsPackage, Python, PythonPackage, Wheel


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
