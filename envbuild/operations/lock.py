"""Lock a spec: resolve it, check a lock against its spec, accept changed input data.

The parts of a spec are resolved at the same time, then checked against each other and joined. Everything that is
written is written whole: until the new lock is complete, the old one stays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from envbuild.core.fs import atomic_write, temporary_folder
from envbuild.core.text import perhaps, quote
from envbuild.errors import EnvbuildError, LockError, ResolveError, SpecError, UsageError
from envbuild.lockfile import changes, layout
from envbuild.lockfile import model as locks
from envbuild.operations import blob_locations, emulation, inputs, lock_hardware, lock_notes, operating_system, projects
from envbuild.operations.events import Events
from envbuild.operations.lock_files import (
    all_places,
    dockerfile_of,
    earlier_locks,
    existing_lock,
    resolution_inputs,
    stale_inputs,
)
from envbuild.operations.standalone import lock_python
from envbuild.spec.model import Package, Spec, load_spec
from envbuild.store.objects import Store

if TYPE_CHECKING:
    from envbuild.operations.sources import SourceBuilder
    from envbuild.resolve.cuda.plan import CudaRequest
    from envbuild.resolve.libraries.wheels import WheelLibraries
    from envbuild.resolve.python.pins import PythonRequest, ResolvedPython


_T = TypeVar("_T")
_PYTHON = "python"
"""By which ``--upgrade-package`` moves a standalone Python."""
_SHOWN = 6
"""Packages named in one sentence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LockOptions:
    """What can change the lock, in addition to the spec.

    Attributes:
        resolver: resolves the Python part: ``uv`` or ``pip-tools``.
        cross_check: resolve with both, and refuse if the pins differ.
        upgrade: move every pin to its newest version.
        upgrade_packages: move these packages, and only what they force.
        refresh: request the indexes again, however fresh the cache is.
        host: what to lock for: the file of a host description, ``detect``, ``none``; empty: as before.
        variant: lock this variant of the spec only; empty: all that it has.
        platform: lock for this platform of the spec only; empty: all that it has.
    """

    resolver: str = "uv"
    cross_check: bool = False
    upgrade: bool = False
    upgrade_packages: tuple[str, ...] = ()
    refresh: bool = False
    host: str = ""
    variant: str = ""
    platform: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Siblings:
    """Locks of a spec's other variants and platforms: of those written before what is resolved, and of those after."""

    earlier: tuple[locks.Lock, ...] = ()
    later: tuple[locks.Lock, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class LockResult:
    """A lock that was written.

    Attributes:
        spec: what it was made from.
        path: the lock's file.
        dockerfile: the Dockerfile written with it.
        lock: its content.
        old: the lock that it replaces; None if there was none that can be read.
        changes: what differs from ``old``; empty without one.
        input_changes: how declared data differs from ``old``, one line each.
        notes: sentences that a person should read.
    """

    spec: Spec
    path: Path
    dockerfile: Path
    lock: locks.Lock
    old: locks.Lock | None
    changes: tuple[changes.Change, ...]
    input_changes: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class LockCheck:
    """Whether a lock is what its spec asks for.

    Attributes:
        spec_path: the spec's file.
        path: the lock's file.
        reasons: why it is not, one line each; empty if it is.
        variant: which variant of the spec it is of; empty: the spec has none.
        platform: the same of its platform.
        error: what was wrong with the lock's file, if it could not be read.
    """

    spec_path: Path
    path: Path
    reasons: tuple[str, ...]
    variant: str = ""
    platform: str = ""
    error: LockError | None = None

    def problem(self) -> LockError | None:
        """Return what is wrong; None if the lock is what its spec asks for."""
        if self.error is not None or not self.reasons:
            return self.error
        lines = "\n".join(f"  {line}" for line in self.reasons)
        return LockError(f"{self.path.name} is stale\n{lines}", f"lock again: envbuild lock {self.spec_path}")


def require_fresh(checks: Sequence[LockCheck]) -> None:
    """Raise ``LockError`` unless all locks are what their spec asks for; it names every one that is not."""
    if problems := [problem for each in checks if (problem := each.problem())]:
        raise LockError("\n".join(problem.message for problem in problems), problems[0].hint)


@dataclass(frozen=True, kw_only=True, slots=True)
class InputsUpdate:
    """A lock with the digests of its declared data as it is now.

    Attributes:
        path: the lock's file.
        lock: its content.
        old: its content before.
        input_changes: how declared data differs, one line each.
    """

    path: Path
    lock: locks.Lock
    old: locks.Lock
    input_changes: tuple[str, ...]


def lock(path: Path, options: LockOptions, events: Events) -> tuple[LockResult, ...]:
    """Resolve a spec and write the lock and its Dockerfile next to it; an old lock stays whole until the new one is.

    Of a spec with variants every variant is locked, and each for every platform, in the written order: what one has,
    the next ones take too, unless they need something else. Nothing is written before all are resolved.

    Args:
        path: the spec. Pins of an earlier lock stay unless the spec or ``options`` moves them.
        options: what else decides what is locked.
        events: receives progress.

    Raises:
        SpecError: the spec, an input or a host description.
        LockError: the earlier lock cannot be read, or is of another image layout.
        ResolveError: something that the spec asks for does not exist, or parts do not fit together.
        UsageError: the lock or the Dockerfile belongs to somebody else, or there is no such variant or platform.
        EngineError: the spec has a base image, and no container engine answers.
    """
    whole = _load(path)
    chosen = _chosen(whole, path, options.variant, options.platform)
    olds = {spec.name: existing_lock(path, spec, upgrade=options.upgrade) for spec in whole.locked}
    files = {spec.name: _dockerfile(path, spec) for spec in chosen}
    for spec in chosen:
        if (old := olds[spec.name]) and not options.upgrade:
            layout.check(old.layout, spec.lock_name)
    found: list[tuple[Spec, locks.Lock, tuple[str, ...]]] = []
    known = dict(olds)
    for spec in chosen:
        made, notes = _resolve_variant(spec, path, known, options, events)
        found.append((spec, made, notes))
        known[spec.name] = made
    _write(path, [(files[spec.name], made) for spec, made, _ in found])
    names = [spec.lock_name for spec in whole.locked]
    earlier = [
        f"{name} is of {path.name} too, under its earlier name: remove it" for name in earlier_locks(path, names)
    ]
    return tuple(
        LockResult(
            spec=spec,
            path=path.parent / spec.lock_name,
            dockerfile=files[spec.name],
            lock=made,
            old=(old := olds[spec.name]),
            changes=changes.changes(old, made) if old else (),
            input_changes=inputs.input_changes(path.parent, old.inputs, made.inputs) if old else (),
            notes=(*notes, *(earlier if spec == chosen[-1] else ())),
        )
        for spec, made, notes in found
    )


def check(path: Path, resolver: str = "uv", variant: str = "", platform: str = "") -> tuple[LockCheck, ...]:
    """Compare the locks and Dockerfiles next to a spec with what the spec asks for; requests no index.

    Args:
        path: the spec.
        resolver: as in ``LockOptions``.
        variant, platform: as in ``LockOptions``.

    Raises:
        SpecError: the spec.
        UsageError: there is no such variant or platform.
    """
    return tuple(_check(spec, path, resolver) for spec in _chosen(_load(path), path, variant, platform))


def _check(spec: Spec, path: Path, resolver: str) -> LockCheck:
    from envbuild.image.dockerfile import render

    target = path.parent / spec.lock_name
    try:
        found = locks.load(target)
    except LockError as error:
        first, *rest = (line.strip() for line in error.message.splitlines())
        return replace(_unread(spec, path, target), reasons=tuple(rest or [first]), error=error)
    stale = stale_inputs(found.resolution, resolution_inputs(spec, path, resolver))
    dockerfile = _dockerfile(path, spec)
    if not stale and (not dockerfile.is_file() or dockerfile.read_bytes() != render(found).dockerfile):
        stale = [f"{dockerfile.name} is not the one of this lock"]
    return replace(_unread(spec, path, target), reasons=tuple(stale))


def _unread(spec: Spec, path: Path, target: Path) -> LockCheck:
    return LockCheck(spec_path=path, path=target, variant=spec.variant, platform=spec.platform, reasons=())


def update_inputs(path: Path, events: Events, variant: str = "", platform: str = "") -> tuple[InputsUpdate, ...]:
    """Digest declared data again and write that into the locks, which change in nothing else; requests no index.

    Args:
        path: the spec. Its ``inputs`` may name other paths than before; nothing else in it may have changed.
        events: receives progress.
        variant, platform: as in ``LockOptions``.

    Raises:
        LockError: there is no lock, or it is stale in something else than inputs.
        SpecError: the spec, or an input.
        UsageError: there is no such variant or platform.
    """
    from envbuild.inputs.digest import digest_inputs

    chosen = _chosen(_load(path), path, variant, platform)
    olds = [locks.load(path.parent / spec.lock_name) for spec in chosen]
    for spec, old in zip(chosen, olds, strict=True):
        _refuse_other_changes(spec, path, old)
    found = digest_inputs(path.parent, chosen[0].inputs, source=path.name, progress=events)  # all variants have these
    made = [
        msgspec.structs.replace(old, resolution=old.resolution | resolution_inputs(spec, path), inputs=found)
        for spec, old in zip(chosen, olds, strict=True)
    ]
    _write(path, [(_dockerfile(path, spec), lock) for spec, lock in zip(chosen, made, strict=True)])
    return tuple(
        InputsUpdate(
            path=path.parent / lock.file_name,
            lock=lock,
            old=old,
            input_changes=inputs.input_changes(path.parent, old.inputs, lock.inputs),
        )
        for lock, old in zip(made, olds, strict=True)
    )


def resolve(
    spec: Spec,
    path: Path,
    old: locks.Lock | None,
    options: LockOptions,
    events: Events,
    others: Siblings | None = None,
) -> tuple[locks.Lock, tuple[str, ...]]:
    """Resolve a spec to a lock and write nothing; returns it with sentences that a person should read.

    Args:
        spec: the spec, or one variant of it.
        path: its file.
        old: the lock that is replaced.
        options: what else decides what is locked.
        events: receives progress.
        others: locks of the spec's other variants, with which it shares pins.
    """
    from envbuild.determinism import policy
    from envbuild.inputs.digest import digest_inputs
    from envbuild.resolve.debian import releases

    host = lock_hardware.Host.of(spec, path, options.host, old)
    host.lock(None)  # what cannot be locked is refused before anything is resolved
    layout_version = old.layout if old and not options.upgrade else layout.VERSION
    others = others or Siblings()
    own = _own_versions(old, others, options)
    pins, options = _shared_pins(old, others, options, spec.os.architecture)
    os_moved, python_moved = _split_upgrades(options.upgrade_packages, spec, pins)
    held = () if options.upgrade else operating_system.held_packages(spec, pins, os_moved)
    resolver = _Resolver(spec=spec, folder=path.parent, options=options, events=events, store=Store(), held=held)
    base = operating_system.lock_base(spec, resolver.store, events) if spec.os.image else None
    interpreter, python_notes = (base.python, ()) if base else _lock_python(resolver, pins)
    plans = lock_hardware.cuda_plans(spec, path, interpreter.version)
    request = _python_request(spec, path, pins, options, interpreter)
    request = replace(request, existing=(*own, *request.existing))
    moved = (name for name in python_moved if name != _PYTHON or not interpreter.build)
    request = replace(request, upgrade_packages=tuple(moved))
    builder = resolver.builder(request, interpreter, base, pins)
    with temporary_folder("envbuild-projects-") as folder:
        request, built = _with_projects(resolver, path, request, builder, pins, folder)
        plan, parts = _first_that_resolves(plans, lambda plan: resolver.parts(_with_cuda(request, plan), base, builder))
        wheels, system, added, os_notes = parts
        made_here = builder.made if builder else {}
        places = {sha256: found for sha256, found in wheels.locations.items() if sha256 not in made_here}
        wheels = replace(wheels, locations=places)
    if old and msgspec.structs.replace(system, suites=old.os.suites) == old.os:
        system = old.os  # suites are signed anew every day; that alone changes nothing
    operating_system.check_pins(spec, system)
    emulators, emulator_notes = emulation.lock_emulators(
        spec, pins, resolver.store, events, refresh=options.refresh, upgrade=options.upgrade
    )
    _remember_locations(resolver.store, wheels.locations)
    frameworks = policy.frameworks_of(wheels.packages)
    cuda, cuda_notes = lock_hardware.lock_cuda(spec, wheels.packages, frameworks, interpreter.version)
    hardware = host.lock(cuda)
    fit_notes = lock_hardware.check_cuda(spec, cuda, frameworks, interpreter.version, hardware)
    environment = policy.environment(frameworks, spec.determinism, spec.os.architecture) | policy.gpu_environment(cuda)
    wanted_by_spec = {package.name for package in spec.packages}
    if not base:
        added = {**releases.common_packages(spec.os.release, spec.os.without), **added}
    made = locks.Lock(
        name=spec.name,
        layout=layout_version,
        resolution=resolution_inputs(spec, path, options.resolver),
        os=system,
        python=interpreter,
        packages=wheels.packages,
        frameworks=frameworks,
        cuda=cuda,
        hardware=hardware,
        determinism=spec.determinism,
        environment=policy.with_own({**(base.environment if base else {}), **environment}, spec.env),
        added={**plan.added, **{name: reason for name, reason in added.items() if name not in wanted_by_spec}},
        inputs=digest_inputs(path.parent, spec.inputs, source=path.name, progress=events) if spec.inputs else (),
        run=spec.run,
        missing_libraries=spec.missing_libraries,
        exclude_newer=spec.exclude_newer,
        sources=builder.sources(wheels.packages) if builder else (),
        build_packages=builder.system().packages if builder and builder.whole and builder.made else (),
        emulators=emulators,
        variant=spec.variant,
        platform=spec.platform,
    )
    notes = (
        *python_notes,
        *wheels.notes,
        *built.notes,
        *(builder.notes(wheels.packages) if builder else ()),
        *os_notes,
        *emulator_notes,
        *lock_notes.notes(spec, made),
        *blob_locations.offer_bundle(path.parent / spec.lock_name),
        *plan.notes,
        *cuda_notes,
        *fit_notes,
        *_other_versions(made, others.earlier),
    )
    return made, (*notes, *host.notes(made))


def _load(path: Path) -> Spec:
    """Read a spec; raises ``SpecError``."""
    from envbuild.determinism import policy

    return load_spec(path, check_env=policy.forbidden)


def _chosen(spec: Spec, path: Path, variant: str, platform: str = "") -> tuple[Spec, ...]:
    """Return what to lock: the variant and platform that were named, or all; ``UsageError`` for an unknown one."""
    found = spec.locked
    if variant:
        _require_known(path, variant, tuple(spec.variants), "variant", "variants: {…}")
        found = tuple(each for each in found if each.variant == variant)
    if platform:
        known = tuple(dict.fromkeys(each.platform for each in found if each.platform))
        _require_known(path, platform, known, "platform", "platforms: […]")
        found = tuple(each for each in found if each.platform == platform)
    return found


def _require_known(path: Path, name: str, known: Sequence[str], kind: str, way: str) -> None:
    """Raise ``UsageError`` for a variant or platform that the spec does not have."""
    if name in known:
        return
    has = f"it has {', '.join(known)}" if known else f"it has no {kind}s"
    raise UsageError(
        f"{path.name} has no {kind} {quote(name)}: {has}{perhaps(name, known)}",
        f"leave out --{kind}, or write it into {path.name}: {way}",
    )


def _dockerfile(path: Path, spec: Spec) -> Path:
    return dockerfile_of(path, path.parent / spec.lock_name, variant=bool(spec.variant or spec.platform))


def _write(path: Path, made: Sequence[tuple[Path, locks.Lock]]) -> None:
    """Write locks next to a spec, each after its Dockerfile; all are rendered before the first is written."""
    from envbuild.image.dockerfile import render

    files = [
        (place, data)
        for dockerfile, lock in made
        for place, data in ((dockerfile, render(lock).dockerfile), (path.parent / lock.file_name, locks.dumps(lock)))
    ]
    for place, data in files:
        atomic_write(place, data)


def _resolve_variant(
    spec: Spec, path: Path, known: Mapping[str, locks.Lock | None], options: LockOptions, events: Events
) -> tuple[locks.Lock, tuple[str, ...]]:
    """Resolve a spec, or its part for a variant and a platform; a package to upgrade that only others have is left out.

    Args:
        known: the locks of the spec's variants and platforms as they are now, in the written order, by name.
    """
    old = known[spec.name]
    if not spec.variant and not spec.platform:
        return resolve(spec, path, old, options, events)
    names = [*known]
    place = names.index(spec.name)
    before, after = ([lock for name in some if (lock := known[name])] for some in (names[:place], names[place + 1 :]))
    elsewhere = {name for lock in (*before, *after) for name in _package_names(lock)} - _package_names(old)
    moved = tuple(name for name in options.upgrade_packages if not _is_there(name, elsewhere))
    others = Siblings(earlier=tuple(before), later=tuple(after))
    try:
        return resolve(spec, path, old, replace(options, upgrade_packages=moved), events, others)
    except EnvbuildError as error:
        error.message = f"{_label(spec)}: {error.message}"
        raise


def _label(part: Spec | locks.Lock) -> str:
    """Return which variant and platform something is of, for people."""
    words = (("variant", part.variant), ("platform", part.platform))
    return ", ".join(f"{kind} {name}" for kind, name in words if name)


def _package_names(lock: locks.Lock | None) -> set[str]:
    """Return the names of a lock's packages, of Python and of the system."""
    return {p.name for p in lock.packages} | {p.name for p in lock.os.packages} if lock else set()


def _shared_pins(
    old: locks.Lock | None, others: Siblings, options: LockOptions, architecture: str = "amd64"
) -> tuple[locks.Lock | None, LockOptions]:
    """Return what stays as it is pinned, and what else decides.

    Pins of earlier variants and platforms hold, whatever moved them; then those of the lock that is replaced, then of
    later ones. Of another architecture only the versions of Python packages are shared: all else has other files there.
    """
    order = [*others.earlier, *(() if options.upgrade else (*([old] if old else []), *others.later))]
    if not order or order == [old]:
        return old, options
    own = [lock for lock in order if lock.os.architecture == architecture]
    first = own[0] if own else _of_no_machine(order[0], architecture)
    system = first.os
    alike = [lock for lock in own if lock.os.release == system.release and lock.os.snapshot == system.snapshot]
    owners = {package.name: lock for lock in reversed(order) for package in lock.packages}
    debs = {package.name: package for lock in reversed(alike) for package in lock.os.packages}
    pins = msgspec.structs.replace(
        first,
        packages=tuple(p for lock in order for p in lock.packages if owners[p.name] is lock),
        sources=tuple(source for lock in own for source in lock.sources if owners[source.name] is lock),
        os=msgspec.structs.replace(system, packages=tuple(debs[name] for name in sorted(debs))),
    )
    if not others.earlier:
        return pins, options
    before = [lock for lock in others.earlier if lock.os.architecture == architecture]
    held = {package.name for lock in others.earlier for package in lock.packages}
    held |= {_PYTHON, *(name for lock in before for name in _package_names(lock))} if before else set()
    moved = tuple(name for name in options.upgrade_packages if not _is_there(name, held))
    return pins, replace(options, upgrade=False, upgrade_packages=moved)


def _of_no_machine(lock: locks.Lock, architecture: str) -> locks.Lock:
    """Return what a lock of another architecture has that is the same for all."""
    system = msgspec.structs.replace(lock.os, architecture=architecture, packages=(), suites=(), archives=())
    python = msgspec.structs.replace(lock.python, build=None)
    return msgspec.structs.replace(lock, os=system, python=python, emulators=(), build_packages=())


def _own_versions(old: locks.Lock | None, others: Siblings, options: LockOptions) -> tuple[locks.PythonPackage, ...]:
    """Return the pins of a lock that earlier variants have in another version: they stay where that one does not fit.

    The resolver takes the newer one of two pins that both fit.
    """
    if old is None or options.upgrade:
        return ()
    versions = {(package.name, package.version) for lock in others.earlier for package in lock.packages}
    elsewhere = {name for name, _ in versions}
    return tuple(
        package
        for package in old.packages
        if package.name in elsewhere
        and (package.name, package.version) not in versions
        and not any(_is_there(typed, (package.name,)) for typed in options.upgrade_packages)
    )


def _is_there(typed: str, names: Collection[str]) -> bool:
    """Whether a package is among others, however its name was typed."""
    from packaging.utils import canonicalize_name

    return typed in names or canonicalize_name(typed) in names


def _other_versions(made: locks.Lock, earlier: Sequence[locks.Lock]) -> list[str]:
    """Return a sentence for the variants and platforms of which a lock has the same packages in other versions."""
    versions = {package.name: package.version for package in made.packages}
    found: dict[tuple[str, ...], list[locks.Lock]] = {}
    for other in earlier:
        differ = tuple(
            f"{package.name} {versions[package.name]} ({package.version})"
            for package in other.packages
            if versions.get(package.name, package.version) != package.version
        )
        if differ:
            found.setdefault(differ, []).append(other)
    return [
        f"not as in {_labels(others)}: {', '.join(differ[:_SHOWN])}"
        + (f" and {len(differ) - _SHOWN} more" if len(differ) > _SHOWN else "")
        for differ, others in found.items()
    ]


def _labels(others: Sequence[locks.Lock]) -> str:
    """Return which variants or platforms locks are of."""
    if any(other.platform for other in others):
        return "; ".join(map(_label, others))
    return f"variant{'s' if len(others) > 1 else ''} {', '.join(other.variant for other in others)}"


def _refuse_other_changes(spec: Spec, path: Path, old: locks.Lock) -> None:
    """Raise ``LockError`` unless the lock is what the spec asks for but for its inputs."""
    as_before = msgspec.structs.replace(spec, inputs=tuple(entry.path for entry in old.inputs))
    locked = {name: value for name, value in old.resolution.items() if not name.startswith("--")}
    if stale := stale_inputs(locked, resolution_inputs(as_before, path)):
        lines = "\n".join(f"  {line}" for line in stale)
        raise LockError(
            f"{old.file_name} is stale in more than its inputs\n{lines}", f"lock again: envbuild lock {path}"
        )


def _python_request(
    spec: Spec,
    path: Path,
    old: locks.Lock | None,
    options: LockOptions,
    interpreter: locks.Python,
) -> PythonRequest:
    """Return the request for the Python resolver, without the lines that ``cuda`` adds."""
    from envbuild.resolve.python.pins import PythonRequest
    from envbuild.resolve.python.wheels import Target
    from envbuild.spec.requirement_files import PROJECT, flattened, project_lines, python_conflicts, required_digests

    files = [*spec.requirement_files, *((PROJECT,) if spec.extras or spec.groups else ())]
    if problems := python_conflicts(path.parent, dict.fromkeys(files), interpreter.version):
        raise SpecError(path.name, problems, "choose a system whose Python it admits, or correct it")
    lines, limits = flattened(path.parent, spec.requirement_files, path.name)
    return PythonRequest(
        target=Target(python=interpreter.release, platform=interpreter.platform),
        requirements=(*lines, *project_lines(path.parent, spec.extras, spec.groups, path.name), *spec.requirements),
        constraints=limits,
        wheels=tuple(map(Path, spec.wheels)),
        digests=required_digests(path.parent, spec.requirement_files, path.name),
        folder=path.parent.absolute(),
        exclude_newer=spec.exclude_newer,
        sources=spec.sources,
        existing=old.packages if old else (),
        upgrade=options.upgrade,
    )


def _with_cuda(request: PythonRequest, plan: CudaRequest) -> PythonRequest:
    """Return the request with the lines that ``cuda`` adds."""
    lines = (*request.requirements, *plan.requirements)
    return replace(request, requirements=lines, constraints=(*request.constraints, *plan.constraints))


def _first_that_resolves(plans: Iterable[CudaRequest], attempt: Callable[[CudaRequest], _T]) -> tuple[CudaRequest, _T]:
    """Return the first plan that resolves, and what it resolves to; if none does, the first one's error is raised."""
    first: ResolveError | None = None
    for plan in plans:
        try:
            return plan, attempt(plan)
        except ResolveError as error:
            first = first or error
    assert first is not None  # noqa: S101 - there is a plan
    raise first


def _with_projects(
    resolver: _Resolver,
    path: Path,
    request: PythonRequest,
    builder: SourceBuilder | None,
    old: locks.Lock | None,
    folder: Path,
) -> tuple[PythonRequest, projects.Built]:
    """Build the projects that the spec names into a folder; returns the request that takes their wheels from there."""
    places, options = all_places(resolver.spec, path), resolver.options
    if not places:
        return request, projects.Built()

    def moved(name: str) -> bool:
        return options.upgrade or name in request.upgrade_packages

    packed = projects.pack_projects(places, path.parent, resolver.store, old, moved)
    projects.require_allowed(packed, resolver.spec.sources)
    assert builder is not None  # noqa: S101 - something is allowed
    built = projects.build_projects(packed, builder.build_project, folder)
    digests = request.digests
    return replace(
        request,
        requirements=(*request.requirements, *built.lines),
        wheels=(*request.wheels, folder),
        digests=None if digests is None else {**digests, **built.digests},
    ), built


def _lock_python(resolver: _Resolver, old: locks.Lock | None) -> tuple[locks.Python, tuple[str, ...]]:
    """Return the interpreter; ``--upgrade-package python`` moves a standalone build."""
    options = resolver.options
    upgrade = options.upgrade or _PYTHON in options.upgrade_packages
    return lock_python(resolver.spec, old, resolver.store, resolver.events, upgrade=upgrade)


def _split_upgrades(names: Sequence[str], spec: Spec, old: locks.Lock | None) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return which names to upgrade are OS packages, and which Python packages; a name may be both."""
    from packaging.utils import canonicalize_name

    system = {package.name for package in spec.packages}
    system |= {package.name for package in old.os.packages} if old else set()
    wheels = {package.name for package in old.packages} if old else set()
    return (
        frozenset(name for name in names if name in system),
        tuple(name for name in names if name not in system or canonicalize_name(name) in wheels),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Resolver:
    """Resolves wheels and operating system at the same time."""

    spec: Spec
    folder: Path
    options: LockOptions
    events: Events
    store: Store
    held: tuple[locks.OsPackage, ...] = ()

    def builder(
        self,
        request: PythonRequest,
        python: locks.Python,
        base: operating_system.Base | None,
        old: locks.Lock | None,
    ) -> SourceBuilder | None:
        """Return what builds sources; None unless the spec allows it."""
        from envbuild.operations.sources import SourceBuilder

        spec = self.spec
        if not spec.sources:
            return None
        emulation.require_native(spec.os.architecture, "sources: wheels would be built")
        packages = tuple(Package(name=name) for name in spec.build_packages)
        held = old.build_packages if old and self.held and packages else self.held
        alone = replace(self, spec=msgspec.structs.replace(spec, packages=packages), held=held)
        return SourceBuilder(
            request=request,
            python=python,
            system=cache(lambda: alone._system(base, ())[0]),
            whole=bool(packages),
            mirror=spec.os.mirror,
            archives={archive.name: archive.url for archive in spec.os.archives},
            added=spec.build_requirements,
            variables=spec.build_env,
            old=old,
            store=self.store,
            events=self.events,
        )

    def parts(
        self, request: PythonRequest, base: operating_system.Base | None, builder: SourceBuilder | None
    ) -> tuple[ResolvedPython, locks.Os, dict[str, str], tuple[str, ...]]:
        """Return the wheels, the operating system, the OS packages added for the wheels, with reasons, and notes."""
        from envbuild.resolve.libraries import closure
        from envbuild.resolve.python.pins import resolve_python

        spec, options = self.spec, self.options
        # What wheels may assume of every system is known beforehand, so both resolvers can run at once. Nothing is
        # added to a base image: what it lacks is reported when it is built.
        asked = (spec.requirements, spec.requirement_files, spec.projects, spec.extras, spec.groups)
        adds = any(asked) and not base
        assumed = set(closure.added_os_packages((), spec.os.release)) if adds else set()
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(self._system, base, assumed)
            wheels = resolve_python(
                request,
                cache_dir=self.store.cache_dir("python"),
                resolver=options.resolver,
                cross_check=options.cross_check,
                progress=self.events,
                build=builder,
            )
            added: dict[str, str] = {}
            if wheels.packages and adds:
                built = builder.made if builder else {}
                known = _own_libraries(wheels, request, self.store, built)
                added = closure.added_os_packages(wheels.packages, spec.os.release, known)
            system, notes = first.result() if set(added) == assumed else self._system(base, added)
        return wheels, system, added, notes

    def _system(self, base: operating_system.Base | None, added: Iterable[str]) -> tuple[locks.Os, tuple[str, ...]]:
        if base:
            return base.os, ()
        notes: list[str] = []
        system = operating_system.resolve_system(
            self.spec,
            self.folder,
            added,
            self.store,
            self.events,
            refresh=self.options.refresh,
            held=self.held,
            note=notes.append,
        )
        return system, tuple(notes)


def _remember_locations(store: Store, locations: Mapping[str, Sequence[str]]) -> None:
    """Store where wheels were found, so that a fetch soon after requests no index."""
    folder = store.cache_dir("locations")
    for sha256, places in locations.items():
        atomic_write(folder / sha256, "\n".join(places).encode(), mode=0o600)


def _own_libraries(
    wheels: ResolvedPython, request: PythonRequest, store: Store, built: Collection[str]
) -> list[WheelLibraries]:
    """Return what the shared objects of the spec's own wheels need, and of those built from source (SHA-256).

    Wheels of others are not at hand in every store.

    What a lock holds must not depend on what was downloaded before. The libraries that wheels of indexes need are in a
    table as far as known, and reported when an image is built.
    """
    from envbuild.resolve.libraries.wheels import scan_wheel

    folders = {(request.folder / folder).resolve() for folder in request.wheels}
    found: list[WheelLibraries] = []
    for wheel in (package.wheel for package in wheels.packages):
        places = (Path(place) for place in wheels.locations.get(wheel.sha256, ()) if "://" not in place)
        own = next((place for place in places if place.parent.resolve() in folders), None)
        if own or wheel.sha256 in built:
            own = own or store.path(wheel.sha256)
            found.append(scan_wheel(own, wheel.sha256, store.cache_dir("libraries"), wheel.name))
    return found
