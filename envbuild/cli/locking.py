"""``init`` and ``lock``: resolve the parts side by side, join them into one lock, write it whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from envbuild import lock as locks
from envbuild.cli import base_image, debian_system, locked_host
from envbuild.cli.console import Console, human_bytes, plural
from envbuild.cli.freshness import WHEELS, wheels_digest
from envbuild.cli.inputs import moved_inputs
from envbuild.digest import sha256_file, sha256_json
from envbuild.errors import LockError, UsageError
from envbuild.files import atomic_write
from envbuild.spec import Spec, load_spec, spec_digest
from envbuild.store import Store

if TYPE_CHECKING:
    from envbuild.resolve.wheel_libraries import WheelLibraries


@dataclass(frozen=True, kw_only=True, slots=True)
class LockOptions:
    """Options of ``envbuild lock`` that can change what is locked.

    Attributes:
        host: what to lock for: the file of a host description, ``detect``, ``none``; empty: as before.
    """

    resolver: str = "uv"
    cross_check: bool = False
    upgrade: bool = False
    upgrade_packages: tuple[str, ...] = ()
    refresh: bool = False
    host: str = ""


def write_starter(folder: Path, force: bool, console: Console) -> None:
    """Write ``spec.yaml`` into a project."""
    from envbuild.starter import starter_spec

    target = folder / "spec.yaml"
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder", "name the folder of your project")
    if target.exists() and not force:
        raise UsageError(f"{target} exists already", "edit it, or replace it: envbuild init --force")
    atomic_write(target, starter_spec(folder).encode())
    console.line("wrote", str(target))
    console.line("next", "read it, then: envbuild lock spec.yaml")


def write_lock(path: Path, options: LockOptions, console: Console) -> None:
    """Resolve a spec and write the lock and its Dockerfile; an old lock stays whole until the new one is."""
    from envbuild.image.dockerfile import render
    from envbuild.resolve import policy

    spec = load_spec(path, check_env=policy.forbidden)
    target = path.parent / f"pylock.{spec.name}.toml"
    old = _existing(target)
    lock, notes = resolve(spec, path, old, options, console)
    data = locks.dumps(lock)
    dockerfile = render(lock).dockerfile
    atomic_write(path.parent / "Dockerfile", dockerfile)
    atomic_write(target, data)
    _report(spec, lock, notes, console)
    console.line("wrote", f"{target.name}, Dockerfile", elapsed=True)
    moved = [*differences(old, lock), *moved_inputs(path.parent, old.inputs, lock.inputs)] if old else []
    for line in moved:
        console.line("moved", line)
    console.result({"lock": str(target), "sha256": locks.lock_digest(lock), "moved": moved, "notes": list(notes)})


def check_lock(path: Path, options: LockOptions, console: Console) -> None:
    """Raise ``LockError`` (exit 11) unless the lock is what the spec beside it asks for; asks no index."""
    from envbuild.image.dockerfile import render
    from envbuild.resolve import policy

    if options.host:
        raise UsageError(
            "--check compares a lock with its spec, not with a host", "compare with this host: envbuild check"
        )
    spec = load_spec(path, check_env=policy.forbidden)
    target = path.parent / f"pylock.{spec.name}.toml"
    lock = locks.load(target)
    stale = stale_inputs(lock.resolution, resolution_inputs(spec, path, options))
    dockerfile = path.parent / "Dockerfile"
    if not stale and (not dockerfile.is_file() or dockerfile.read_bytes() != render(lock).dockerfile):
        stale = ["Dockerfile is not the one of this lock"]
    if stale:
        raise LockError(
            f"{target.name} is stale\n" + "\n".join(f"  {line}" for line in stale), f"lock again: envbuild lock {path}"
        )
    console.line("fresh", f"{target.name} is what {path.name} asks for")
    console.result({"lock": str(target), "fresh": True})


def resolve(
    spec: Spec, path: Path, old: locks.Lock | None, options: LockOptions, console: Console
) -> tuple[locks.Lock, tuple[str, ...]]:
    """Resolve a spec to a lock; returns it with sentences worth telling."""
    from envbuild.cli import locked_cuda
    from envbuild.inputs.digest import digest_inputs
    from envbuild.resolve import policy, python, sharedlibs
    from envbuild.resolve.wheels import Target

    host = locked_host.Host.of(spec, path, options.host, old)
    host.lock(None)  # what cannot be locked is told before anything is resolved
    store = Store()
    base = base_image.lock_base(spec, store, console) if spec.os.image else None
    interpreter = base.python if base else debian_system.system_python(spec)
    plan = locked_cuda.plan(spec, path, interpreter.version)
    request = python.PythonRequest(
        target=Target(python=interpreter.version, platform=interpreter.platform),
        requirements=(*spec.requirements, *plan.requirements),
        constraints=plan.constraints,
        files=tuple(map(Path, spec.requirement_files)),
        wheels=tuple(map(Path, spec.wheels)),
        folder=path.parent.absolute(),
        existing=old.packages if old else (),
        upgrade=options.upgrade,
        upgrade_packages=options.upgrade_packages,
    )

    def resolve_os(added: Iterable[str]) -> locks.Os:
        if base:
            return base.os
        return debian_system.resolve_system(spec, added, store, console, refresh=options.refresh)

    # What wheels may assume of every system is known beforehand, so both resolvers can run at once. Nothing is added
    # to a base image: what it lacks is told when it is built.
    adds = bool(spec.requirements or spec.requirement_files) and not base
    assumed = set(sharedlibs.added_os_packages((), spec.os.release)) if adds else set()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(resolve_os, assumed)
        resolved = python.resolve_python(
            request,
            cache_dir=store.cache_dir("python"),
            resolver=options.resolver,
            cross_check=options.cross_check,
            progress=console,
        )
        added: dict[str, str] = {}
        if resolved.packages and adds:
            known = _libraries(resolved.packages, store)
            added = sharedlibs.added_os_packages(resolved.packages, spec.os.release, known)
        system = first.result() if set(added) == assumed else resolve_os(added)
    if old and msgspec.structs.replace(system, suites=old.os.suites) == old.os:
        system = old.os  # suites are signed anew every day; that alone changes nothing
    debian_system.check_pins(spec, system)
    remember_locations(store, resolved.locations)
    frameworks = policy.frameworks_of(resolved.packages)
    cuda, told = locked_cuda.found(spec, resolved.packages, frameworks)
    hardware = host.lock(cuda)
    told = (*plan.notes, *told, *locked_cuda.check(spec, cuda, frameworks, interpreter.version, hardware))
    told += host.notes(hardware)
    environment = policy.environment(frameworks, spec.determinism, spec.os.architecture, hardware.cpu)
    environment |= policy.gpu_environment(cuda)
    wanted_by_spec = {package.name for package in spec.packages}
    lock = locks.Lock(
        name=spec.name,
        resolution=resolution_inputs(spec, path, options),
        os=system,
        python=interpreter,
        packages=resolved.packages,
        frameworks=frameworks,
        cuda=cuda,
        hardware=hardware,
        determinism=spec.determinism,
        environment=dict(sorted({**(base.environment if base else {}), **environment, **spec.env}.items())),
        added={**plan.added, **{name: reason for name, reason in added.items() if name not in wanted_by_spec}},
        inputs=digest_inputs(path.parent, spec.inputs, source=path.name, progress=console) if spec.inputs else (),
        run=spec.run,
    )
    return lock, (*resolved.notes, *told)


def resolution_inputs(spec: Spec, path: Path, options: LockOptions) -> dict[str, str]:
    """Return the SHA-256 of everything the resolution depends on that lies beside the lock, by name."""
    from envbuild.requirement_files import included

    inputs = {path.name: spec_digest(spec)}
    for name in included(path.parent, spec.requirement_files, path.name):
        inputs[name] = sha256_file(path.parent / name)
    for name in spec.wheels:
        inputs[f"{name}{WHEELS}"] = wheels_digest(path.parent / name)
    if options.resolver != "uv":
        inputs["--resolver"] = sha256_json(options.resolver)
    return inputs


def stale_inputs(locked: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """Name each input of the resolution that is not as it was locked."""
    lines = [f"{name} changed" for name in found if name in locked and locked[name] != found[name]]
    lines += [f"{name} is new" for name in found if name not in locked]
    return lines + [f"{name} is gone" for name in locked if name not in found]


def differences(old: locks.Lock, new: locks.Lock) -> list[str]:
    """Say which packages, hardware fields and CUDA libraries moved between two locks, one line each."""
    before, after = ({**_versions(lock), **locked_host.facts(lock)} for lock in (old, new))
    lines = []
    for name in sorted(before | after, key=lambda name: (name.startswith(("cuda.", "hardware.")), name)):
        if before.get(name) != after.get(name):
            lines.append(f"{name:<29} {before.get(name, 'none')} → {after.get(name, 'none')}")
    return lines


def remember_locations(store: Store, locations: Mapping[str, Sequence[str]]) -> None:
    """Keep where wheels were found, so that a fetch soon after need not ask the indexes again."""
    folder = store.cache_dir("locations")
    for sha256, places in locations.items():
        atomic_write(folder / sha256, "\n".join(places).encode(), mode=0o600)


def _libraries(packages: Sequence[locks.PythonPackage], store: Store) -> list[WheelLibraries]:
    """Return what the shared objects of wheels need, as far as wheels are at hand or were read before."""
    from envbuild.resolve.wheel_libraries import known_libraries, scan_wheel

    found: list[WheelLibraries] = []
    cache = store.cache_dir("libraries")
    for wheel in (package.wheel for package in packages):
        known = known_libraries(wheel.sha256, cache)
        if known is None and store.has(wheel.sha256, wheel.size):
            known = scan_wheel(store.path(wheel.sha256), wheel.sha256, cache, wheel.name)
        found += [known] if known is not None else []
    return found


def _versions(lock: locks.Lock) -> dict[str, str]:
    wheels = {package.name: package.version for package in lock.packages}
    return {**{f"{package.name} (os)": package.version for package in lock.os.packages}, **wheels}


def _existing(path: Path) -> locks.Lock | None:
    """Load the lock that is there; one that cannot be read is as good as none, since it is about to be replaced."""
    try:
        return locks.load(path) if path.exists() else None
    except LockError:
        return None


def _report(spec: Spec, lock: locks.Lock, notes: Sequence[str], console: Console) -> None:
    """Print what was locked, as people want to read it."""
    report_system = base_image.report if lock.os.image else debian_system.report
    report_system(lock.os, console)
    if lock.packages:
        wheel_bytes = sum(package.wheel.size for package in lock.packages)
        wheels = plural(len(lock.packages), "wheel")
        names = _headline(spec, lock)
        console.line("python", f"{lock.python.version:<18}", f"{wheels:<12}", f"{human_bytes(wheel_bytes):<8}", names)
    for name, reason in lock.added.items():
        console.line("added", f"{name:<18}", reason)
    pinned = f"{lock.determinism.level}, {plural(lock.determinism.threads, 'thread')}, seed {lock.determinism.seed}"
    console.line("env", f"{plural(len(lock.environment), 'variable'):<18}", pinned)
    locked_host.report(lock, console)
    for entry in lock.inputs:
        console.line("input", f"{entry.path:<18}", plural(entry.files, "file"), human_bytes(entry.bytes))
    for note in notes:
        console.line("note", note)


def _headline(spec: Spec, lock: locks.Lock) -> str:
    """Name the frameworks and what the spec asks for, with versions, as much as fits a line."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    asked = [canonicalize_name(Requirement(line).name) for line in spec.requirements]
    versions = {package.name: package.version for package in lock.packages}
    names = [name for name in dict.fromkeys([*asked, *lock.frameworks]) if name in versions][:4]
    more = " …" if len(versions) > len(names) else ""
    return ", ".join(f"{name} {versions[name]}" for name in names) + more
