"""The runtime layer as bytes."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from envbuild.core.digest import sha256_bytes, sha256_file
from envbuild.errors import LockError
from envbuild.image.runtime import files as runtime
from envbuild.lockfile import layout
from envbuild.lockfile.hardware import POLICIES
from envbuild.lockfile.model import Hardware, dumps, lock_digest
from envbuild.runtime.guard import gate
from tests.support.runtime import make_lock


def test_files() -> None:
    """Everything is below /opt/envbuild but the start-up file; equal locks give equal bytes."""
    lock = make_lock()
    files = runtime.runtime_files(lock)
    assert list(files) == sorted(files)
    outside = [path for path in files if not path.startswith(f"{layout.RUNTIME_PREFIX}/")]
    assert outside == [f"{runtime.site_packages(lock)}/00-envbuild.pth"]
    assert files[layout.LOCK_PATH].data == dumps(lock)
    assert {file.mode for file in files.values()} == {0o644}
    assert runtime.runtime_files(make_lock()) == files
    for path, file in files.items():
        if path.endswith(".py"):
            ast.parse(file.data, feature_version=(3, 9))


def test_sources_do_not_depend_on_the_lock() -> None:
    """What may be compiled once for all images is in every one of them, unchanged."""
    files = runtime.runtime_files(make_lock(name="other"))
    sources = runtime.runtime_sources()
    assert sources
    assert all(files[path].data == data for path, data in sources.items())


def test_startup_file_is_one_ascii_line() -> None:
    """The locale decides how site reads it: nothing but ASCII is safe."""
    lock = make_lock()
    data = runtime.runtime_files(lock)[f"{runtime.site_packages(lock)}/{runtime.STARTUP}"].data
    assert data.isascii()
    assert data.startswith(b"import ")
    assert data.count(b"\n") == 1
    compile(data, "startup", "exec")


def test_expectations() -> None:
    """The guard is given what the lock holds, and the digest of every other runtime file."""
    lock = make_lock(
        packages={"numpy": "2.4.6", "keras": "3.15.1"}, hardware=Hardware(kernel=">=5.10", cpu="x86-64-v3")
    )
    files = runtime.runtime_files(lock)
    document = json.loads(files[layout.EXPECT_PATH].data)
    expect = document["expect"]
    digests = expect.pop("files")
    assert digests == {path: sha256_bytes(file.data) for path, file in files.items() if path != layout.EXPECT_PATH}
    assert expect == {
        "format": 1,
        "lock": "pylock.digits.toml",
        "identity": lock_digest(lock),
        "kernel": ">=5.10",
        "cpu": "x86-64-v3",
        "cpu-flags": [],
        "fingerprint": False,
        "gpu": None,
        "cuda": None,
        "policy": dict(POLICIES),
        "threads": 1,
        "environment": {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "42"},
        "interpreter": "/opt/env/bin/python",
        "site": runtime.site_packages(lock),
        "startup": "00-envbuild.pth",
        "distributions": {"keras": "3.15.1", "numpy": "2.4.6"},
    }


def test_expectations_carry_their_own_digest(tmp_path: Path) -> None:
    """expect.json is refused if it is altered, cut off, or not there."""
    data = runtime.runtime_files(make_lock())[layout.EXPECT_PATH].data
    path = tmp_path / "expect.json"
    path.write_bytes(data)
    assert gate.load_expectations(str(path))["lock"] == "pylock.digits.toml"
    path.write_bytes(data.replace(b'"threads": 1', b'"threads": 9'))
    with pytest.raises(gate.DamagedError, match=r"expect.json was altered after the build: its content does not have "):
        gate.load_expectations(str(path))
    for broken in (data[:100], b"[]", b'{"sha256": ""}'):
        path.write_bytes(broken)
        with pytest.raises(gate.DamagedError, match=r"expect\.json cannot be read: "):
            gate.load_expectations(str(path))
    path.unlink()
    with pytest.raises(gate.DamagedError, match=r"expect\.json cannot be read: .*No such file"):
        gate.load_expectations(str(path))


def test_kernel_range_is_checked_before_the_build() -> None:
    """A range the guard could not read is an error of the lock, not of a run."""
    with pytest.raises(LockError, match=r"^pylock\.digits\.toml: hardware\.kernel: '>>5' is not a version range$"):
        runtime.expectations(make_lock(hardware=Hardware(kernel=">>5")))


def test_entry_point() -> None:
    """The OS's interpreter, isolated, without site: no start-up file can come before the guard."""
    lock = make_lock()
    assert runtime.entrypoint(lock) == (lock.python.executable, "-I", "-S", "-B", "/opt/envbuild/guard.py")


def test_settings_module() -> None:
    """The hook's settings are the lock's."""
    settings: dict[str, object] = {}
    exec(runtime.config_module(make_lock(environment={"A": "'\"\\"})), settings)
    wanted = {"SEED": 42, "LEVEL": "ops", "THREADS": 1, "STRICT": True, "ENVIRONMENT": {"A": "'\"\\"}}
    assert {name: settings[name] for name in wanted} == wanted


def test_shipped_sources_are_this_package() -> None:
    """The modules in an image are the files the host and the tests use."""
    import envbuild.runtime.guard.checks as checks

    path = f"{runtime.LIBRARY}/_envbuild/guard/checks.py"
    assert sha256_bytes(runtime.runtime_sources()[path]) == sha256_file(Path(checks.__file__))
