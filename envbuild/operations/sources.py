"""Wheels built from source: at lock time for the spec that allows it, later from a lock whose wheel is nowhere.

A wheel follows from its archive, its build requirements, the interpreter, the compilers and the build step: the recipe.
What a lock has of a recipe is not built again as long as the store has the wheel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import msgspec

from envbuild.core import types
from envbuild.core.digest import sha256_bytes, sha256_json
from envbuild.core.text import plural
from envbuild.errors import IntegrityError, NotReproducibleError, ResolveError
from envbuild.lockfile import layout
from envbuild.lockfile import model as locks
from envbuild.operations.engines import step_runner
from envbuild.operations.events import Events, Note
from envbuild.operations.projects import bring_project
from envbuild.store.objects import Store

if TYPE_CHECKING:
    from envbuild.net.config import NetworkConfig
    from envbuild.operations.load_lock import LoadedLock
    from envbuild.resolve.python.pins import PythonRequest
    from envbuild.resolve.python.sources import BuiltWheel, SourceFile
    from envbuild.sources.step import Made, Room

_KIND = "interpreters"
_SYSTEM = "system.tar"
_MOST_ROUNDS = 4
"""How often a backend may ask for further requirements."""

Locations = Mapping[str, Sequence[str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Workshop:
    """Where wheels are built: a system, an interpreter, the store.

    Attributes:
        system: packages of the system, which are in the store when they are needed.
        whole: install these packages by their own scripts, for compilers; else only the interpreter's are unpacked.
        sources: returns where the system's packages are.
    """

    system: locks.Os
    python: locks.Python
    whole: bool
    store: Store
    network: NetworkConfig
    events: Events
    sources: Callable[[], Locations]

    def recipe(
        self,
        archive: locks.SourceArchive,
        packages: Sequence[locks.PythonPackage],
        origin: locks.Origin | None = None,
        variables: Mapping[str, str] = {},
    ) -> str:
        """Return the digest of all that decides a wheel; of a system that only has the interpreter, its release."""
        from envbuild.sources.scm import version_of
        from envbuild.sources.step import VERSION

        debs = [package.sha256 for package in self.system.packages] if self.whole else []
        more: dict[str, object] = {"env": dict(variables)} if variables else {}
        if origin:
            more["project"] = [origin.subdirectory, origin.path if origin.editable else "", version_of(origin)]
        return sha256_json(
            {
                **more,
                "step": VERSION,
                "archive": archive.sha256,
                "wheels": sorted(package.wheel.sha256 for package in packages),
                "python": [self.python.version, self.python.build.sha256 if self.python.build else ""],
                "system": [self.system.release, self.system.architecture, self.system.image_rootfs, sorted(debs)],
            }
        )

    def bring(self, packages: Sequence[locks.PythonPackage], locations: Locations) -> None:
        """Have wheels in the store."""
        self._fetch([(p.wheel.name, p.wheel.size, p.wheel.sha256) for p in packages], locations)

    def bring_archive(self, archive: locks.SourceArchive, places: Sequence[str]) -> None:
        """Have an archive of sources in the store."""
        self._fetch([(archive.name, archive.size, archive.sha256)], {archive.sha256: places})

    def make(
        self,
        archive: locks.SourceArchive,
        requires: Sequence[str],
        packages: Sequence[locks.PythonPackage],
        origin: locks.Origin | None = None,
        variables: Mapping[str, str] = {},
    ) -> Made | tuple[str, ...]:
        """Build a wheel from what the store has, or return what its backend asks for besides ``requires``."""
        from envbuild.image.python.environment import WheelFile
        from envbuild.sources.archive import build_system
        from envbuild.sources.scm import version_of
        from envbuild.sources.step import Archive, Asked, build

        file = self.store.path(archive.sha256)
        wheels = [
            WheelFile(name=p.wheel.name, path=self.store.path(p.wheel.sha256), sha256=p.wheel.sha256) for p in packages
        ]
        folder = origin.subdirectory if origin else ""
        made = build(
            Archive(name=archive.name, path=file, subdirectory=folder, version=version_of(origin)),
            build_system(file, archive.name, folder),
            requires,
            wheels,
            self._room(),
            step_runner(None, self.store),
            self.store.cache_dir("python"),
            self.events,
            variables,
        )
        if isinstance(made, Asked):
            return made.requires
        return self._linked(made, file, origin) if origin and origin.editable else made

    @staticmethod
    def _linked(made: Made, archive: Path, origin: locks.Origin) -> Made:
        """Return the wheel that leads to the folder which an editable project has in runs."""
        from envbuild.sources.editable import editable
        from envbuild.sources.tree import unpack
        from envbuild.spec.places import Place

        place = Place(path=origin.path, editable=True)
        folder = PurePosixPath(layout.WORKSPACE, origin.path).as_posix()
        data = editable(made.data, made.name, unpack(archive.read_bytes()), folder, str(place))
        return replace(made, data=data)

    def _room(self) -> Room:
        """Make the system that sources are built in; it is kept for the next build."""
        from envbuild.image.bytecode.interpreter import write_interpreter
        from envbuild.image.os.rootfs import build_os_layer, os_key
        from envbuild.sources.step import Room

        system, whole = self.system, self.whole or bool(self.system.image or self.python.build)
        key = sha256_json({"system": os_key(system), "whole": whole})

        def make(folder: Path) -> None:
            self._fetch([(p.file, p.size, p.sha256) for p in system.packages], self.sources())
            if whole:
                runner = step_runner(None, self.store)
                build_os_layer(system, self.store.path, runner, folder / _SYSTEM, self.events)
            else:
                write_interpreter(system, self.store.path, folder / _SYSTEM)

        base = self.store.derive(_KIND, key, make) / _SYSTEM
        layers = (self._python_layer(),) if self.python.build else ()
        return Room(
            base=base,
            base_key=f"sources-{key}",
            python=self.python.version,
            executable=self.python.executable,
            layers=layers,
        )

    def _python_layer(self) -> Path:
        """Unpack a standalone Python."""
        from envbuild.image.cpython.archive import pack_python

        build = self.python.build
        assert build is not None  # noqa: S101 - asked for only then

        def make(folder: Path) -> None:
            with (folder / _SYSTEM).open("wb") as stream:
                pack_python(stream, build, self.store.path(build.sha256))

        key = sha256_json({"python": build.sha256})
        return self.store.derive(_KIND, key, make) / _SYSTEM

    def _fetch(self, files: Sequence[tuple[str, int, str]], locations: Locations) -> None:
        from envbuild.store.fetch import Item, fetch

        items = [
            Item(name=name, size=size, sha256=sha256, sources=tuple(locations.get(sha256, ())))
            for name, size, sha256 in files
        ]
        fetch(items, self.store, self.events, self.network)


@dataclass(kw_only=True, slots=True)
class SourceBuilder:
    """Builds what the resolver chooses at lock time; see ``resolve.python.sources.Build``.

    Attributes:
        request: of the packages that are resolved, for target, date and folder.
        python: the interpreter.
        system: returns the system to build in, when the first wheel is built.
        whole: as in ``_Workshop``.
        mirror: the spec's mirror of Debian packages.
        archives: addresses of the spec's further archives, by name.
        added: further build requirements, PEP 508 lines by package.
        variables: environment variables of builds.
        old: the lock that is replaced.
        made: what was built, or taken from ``old``, by the wheel's SHA-256.
        reused: names of packages whose wheel was taken from ``old``.
    """

    request: PythonRequest
    python: locks.Python
    system: Callable[[], locks.Os]
    whole: bool
    mirror: str
    archives: Mapping[str, str]
    added: Mapping[str, Sequence[str]]
    variables: Mapping[str, str]
    old: locks.Lock | None
    store: Store
    events: Events
    made: dict[str, locks.Source] = field(default_factory=dict)
    reused: list[str] = field(default_factory=list)

    def __call__(self, source: SourceFile) -> BuiltWheel:
        """Build one wheel, or take the one that the old lock has."""
        from envbuild.net.config import network_config

        archive, place = self._archive(source, network_config())
        self._shop().bring_archive(archive, (place,))
        before = next((entry for entry in self._old_sources(source.package) if entry.archive == archive), None)
        return self._take(source.package, archive, None, before)

    def build_project(self, name: str, archive: locks.SourceArchive, origin: locks.Origin) -> BuiltWheel:
        """Build a project whose files the store has, or take the wheel that the old lock has of these files."""
        wanted = msgspec.structs.replace(origin, commit="")
        before = (
            entry
            for entry in self._old_sources(name)
            if entry.origin and msgspec.structs.replace(entry.origin, commit="") == wanted
        )
        return self._take(name, archive, origin, next(before, None))

    def _shop(self) -> _Workshop:
        from envbuild.net.config import network_config
        from envbuild.resolve.debian.closure import deb_urls

        system = self.system()
        return _Workshop(
            system=system,
            python=self.python,
            whole=self.whole,
            store=self.store,
            network=network_config(),
            events=self.events,
            sources=lambda: deb_urls(system, self.mirror, archives=self.archives) if system.packages else {},
        )

    def _take(
        self, package: str, archive: locks.SourceArchive, origin: locks.Origin | None, before: locks.Source | None
    ) -> BuiltWheel:
        """Build a wheel of an archive that the store has, or take the one that the old lock has."""
        from envbuild.sources.archive import build_system

        shop = self._shop()
        folder = origin.subdirectory if origin else ""
        added = tuple(self.added.get(package, ()))
        asked = build_system(self.store.path(archive.sha256), archive.name, folder).requires
        requires = tuple(dict.fromkeys((*asked, *added)))
        if before is not None and before.added == added:
            requires = tuple(dict.fromkeys((*requires, *before.requires)))
        for _ in range(_MOST_ROUNDS):
            packages, locations = self._requirements(_checked(requires, archive.name), before, shop.network)
            recipe = shop.recipe(archive, packages, origin, self.variables)
            if before is not None and before.recipe == recipe and (found := self._kept(before)):
                self.made[found.sha256] = msgspec.structs.replace(before, origin=origin)
                self.reused.append(package)
                return found
            shop.bring(packages, locations)
            made = shop.make(archive, requires, packages, origin, self.variables)
            if not isinstance(made, tuple):
                break
            requires = tuple(dict.fromkeys((*requires, *made)))
        else:
            raise IntegrityError(f"{archive.name}: its build backend asks for other requirements each time")
        sha256 = self.store.add_bytes(made.data)
        self.made[sha256] = locks.Source(
            name=package,
            archive=archive,
            requires=requires,
            packages=tuple(packages),
            builds=made.builds,
            normalised=made.normalised,
            recipe=recipe,
            origin=origin,
            added=added,
            env=dict(self.variables),
        )
        return self._wheel(made.name, sha256, len(made.data))

    def sources(self, packages: Sequence[locks.PythonPackage]) -> tuple[locks.Source, ...]:
        """Return where the wheels of these packages come from, as far as they were built."""
        return tuple(self.made[p.wheel.sha256] for p in packages if p.wheel.sha256 in self.made)

    def notes(self, packages: Sequence[locks.PythonPackage]) -> tuple[str, ...]:
        """Return what a person should read."""
        used = [p for p in packages if p.wheel.sha256 in self.made]
        built = [f"{p.name} {p.version}" for p in used if p.name not in self.reused]
        notes = [f"built from source, twice, with equal results: {', '.join(built)}"] if built else []
        idle = sorted(set(self.request.sources) - {p.name for p in used} - {"all"})
        if idle:
            notes.append(f"sources: nothing is built of {', '.join(idle)}, which has a wheel or is not needed")
        return (*notes, *self._built_for_others(packages))

    def _built_for_others(self, packages: Sequence[locks.PythonPackage]) -> Iterator[str]:
        """Yield a note for each package that was built with another version of a package than the image has."""
        versions = {package.name: package.version for package in packages}
        for source in self.sources(packages):
            names = {_name(line) for line in source.added}
            for package in source.packages:
                if package.name in names and versions.get(package.name, package.version) != package.version:
                    yield (
                        f"{source.name} was built with {package.name} {package.version}, and the image has "
                        f"{versions[package.name]}, for which its modules may not fit; write build-requirements: "
                        f"{{{source.name}: [{package.name}=={versions[package.name]}]}}"
                    )

    def _archive(self, source: SourceFile, network: NetworkConfig) -> tuple[locks.SourceArchive, str]:
        """Return an archive with its size, and its digest if the index states none; it is verified when it is read."""
        from envbuild.resolve.python import sizes
        from envbuild.resolve.python.wheels import Candidate

        if not types.matches(types.SourceName, source.file):
            raise ResolveError(f"{source.file}: no lock can hold this name of an archive", "use another release of it")
        listed = Candidate(
            package=source.package,
            version=source.version,
            file=source.file,
            location=_place(source.address),
            sha256=source.sha256,
        )
        (found,), _ = sizes.complete([listed], self.store.cache_dir("python"), network, self.events)
        return locks.SourceArchive(name=found.file, size=found.size or 0, sha256=found.sha256), found.location

    def _old_sources(self, package: str) -> list[locks.Source]:
        """Return what the old lock has built of a package."""
        return [entry for entry in self.old.sources if entry.name == package] if self.old else []

    def _kept(self, before: locks.Source) -> BuiltWheel | None:
        """Return the old lock's wheel if the store has it."""
        assert self.old is not None  # noqa: S101 - ``before`` is its
        for package in self.old.packages:
            if package.name == before.name and self.store.has(package.wheel.sha256, package.wheel.size):
                return self._wheel(package.wheel.name, package.wheel.sha256, package.wheel.size)
        return None

    def _wheel(self, name: str, sha256: str, size: int) -> BuiltWheel:
        from envbuild.resolve.python.sources import BuiltWheel

        return BuiltWheel(name=name, path=self.store.path(sha256), sha256=sha256, size=size)

    def _requirements(
        self, requires: Sequence[str], before: locks.Source | None, network: NetworkConfig
    ) -> tuple[tuple[locks.PythonPackage, ...], Locations]:
        """Resolve build requirements by the same indexes and the same limit in time, to wheels only."""
        from envbuild.resolve.python.pins import PythonRequest, resolve_python

        asked = PythonRequest(
            target=self.request.target,
            requirements=tuple(requires),
            wheels=self.request.wheels,
            folder=self.request.folder,
            exclude_newer=self.request.exclude_newer,
            existing=before.packages if before and not self.request.upgrade else (),
            upgrade=self.request.upgrade,
        )
        found = resolve_python(asked, cache_dir=self.store.cache_dir("python"), progress=self.events, network=network)
        return found.packages, found.locations


