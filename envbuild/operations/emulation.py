"""Build steps for another architecture than this machine's: which emulator a lock has, and what runs steps with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from envbuild.core.digest import sha256_json
from envbuild.core.platforms import MACHINES, architecture_of, own_machine
from envbuild.core.text import perhaps
from envbuild.errors import BuildError, EngineError, UsageError
from envbuild.lockfile import model as locks
from envbuild.operations.engines import local_engine, step_runner
from envbuild.store.objects import Store

if TYPE_CHECKING:
    from envbuild.engine.local.namespaces import NamespaceSteps
    from envbuild.engine.protocol import Emulator, Engine, StepRunner
    from envbuild.operations.events import Events
    from envbuild.spec.model import Spec

EMULATED = {"arm64": ("amd64",)}
"""Architectures of images that are built elsewhere too, with those of the machines; names are Debian's."""
PORTABLE = {"amd64": ("amd64",)}
"""The same for locks of level ``portable``: their machine's other CPUs are emulated, to compare the bits."""
_ELSEWHERE = "build it on such a machine; or bring the image in: envbuild pull"


def lock_emulators(
    spec: Spec, old: locks.Lock | None, store: Store, events: Events, *, refresh: bool, upgrade: bool
) -> tuple[tuple[locks.OsPackage, ...], tuple[str, ...]]:
    """Find the emulators that an image of the spec is built with on other machines; those of an earlier lock stay.

    Args:
        old: the earlier lock.
        refresh: ask the mirror even if what is kept of it is fresh.
        upgrade: take the newest ones.

    Returns:
        the packages, and sentences that a person should read.

    Raises:
        IntegrityError: an index does not arrive, or is not what it must be.
    """
    from envbuild.resolve.debian.closure import OsRequest, resolve_emulator

    machines = EMULATED.get(spec.os.architecture, ())
    if spec.determinism.level == "portable":
        machines = tuple(dict.fromkeys((*machines, *PORTABLE.get(spec.os.architecture, ()))))
    if not machines or spec.os.image:
        return (), ()
    if old and not upgrade and old.emulators and _system_of(old.os) == _system_of(spec.os):
        return old.emulators, ()
    request = OsRequest(
        release=spec.os.release,
        architecture=spec.os.architecture,
        packages=(),
        snapshot=spec.os.snapshot,
        mirror=spec.os.mirror,
    )
    folder = store.cache_dir("debian")
    found = [resolve_emulator(request, machine, folder, events, refresh=refresh) for machine in machines]
    lacking = ", ".join(machine for machine, package in zip(machines, found, strict=True) if package is None)
    lost = f"the image can be built on {spec.os.architecture} only"
    if spec.os.architecture in machines:
        lost = "envbuild verify cannot compare CPUs (--cpu-models)"
    note = f"the archive of {spec.os.release} has no emulator for machines of {lacking}: {lost}"
    return tuple(package for package in found if package), ((note,) if lacking else ())


def is_foreign(architecture: str) -> bool:
    """Return whether this machine is of another architecture; Debian's name."""
    return MACHINES.get(architecture) != own_machine()


def require_native(architecture: str, what: str) -> None:
    """Raise ``BuildError`` where ``what`` is asked for and this machine is of another architecture."""
    if is_foreign(architecture):
        raise BuildError(
            f"{what} for {architecture} on a machine of {architecture_of(own_machine())}: that is not supported",
            f"lock on a machine of {architecture}, or name packages that have wheels for it",
        )


def steps_for(lock: locks.Lock, engine: Engine | None, store: Store) -> StepRunner | NamespaceSteps:
    """Find what runs the build steps of a lock's image: of another machine's, the emulator in the local engine.

    Args:
        engine: what the command uses; None if it needs none but for build steps.
        store: holds the lock's files.

    Raises:
        BuildError: the lock has no emulator for this machine.
        EngineError: none works, or the local engine does not, which is what emulates.
    """
    from envbuild.engine.docker.adapter import DockerEngine
    from envbuild.engine.local.engine import LocalEngine

    if not is_foreign(lock.os.architecture):
        return step_runner(engine, store)
    if isinstance(engine, DockerEngine) and engine.machine() == MACHINES[lock.os.architecture]:
        return engine
    program = _emulator(lock, store)
    local = engine if isinstance(engine, LocalEngine) else local_engine(store)
    if why := local.reason_against():
        raise EngineError(
            f"the lock is for {lock.os.architecture} and this machine is not; emulation needs the local engine, which "
            f"does not work here: {why[0]}",
            f"{why[1]}; or {_ELSEWHERE}" if why[1] else _ELSEWHERE,
        )
    return local.emulating(MACHINES[lock.os.architecture], program)


def emulator_for_run(lock: locks.Lock, engine: Engine, store: Store) -> tuple[Emulator, str] | None:
    """Return what starts a lock's programs on this machine, and its name for the record; None if nothing has to.

    Args:
        engine: what the command uses.
        store: holds the lock's files.

    Raises:
        BuildError: the lock has no emulator for this machine.
        EngineError: the engine is not the local one, which alone emulates.
    """
    from envbuild.engine.local.engine import LocalEngine
    from envbuild.engine.protocol import Emulator

    if engine.machine() == MACHINES.get(lock.os.architecture):
        return None
    if not isinstance(engine, LocalEngine):
        raise _needs_local("--emulate", store)
    package = _package(lock)
    name = f"{package.name} {package.version} sha256:{package.sha256}"
    return Emulator(machine=MACHINES[lock.os.architecture], program=_emulator(lock, store)), name


