"""Images of another architecture: which emulator is locked, who runs their build steps, and that no program starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from envbuild.core import platforms
from envbuild.engine.docker.adapter import DockerEngine
from envbuild.engine.local.engine import LocalEngine
from envbuild.engine.protocol import Engine
from envbuild.errors import BuildError, EngineError
from envbuild.lockfile.model import Lock, Os, OsPackage
from envbuild.operations import emulation
from envbuild.operations.check import check_architecture
from envbuild.operations.events import Silent
from envbuild.resolve.debian import closure
from envbuild.runtime.guard import table
from envbuild.spec import model as specs
from envbuild.store.objects import Store
from tests.support.locks import small_lock

QEMU = OsPackage(
    name="qemu-user-static",
    version="1:7.2",
    architecture="amd64",
    archive="debian",
    path="pool/main/q/qemu/qemu-user-static_7.2_amd64.deb",
    size=9,
    sha256="a" * 64,
)
ARM = msgspec.structs.replace(small_lock(), os=Os(release="debian-12", architecture="arm64"))
LOCKED = msgspec.structs.replace(ARM, emulators=(QEMU,))


@pytest.fixture(autouse=True)
def _amd64(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, "x86_64")


def machine(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let this machine be another one."""
    for module in (emulation, platforms):
        monkeypatch.setattr(module, "own_machine", lambda: name)


@pytest.fixture(name="asked")
def _asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The archive has a newer emulator; the list has what it was asked for."""
    found: list[str] = []

    def resolve(request: closure.OsRequest, machine: str, *rest: object, **options: object) -> OsPackage | None:
        found.append(f"{request.release} {request.snapshot} {machine}")
        if request.release == "debian-13":
            return None
        return msgspec.structs.replace(QEMU, version="1:7.3", path=QEMU.path.replace("7.2", "7.3"))

    monkeypatch.setattr(closure, "resolve_emulator", resolve)
    return found


def locked(tmp_path: Path, old: Lock | None = None, *, upgrade: bool = False, **os: str) -> tuple[list[str], list[str]]:
    """Lock the emulators of a spec; returns versions and notes."""
    spec = specs.Spec(name="t", os=specs.Os(**{"release": "debian-12", "architecture": "arm64", **os}))
    packages, notes = emulation.lock_emulators(spec, old, Store(tmp_path), Silent(), refresh=False, upgrade=upgrade)
    return [package.version for package in packages], list(notes)


def test_an_emulator_is_locked_where_one_is_needed(tmp_path: Path, asked: list[str]) -> None:
    """Only for arm64: locks for amd64 ask for nothing, and keep their bytes; a base image is not built elsewhere."""
    assert locked(tmp_path) == (["1:7.3"], [])
    assert asked == ["debian-12  amd64"]
    assert locked(tmp_path, architecture="amd64") == ([], [])
    assert locked(tmp_path, image="x@sha256:" + "a" * 64) == ([], [])
    assert len(asked) == 1


def test_level_portable_has_an_emulator_of_its_own_machine(tmp_path: Path, asked: list[str]) -> None:
    """Other CPUs are emulated to compare the bits; levels without that promise need none, and arm64 has it already."""
    portable = specs.Determinism(level="portable", seed=42, threads=1)
    for architecture, expected in (("amd64", ["debian-12  amd64"]), ("arm64", ["debian-12  amd64"])):
        spec = specs.Spec(name="t", os=specs.Os(release="debian-12", architecture=architecture), determinism=portable)
        emulation.lock_emulators(spec, None, Store(tmp_path), Silent(), refresh=False, upgrade=False)
        assert asked == expected
        asked.clear()


def test_a_locked_emulator_stays(tmp_path: Path, asked: list[str]) -> None:
    """Like every pin: until an upgrade is asked for, or the system is another one."""
    assert locked(tmp_path, LOCKED) == (["1:7.2"], [])
    assert asked == []
    assert locked(tmp_path, LOCKED, upgrade=True) == (["1:7.3"], [])
    assert locked(tmp_path, LOCKED, snapshot="20260101T000000Z") == (["1:7.3"], [])
    assert locked(tmp_path, ARM) == (["1:7.3"], [])


def test_an_archive_without_emulators(tmp_path: Path, asked: list[str]) -> None:
    """The lock is made all the same; what that means for builds is a note."""
    assert locked(tmp_path, release="debian-13") == (
        [],
        [
            "the archive of debian-13 has no emulator for machines of amd64: the image can be built on arm64 only",
        ],
    )


def refusal(lock: Lock, engine: Any, store: Store) -> tuple[type[Exception], str, str | None]:
    with pytest.raises((BuildError, EngineError)) as caught:
        emulation.steps_for(lock, cast("Engine", engine), store)
    return type(caught.value), caught.value.message, caught.value.hint


def test_build_steps_of_another_architecture_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a locked emulator, or where the local engine does not work; with the ways that are left."""
    store = Store(tmp_path)
    elsewhere = "build it on such a machine; or bring the image in: envbuild pull"
    assert refusal(ARM, None, store) == (
        BuildError,
        "the lock is for arm64, this machine is amd64, and the lock has no emulator for it",
        elsewhere,
    )
    machine(monkeypatch, "riscv64")
    assert refusal(LOCKED, None, store)[1] == (
        "the lock is for arm64, this machine is riscv64, and the lock has no emulator for it"
    )
    machine(monkeypatch, "x86_64")
    monkeypatch.setattr(emulation, "_emulator", lambda lock, store: tmp_path)
    monkeypatch.setattr(LocalEngine, "reason_against", lambda self: ("no namespaces", "allow them"))
    assert refusal(LOCKED, None, store) == (
        EngineError,
        "the lock is for arm64 and this machine is not; emulation needs the local engine, which does not work here: "
        "no namespaces",
        f"allow them; or {elsewhere}",
    )


