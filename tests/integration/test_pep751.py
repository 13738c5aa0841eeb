"""The Python part of a lock is a PEP 751 lock: other installers install it from a folder of wheels."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from packaging.pylock import Pylock

from envbuild.lockfile import model as locks
from envbuild.lockfile.model import Lock
from envbuild.resolve.python.pins import PythonRequest, resolve_python
from envbuild.resolve.python.wheels import Target
from tests.support.indexes import make_index
from tests.support.locks import small_lock
from tests.support.wheels import make_wheel

FEATURE = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def vendored(tmp_path: Path) -> Path:
    """Lock two small packages, one of them for this platform only, and put lock and wheels side by side."""
    tag = f"cp{FEATURE.replace('.', '')}-cp{FEATURE.replace('.', '')}-manylinux_2_17_{platform.machine()}"
    made = [
        make_wheel(tmp_path / "made", "top-pkg", "2.0+local.1", requires=["low-pkg"]),
        make_wheel(tmp_path / "made", "low-pkg", "1.5", {"low_pkg/__init__.py": "", "low_pkg/data.txt": "x"}, tag=tag),
    ]
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PIP_CONFIG_FILE": "/dev/null"}
    environ |= {"UV_CACHE_DIR": str(tmp_path / "cache"), "UV_NO_CONFIG": "1"}
    environ |= {"UV_DEFAULT_INDEX": make_index(tmp_path / "index", made).as_uri()}
    request = PythonRequest(
        target=Target(python=FEATURE, platform=f"manylinux_2_36_{platform.machine()}"),
        requirements=("top-pkg",),
        folder=tmp_path,
    )
    resolved = resolve_python(request, cache_dir=tmp_path / "sizes", environ=environ)
    lock = msgspec.structs.replace(
        small_lock(),
        name="small",
        packages=resolved.packages,
        python=locks.Python(version=FEATURE, executable="/usr/bin/python3", platform=request.target.platform),
    )
    return _write(tmp_path / "vendored", lock, tmp_path / "made")


def _write(folder: Path, lock: Lock, made: Path) -> Path:
    (folder / "wheels").mkdir(parents=True)
    for package in lock.packages:
        shutil.copy(made / package.wheel.name, folder / "wheels")
    path = folder / lock.file_name
    path.write_bytes(locks.dumps(lock))
    return path


def _installed(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*.dist-info")}


EXPECTED = {"low_pkg-1.5.dist-info", "top_pkg-2.0+local.1.dist-info"}


def test_packaging_accepts_it(vendored: Path) -> None:
    """The reference implementation of PEP 751 reads the lock and finds nothing to object to."""
    table = _load(vendored)
    Pylock.from_dict(table).validate()
    assert [package["name"] for package in table["packages"]] == ["low-pkg", "top-pkg"]


def test_uv_installs_it(vendored: Path, tmp_path: Path) -> None:
    """uv pip sync installs the Python part without any index."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "UV_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "uv", "pip", "sync", "--no-config", "--offline", "--target", str(tmp_path / "t")]
    done = subprocess.run(
        [*command, vendored.name], cwd=vendored.parent, env=environ, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    assert _installed(tmp_path / "t") == EXPECTED


def test_pip_installs_it(vendored: Path, tmp_path: Path) -> None:
    """pip install -r installs the Python part without any index, from release 26.1 on."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INDEX": "1"}
    command = [sys.executable, "-m", "pip", "install", "--target", str(tmp_path / "t"), "-r", vendored.name]
    done = subprocess.run(command, cwd=vendored.parent, env=environ, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    assert _installed(tmp_path / "t") == EXPECTED


def test_a_changed_wheel_is_refused_by_others_too(vendored: Path, tmp_path: Path) -> None:
    """The digests in the lock bind other installers as well."""
    wheel = next((vendored.parent / "wheels").glob("low_pkg*"))
    data = bytearray(wheel.read_bytes())
    data[10] ^= 1  # a time stamp of the zip: still a good wheel of the same size
    wheel.write_bytes(data)
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "UV_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "uv", "pip", "sync", "--no-config", "--offline", "--target", str(tmp_path / "t")]
    done = subprocess.run(
        [*command, vendored.name], cwd=vendored.parent, env=environ, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode != 0
    assert "Hash mismatch" in done.stderr
    assert _installed(tmp_path / "t") == set()


def _load(path: Path) -> dict[str, object]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(path.read_text())
