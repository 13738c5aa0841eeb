"""From a spec to a lock: the parts are resolved side by side, then checked against each other and joined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from envbuild.cli import locked_host
from envbuild.cli.console import Console
from envbuild.core.fs import atomic_write
from envbuild.lockfile import layout
from envbuild.lockfile import model as locks
from envbuild.operations import locked_cuda, operating_system
from envbuild.operations.lock_inputs import LockOptions, resolution_inputs
from envbuild.spec.model import Spec
from envbuild.store.objects import Store

if TYPE_CHECKING:
    from envbuild.resolve.cuda.plan import CudaRequest
    from envbuild.resolve.libraries.wheels import WheelLibraries
    from envbuild.resolve.python.pins import PythonRequest, ResolvedPython


def resolve(
    spec: Spec, path: Path, old: locks.Lock | None, options: LockOptions, console: Console
) -> tuple[locks.Lock, tuple[str, ...]]:
    """Resolve a spec to a lock; returns it with sentences worth telling."""
    from envbuild.determinism import policy
    from envbuild.inputs.digest import digest_inputs

    host = locked_host.Host.of(spec, path, options.host, old)
    host.lock(None)  # what cannot be locked is told before anything is resolved
    resolver = _Resolver(spec=spec, options=options, console=console, store=Store())
    base = operating_system.lock_base(spec, resolver.store, console) if spec.os.image else None
    interpreter = base.python if base else operating_system.system_python(spec)
    plan = locked_cuda.plan(spec, path, interpreter.version)
    request = _python_request(spec, path, old, options, interpreter, plan)
    wheels, system, added = resolver.parts(request, base)
    if old and msgspec.structs.replace(system, suites=old.os.suites) == old.os:
        system = old.os  # suites are signed anew every day; that alone changes nothing
    operating_system.check_pins(spec, system)
    _remember_locations(resolver.store, wheels.locations)
    frameworks = policy.frameworks_of(wheels.packages)
    cuda, told = locked_cuda.found(spec, wheels.packages, frameworks, interpreter.version)
    hardware = host.lock(cuda)
    told = (*plan.notes, *told, *locked_cuda.check(spec, cuda, frameworks, interpreter.version, hardware))
    environment = policy.environment(frameworks, spec.determinism, spec.os.architecture) | policy.gpu_environment(cuda)
    wanted_by_spec = {package.name for package in spec.packages}
    lock = locks.Lock(
        name=spec.name,
        layout=old.layout if old and not options.upgrade else layout.VERSION,
        resolution=resolution_inputs(spec, path, options),
        os=system,
        python=interpreter,
        packages=wheels.packages,
        frameworks=frameworks,
        cuda=cuda,
        hardware=hardware,
        determinism=spec.determinism,
        environment=policy.with_own({**(base.environment if base else {}), **environment}, spec.env),
        added={**plan.added, **{name: reason for name, reason in added.items() if name not in wanted_by_spec}},
        inputs=digest_inputs(path.parent, spec.inputs, source=path.name, progress=console) if spec.inputs else (),
        run=spec.run,
    )
    return lock, (*wheels.notes, *told, *host.notes(lock))


def _python_request(
    spec: Spec,
    path: Path,
    old: locks.Lock | None,
    options: LockOptions,
    interpreter: locks.Python,
    plan: CudaRequest,
) -> PythonRequest:
    """Return what to ask of the Python resolver."""
    from envbuild.resolve.python.pins import PythonRequest
    from envbuild.resolve.python.wheels import Target

    return PythonRequest(
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


@dataclass(frozen=True, kw_only=True, slots=True)
class _Resolver:
    """Resolves wheels and operating system at once."""

    spec: Spec
    options: LockOptions
    console: Console
    store: Store

    def parts(
        self, request: PythonRequest, base: operating_system.Base | None
    ) -> tuple[ResolvedPython, locks.Os, dict[str, str]]:
        """Return the wheels, the operating system, and the OS packages added for the wheels, with reasons."""
        from envbuild.resolve.libraries import closure
        from envbuild.resolve.python.pins import resolve_python

        spec, options = self.spec, self.options
        # What wheels may assume of every system is known beforehand, so both resolvers can run at once. Nothing is
        # added to a base image: what it lacks is told when it is built.
        adds = bool(spec.requirements or spec.requirement_files) and not base
        assumed = set(closure.added_os_packages((), spec.os.release)) if adds else set()
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(self._system, base, assumed)
            wheels = resolve_python(
                request,
                cache_dir=self.store.cache_dir("python"),
                resolver=options.resolver,
                cross_check=options.cross_check,
                progress=self.console,
            )
            added: dict[str, str] = {}
            if wheels.packages and adds:
                known = _libraries(wheels.packages, self.store)
                added = closure.added_os_packages(wheels.packages, spec.os.release, known)
            system = first.result() if set(added) == assumed else self._system(base, added)
        return wheels, system, added

    def _system(self, base: operating_system.Base | None, added: Iterable[str]) -> locks.Os:
        if base:
            return base.os
        return operating_system.resolve_system(self.spec, added, self.store, self.console, refresh=self.options.refresh)


def _remember_locations(store: Store, locations: Mapping[str, Sequence[str]]) -> None:
    """Keep where wheels were found, so that a fetch soon after need not ask the indexes again."""
    folder = store.cache_dir("locations")
    for sha256, places in locations.items():
        atomic_write(folder / sha256, "\n".join(places).encode(), mode=0o600)


def _libraries(packages: Sequence[locks.PythonPackage], store: Store) -> list[WheelLibraries]:
    """Return what the shared objects of wheels need, as far as wheels are at hand or were read before."""
    from envbuild.resolve.libraries.wheels import known_libraries, scan_wheel

    found: list[WheelLibraries] = []
    cache = store.cache_dir("libraries")
    for wheel in (package.wheel for package in packages):
        known = known_libraries(wheel.sha256, cache)
        if known is None and store.has(wheel.sha256, wheel.size):
            known = scan_wheel(store.path(wheel.sha256), wheel.sha256, cache, wheel.name)
        found += [known] if known is not None else []
    return found