def test_an_engine_of_the_lock_s_architecture_needs_no_emulator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Docker engine on an arm64 machine runs the steps itself, as this machine does where it is one."""
    engine = cast(Any, DockerEngine.__new__(DockerEngine))
    monkeypatch.setattr(DockerEngine, "machine", lambda self: "aarch64")
    assert emulation.steps_for(ARM, engine, Store(tmp_path)) is engine
    machine(monkeypatch, "aarch64")
    monkeypatch.setattr(emulation, "step_runner", lambda engine, store: "native")
    assert cast(Any, emulation.steps_for(ARM, engine, Store(tmp_path))) == "native"


def test_what_emulates_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The local engine with the locked program; nothing where the engine's machine is of the lock's architecture."""
    store, docker = Store(tmp_path), cast(Any, DockerEngine.__new__(DockerEngine))
    local = LocalEngine(store, "")
    monkeypatch.setattr(LocalEngine, "machine", lambda self: "x86_64")
    monkeypatch.setattr(emulation, "_emulator", lambda lock, store: tmp_path / "emulator")
    found = emulation.emulator_for_run(LOCKED, cast("Engine", local), store)
    assert found is not None
    assert (found[0].machine, found[0].program) == ("aarch64", tmp_path / "emulator")
    assert found[1] == f"qemu-user-static 1:7.2 sha256:{'a' * 64}"
    with pytest.raises(BuildError, match="the lock has no emulator for it"):
        emulation.emulator_for_run(ARM, cast("Engine", local), store)
    monkeypatch.setattr(DockerEngine, "machine", lambda self: "x86_64")
    for reason, hint in (
        (None, "use it: export ENVBUILD_ENGINE=local"),
        (("no namespaces", "allow them"), "allow them"),
    ):
        monkeypatch.setattr(LocalEngine, "reason_against", lambda self, reason=reason: reason)
        with pytest.raises(EngineError, match="--emulate needs the local engine") as caught:
            emulation.emulator_for_run(LOCKED, docker, store)
        assert caught.value.hint == hint
    monkeypatch.setattr(DockerEngine, "machine", lambda self: "aarch64")
    assert emulation.emulator_for_run(LOCKED, docker, store) is None


def test_sources_are_not_built_for_another_architecture() -> None:
    """A compiler under emulation is no supported way."""
    with pytest.raises(BuildError) as caught:
        emulation.require_native("arm64", "sources: wheels would be built")
    assert caught.value.message == (
        "sources: wheels would be built for arm64 on a machine of amd64: that is not supported"
    )
    assert caught.value.hint == "lock on a machine of arm64, or name packages that have wheels for it"
    emulation.require_native("amd64", "sources: wheels would be built")


def test_no_program_starts_on_another_architecture() -> None:
    """The guard's table, with this one row: nothing else of such a machine matters."""
    found = check_architecture(ARM, "x86_64")
    assert found is not None
    assert not found.ok
    assert table.render(found.checks, found.lock) == (
        "envbuild: this host does not match pylock.t.toml — nothing was run\n"
        "  field              locked   found   what it means\n"
        "  cpu.architecture   arm64    amd64   "
        "its programs do not start here; under emulation they would compute other bits\n"
        "what to do:\n"
        "  run on a machine of arm64, or with an engine of one: export DOCKER_HOST=ssh://USER@HOST\n"
        "  have an image for amd64 too: platforms: [arm64, amd64] in the spec\n"
    )
    found = check_architecture(LOCKED, "x86_64")
    assert found is not None
    assert found.checks[0].fix.endswith("\ntry it under emulation, which the record states: envbuild run --emulate")
    for same in ("aarch64", "arm64", ""):
        assert check_architecture(ARM, same) is None