def _name(line: str) -> str:
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    return canonicalize_name(Requirement(line).name)


def _checked(requires: Sequence[str], name: str) -> tuple[str, ...]:
    """Return build requirements as a resolver gets them; raises ``ResolveError`` for what no list in a spec may hold.

    They are the archive's own, or what its backend asks for: an address among them would be fetched by this host.
    """
    from envbuild.spec.validators import requirement

    try:
        return tuple(map(requirement, requires))
    except ValueError as why:
        raise ResolveError(
            f"{name}: its build asks for {why}", "use another release of it, or a wheel of it: wheels: [wheels]"
        ) from None


def build_missing(loaded: LoadedLock, store: Store, missing: set[str], events: Events, *, offline: bool) -> None:
    """Build those of a lock's wheels that no place has, by SHA-256, from the locked sources.

    Raises:
        NotReproducibleError: another wheel than the locked one came out.
        IntegrityError: an archive, a build requirement or a package of the system cannot be fetched.
        BuildError, EngineError: as for a build at lock time.
    """
    from envbuild.net.config import network_config
    from envbuild.resolve.debian.closure import deb_urls

    lock, network = loaded.lock, network_config(offline=offline)
    system = build_system_of(lock)
    shop = _Workshop(
        system=system,
        python=lock.python,
        whole=bool(lock.build_packages),
        store=store,
        network=network,
        events=events,
        sources=lambda: (
            {} if offline or not system.packages else deb_urls(system, loaded.mirror, archives=loaded.archives)
        ),
    )
    wheels = {package.name: package.wheel for package in lock.packages}
    wanted = [source for source in lock.sources if wheels[source.name].sha256 in missing]
    names = ", ".join(source.archive.name for source in wanted)
    events.report(Note(text=f"no place has {plural(len(wanted), 'wheel')} built from source: built again from {names}"))
    for source in wanted:
        locations = {} if offline else _addresses(loaded, source, store, network)
        if source.origin and not store.has(source.archive.sha256, source.archive.size):
            bring_project(loaded.folder, source, store, offline=offline)
        shop.bring_archive(source.archive, locations.get(source.archive.sha256, ()))
        shop.bring(source.packages, locations)
        made = shop.make(source.archive, source.requires, source.packages, source.origin, source.env)
        wheel = wheels[source.name]
        found = "" if isinstance(made, tuple) else sha256_bytes(made.data)
        if isinstance(made, tuple) or found != wheel.sha256:
            raise NotReproducibleError(
                f"{wheel.name}, built again from {source.archive.name}, is not the locked wheel\n"
                f"  expected  sha256 {wheel.sha256}\n  found     sha256 {found or 'none'}",
                "get the locked one from where it was built: envbuild fetch --vendor DIR there, --from DIR here",
            )
        store.add_bytes(made.data)


