"""Resolve a spec to a lock: its parts at the same time, which are then checked against each other and joined."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from envbuild.core.fs import atomic_write, temporary_folder
from envbuild.errors import ResolveError, SpecError
from envbuild.lockfile import layout
from envbuild.lockfile import model as locks
from envbuild.operations import blob_locations, emulation, lock_hardware, lock_notes, operating_system, projects
from envbuild.operations.events import Events
from envbuild.operations.lock_files import all_places, resolution_inputs
from envbuild.operations.lock_options import PYTHON, LockOptions
from envbuild.operations.lock_siblings import Siblings, other_versions, own_versions, shared_pins
from envbuild.operations.standalone import lock_python
from envbuild.spec.model import Package, Spec
from envbuild.store.objects import Store

if TYPE_CHECKING:
    from envbuild.operations.sources import SourceBuilder
    from envbuild.resolve.cuda.plan import CudaRequest
    from envbuild.resolve.libraries.wheels import WheelLibraries
    from envbuild.resolve.python.pins import PythonRequest, ResolvedPython

_T = TypeVar("_T")


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
    own = own_versions(old, others, options)
    pins, options = shared_pins(old, others, options, spec.os.architecture)
    os_moved, python_moved = _split_upgrades(options.upgrade_packages, spec, pins)
    held = () if options.upgrade else operating_system.held_packages(spec, pins, os_moved)
    resolver = _Resolver(spec=spec, folder=path.parent, options=options, events=events, store=Store(), held=held)
    base = operating_system.lock_base(spec, resolver.store, events) if spec.os.image else None
    interpreter, python_notes = (base.python, ()) if base else _lock_python(resolver, pins)
    plans = lock_hardware.cuda_plans(spec, path, interpreter.version)
    request = _python_request(spec, path, pins, options, interpreter)
    request = replace(request, existing=(*own, *request.existing))
    moved = (name for name in python_moved if name != PYTHON or not interpreter.build)
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
        *other_versions(made, others.earlier),
    )
    return made, (*notes, *host.notes(made))


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
    upgrade = options.upgrade or PYTHON in options.upgrade_packages
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
