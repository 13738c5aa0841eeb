"""A vendored folder is of use to other installers too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from envbuild.core.progress import Silent
from envbuild.lockfile.model import Lock, Python
from envbuild.store.objects import Store
from envbuild.store.vendor import vendor
from tests.support.locks import small_lock
from tests.support.wheels import wheel_bytes

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.mark.parametrize("command", [["uv", "pip", "sync", "--offline"], ["pip", "install", "--no-index", "-r"]])
def test_other_installers_read_a_vendored_folder(tmp_path: Path, command: list[str]) -> None:
    """`uv pip sync` and `pip install -r` install the lock of a vendored folder, without a network, from anywhere."""
    wheels = {f"{name}-1.0-py3-none-any.whl": wheel_bytes(name, "1.0") for name in ("aa_one", "bb_two")}
    lock = small_lock(wheels)
    fields = {field: getattr(lock, field) for field in lock.__struct_fields__}
    platform = Python(version=VERSION, executable=f"/usr/bin/python{VERSION}", platform=lock.python.platform)
    lock = Lock(**(fields | {"python": platform}))
    store = Store(tmp_path / "store")
    for data in wheels.values():
        store.add_bytes(data)
    vendor(lock, store, tmp_path / "vendored", Silent())
    target = tmp_path / "target"
    run = [sys.executable, "-m", *command, str(tmp_path / "vendored/pylock.t.toml"), "--target", str(target)]
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
    subprocess.run(run, check=True, cwd=tmp_path, env=environ, capture_output=True)
    assert sorted(path.name for path in target.glob("*.py")) == ["aa_one.py", "bb_two.py"]