def build_system_of(lock: locks.Lock) -> locks.Os:
    """Return the system that a lock's sources are built in."""
    if not lock.build_packages:
        return lock.os
    return msgspec.structs.replace(lock.os, packages=lock.build_packages)


def built_wheels(lock: locks.Lock) -> set[str]:
    """Return the SHA-256 of the wheels of a lock that were built from source: no index has them."""
    names = {source.name for source in lock.sources}
    return {package.wheel.sha256 for package in lock.packages if package.name in names}


def _addresses(
    loaded: LoadedLock, source: locks.Source, store: Store, network: NetworkConfig
) -> dict[str, tuple[str, ...]]:
    """Return where an archive and its build requirements are now, as far as the store lacks them."""
    from envbuild.resolve.python.pins import source_urls, wheel_urls
    from envbuild.resolve.python.wheels import Target

    lock = loaded.lock
    target = Target(python=lock.python.version, platform=lock.python.platform)
    lacking = [p for p in source.packages if not store.has(p.wheel.sha256, p.wheel.size)]
    wheels = tuple(map(Path, loaded.spec.wheels)) if loaded.spec else ()
    found = dict(wheel_urls(lacking, target, wheels=wheels, folder=loaded.folder))
    if source.origin is None and not store.has(source.archive.sha256, source.archive.size):
        wanted = {source.name: (source.archive.name, source.archive.sha256)}
        places = source_urls(wanted, target, store.cache_dir("python"), folder=loaded.folder, network=network)
        found |= {sha256: tuple(map(_place, each)) for sha256, each in places.items()}
    return found


def _place(address: str) -> str:
    """Return a path for an address of this machine, as candidates have it."""
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(address)
    return unquote(parts.path) if parts.scheme == "file" else address