def require_emulator(lock: locks.Lock, engine: Engine, store: Store) -> None:
    """Check that a lock's programs can be run on other CPUs here.

    Args:
        engine: what the command uses.
        store: of the local engine.

    Raises:
        BuildError: the lock has no emulator, or is for another architecture.
        EngineError: the engine is not the local one, which alone emulates.
    """
    from envbuild.engine.local.engine import LocalEngine

    if is_foreign(lock.os.architecture) or lock.os.architecture not in PORTABLE:
        raise BuildError(
            f"--cpu-models compares CPUs of amd64 on amd64; the lock is for {lock.os.architecture}, this machine is "
            f"{architecture_of(own_machine())}",
            "leave out --cpu-models",
        )
    if not lock.emulators:
        raise BuildError(
            f"the lock has no emulator: only locks of level portable have one (this one: {lock.determinism.level})",
            "in spec.yaml: determinism: {level: portable}; then: envbuild lock",
        )
    if not isinstance(engine, LocalEngine):
        raise _needs_local("--cpu-models", store)


def cpu_emulators(lock: locks.Lock, store: Store, models: Sequence[str]) -> tuple[tuple[Emulator, str], ...]:
    """Return what starts a lock's programs on other CPUs of this machine's kind, each with its name for the record.

    Args:
        store: holds the lock's emulator.
        models: of CPUs, as QEMU names them, such as ``Haswell``.

    Raises:
        UsageError: QEMU does not know a model, or it runs no programs of this kind.
    """
    from envbuild.engine.protocol import Emulator

    package, program = _package(lock), _emulator(lock, store)
    found = []
    for model in models:
        lacking = _lacking(program, model)
        emulator = Emulator(
            machine=MACHINES[lock.os.architecture], program=program, cpu=",".join((model, *(f"-{x}" for x in lacking)))
        )
        found.append((emulator, f"{package.name} {package.version}, CPU {model} sha256:{package.sha256}"))
    return tuple(found)


def _lacking(program: Path, model: str) -> tuple[str, ...]:
    """Return the features of a CPU that the emulator cannot emulate, as it warns of them in each program's output.

    It is asked by having it start itself.

    Raises:
        UsageError: it does not know the CPU, or that one cannot start the program.
    """
    import re
    import subprocess

    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", model) is None:
        raise UsageError(
            f"--cpu-models {model!r}: not the name of a CPU model", "such as: --cpu-models Nehalem,Haswell"
        )
    command = [str(program), "-cpu", model, str(program), "-version"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60, check=False)
    if done.returncode != 0:
        known = subprocess.run([str(program), "-cpu", "help"], capture_output=True, text=True, timeout=60, check=False)
        names = re.findall(r"^x86 (\S+)", known.stdout, re.MULTILINE)
        if model not in names:
            raise UsageError(
                f"--cpu-models {model}: QEMU knows no such CPU{perhaps(model, names)}",
                "Intel: Nehalem, SandyBridge, Haswell, Skylake-Client …; AMD: Opteron_G5, EPYC, EPYC-Rome …",
            )
        raise UsageError(f"--cpu-models {model}: programs of this machine do not start on it", "name a 64-bit CPU")
    return tuple(
        dict.fromkeys(re.findall(r"TCG doesn't support requested feature: [^\s]*?\.([\w.-]+) \[bit", done.stderr))
    )


def _needs_local(option: str, store: Store) -> EngineError:
    """Return the error where another engine than the local one is to emulate."""
    why = local_engine(store).reason_against()
    reason = f", which does not work here: {why[0]}" if why else ""
    return EngineError(
        f"{option} needs the local engine{reason}", (why[1] if why else "") or "use it: export ENVBUILD_ENGINE=local"
    )


def _emulator(lock: locks.Lock, store: Store) -> Path:
    """Return the program, unpacked once; marked if it emulates the machine that it runs on."""
    from envbuild.image.emulator import MARK, PROGRAM, mark_emulator, unpack_emulator

    package = _package(lock)
    machine = MACHINES[lock.os.architecture]
    native = not is_foreign(lock.os.architecture)
    key = sha256_json({"package": package.sha256, "machine": machine, "mark": MARK if native else 0})

    def unpack(folder: Path) -> None:
        unpack_emulator(package, store.path(package.sha256), machine, folder)
        if native:
            mark_emulator(folder / PROGRAM)

    return store.derive("emulators", key, unpack) / PROGRAM


def _package(lock: locks.Lock) -> locks.OsPackage:
    """Return the lock's package with the emulator for this machine; raises ``BuildError`` if it has none."""
    package = next((each for each in lock.emulators if not is_foreign(each.architecture)), None)  # its own machine
    if package is None:
        raise BuildError(
            f"the lock is for {lock.os.architecture}, this machine is {architecture_of(own_machine())}, "
            "and the lock has no emulator for it",
            _ELSEWHERE,
        )
    return package


def _system_of(system: locks.Os | object) -> Sequence[str]:
    """Return what decides which archive an emulator comes from."""
    return [str(getattr(system, name)) for name in ("release", "architecture", "snapshot")]
