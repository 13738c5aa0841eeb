"""Which lock a command takes where a spec has platforms, and what their locks share."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from envbuild.core import platforms
from envbuild.errors import LockError, UsageError
from envbuild.host.facts import Cpu, HostFacts
from envbuild.lockfile import model as locks
from envbuild.operations import load_lock
from envbuild.operations.lock_hardware import Host
from envbuild.operations.lock_options import LockOptions
from envbuild.operations.lock_siblings import Siblings, other_versions, shared_pins
from envbuild.spec.model import parse_spec
from tests.support.locks import small_lock


def _lock(name: str, architecture: str, variant: str = "", platform: str | None = None, **wheels: bytes) -> locks.Lock:
    files = {f"{wheel}-py3-none-any.whl".replace("_", "-", 1): data for wheel, data in wheels.items()}
    lock = small_lock(files, name=name)
    return msgspec.structs.replace(
        lock,
        os=msgspec.structs.replace(lock.os, architecture=architecture, packages=(_deb(architecture),)),
        variant=variant,
        platform=architecture if platform is None else platform,
    )


def _deb(architecture: str, version: str = "1.0") -> locks.OsPackage:
    path = f"pool/main/b/bash/bash_{version}_{architecture}.deb"
    return locks.OsPackage(
        name="bash", version=version, architecture=architecture, archive="debian", path=path, size=1,
        sha256=("a" if architecture == "amd64" else "b") * 64,
    )  # fmt: skip


@pytest.fixture(name="folder")
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two variants for two platforms, on a machine of arm64."""
    monkeypatch.setenv("ENVBUILD_STORE", str(tmp_path / "store"))
    for module in (load_lock, platforms):
        monkeypatch.setattr(module, "own_machine", lambda: "aarch64")
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for variant in ("cpu", "gpu"):
        for architecture in ("amd64", "arm64"):
            _write(folder, _lock(f"t-{variant}-{architecture}", architecture, variant))
    return folder


def _write(folder: Path, lock: locks.Lock) -> Path:
    path = folder / lock.file_name
    path.write_bytes(locks.dumps(lock))
    return path


def chosen(variant: str | None = None, platform: str | None = None) -> str:
    """Return the name part of the lock that a command takes."""
    found = load_lock.lock_of_variant(None, variant, platform=platform)
    assert found is not None
    return found.name.removeprefix("pylock.").removesuffix(".toml")


def test_the_lock_of_this_machine_is_taken(folder: Path) -> None:
    """Of one variant the machine's own platform, unless another one is named."""
    assert chosen("cpu") == "t-cpu-arm64"
    assert chosen("cpu", "amd64") == "t-cpu-amd64"
    for name in ("amd64", "arm64"):
        (folder / f"pylock.t-gpu-{name}.toml").unlink()
    assert load_lock.load_lock(None).lock.name == "t-cpu-arm64"
    assert chosen(platform="amd64") == "t-cpu-amd64"
    found = [path.name for path in load_lock.locks_of_platforms(None)]
    assert found == ["pylock.t-cpu-amd64.toml", "pylock.t-cpu-arm64.toml"]
    assert load_lock.platforms_meant(None, None, "amd64") == (folder / "pylock.t-cpu-amd64.toml",)
    assert load_lock.platforms_meant(Path("x"), None, None) == (Path("x"),)
    assert len(load_lock.platforms_meant(None, "cpu", None)) == 2


def test_what_cannot_be_meant(folder: Path) -> None:
    """Several variants, a platform that is not there, a platform and a lock; another spec's lock next to them."""
    with pytest.raises(UsageError) as caught:
        load_lock.load_lock(None)
    assert caught.value.hint == "choose one, by its variant: --variant cpu"
    with pytest.raises(UsageError, match="has several locks of platform amd64: "):
        chosen(platform="amd64")
    with pytest.raises(UsageError, match=r'no lock of platform "arm": it has amd64, arm64 — perhaps you meant arm64'):
        chosen("cpu", "arm")
    with pytest.raises(UsageError, match="names the lock already") as caught:
        load_lock.lock_of_variant(folder / "x", None, platform="amd64")
    assert caught.value.hint == "leave out either the lock or --platform"
    with pytest.raises(UsageError, match=r'no lock of variant "tpu"'):
        chosen("tpu", "amd64")
    _write(folder, _lock("u", "arm64", platform=""))
    assert load_lock.of_this_machine(sorted(folder.glob("pylock.*"))) is None


def test_nothing_is_taken_that_cannot_run_unless_it_is_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine of no locked platform the choice is the user's."""
    monkeypatch.setattr(load_lock, "own_machine", lambda: "riscv64")
    with pytest.raises(UsageError, match="has several locks of variant cpu"):
        chosen("cpu")
    (folder / "pylock.t-cpu-amd64.toml").unlink()
    assert chosen("cpu") == "t-cpu-arm64"
    one = _write(folder, _lock("alone", "amd64", platform=""))
    assert load_lock.locks_of_platforms(one) == (one,)


def test_a_lock_states_its_platform() -> None:
    """Its name ends in variant and platform; without platforms a lock has no such key; it is its architecture."""
    lock = _lock("t-cpu-arm64", "arm64", "cpu")
    assert locks.loads(locks.dumps(lock)) == lock
    assert lock.base_name == "t"
    assert b"\nplatform = " not in locks.dumps(_lock("t", "arm64", platform="")).split(b"[tool.envbuild.")[0]
    for wrong in (_lock("t-arm64-cpu", "arm64", "cpu"), _lock("t-amd64", "arm64", platform="amd64")):
        with pytest.raises(LockError):
            locks.dumps(wrong)


def test_platforms_share_versions_and_no_files() -> None:
    """Of another architecture only Python packages count; what moves one lock's system moves the next one's too."""
    first = _lock("t-amd64", "amd64", **{"x_1.0": b"1", "y_1.0": b"1"})
    own = _lock("t-arm64", "arm64", **{"y_2.0": b"2", "z_2.0": b"2"})
    moved = LockOptions(upgrade_packages=("y", "z", "bash", "python"))
    pins, options = shared_pins(own, Siblings(earlier=(first,)), moved, "arm64")
    assert pins is not None
    assert {p.name: p.version for p in pins.packages} == {"x": "1.0", "y": "1.0", "z": "2.0"}
    assert [package.architecture for package in pins.os.packages] == ["arm64"]
    assert options.upgrade_packages == ("z", "bash", "python")
    pins, _ = shared_pins(None, Siblings(earlier=(first,)), LockOptions(), "arm64")
    assert pins is not None
    assert (pins.os.architecture, pins.os.packages, pins.emulators, pins.python.build) == ("arm64", (), (), None)
    assert [package.name for package in pins.packages] == ["x", "y"]
    assert other_versions(own, [first]) == ["not as in platform amd64: y 2.0 (1.0)"]


def test_a_host_is_of_one_platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found on this machine is locked for its platform; the other one's lock keeps what it has."""
    spec = parse_spec("name: t\nplatforms: [amd64, arm64]\n")
    cpu = Cpu(model="m", level="x86-64-v3", flags=("avx2",), visible=1, total=1)
    facts = HostFacts(kernel="6.1", machine="x86_64", libc="", memory=1, cpu=cpu)
    monkeypatch.setattr("envbuild.operations.lock_hardware._this_machine", lambda: facts)
    found = [Host.of(each, tmp_path / "spec.yaml", "detect", None).lock(None).cpu for each in spec.locked]
    assert found == ["x86-64-v3", "any"]
