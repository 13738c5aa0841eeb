"""Operating-system packages: from the names a spec asks for to every Debian package, by version and SHA-256.

    request ─ suites: InRelease, verified ─ Packages, checked ─ candidates ─ closure, as apt would choose ─▶ lock.Os

The base system is what mmdebstrap calls *essential*: every package marked Essential, and what those need.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import cache as remember
from functools import partial
from pathlib import Path

import msgspec

from envbuild.core.progress import Progress, Silent
from envbuild.core.text import either
from envbuild.errors import IntegrityError, ResolveError
from envbuild.lockfile.model import Os, OsPackage
from envbuild.lockfile.model import Suite as LockedSuite
from envbuild.resolve.debian.archive import Access, Suite, cache_errors, load_indexes, load_suite
from envbuild.resolve.debian.further import (
    FurtherArchive,
    base_of,
    first_places,
    load_further,
    lock_archive,
    replaced_names,
)
from envbuild.resolve.debian.index import Index
from envbuild.resolve.debian.marks import mark
from envbuild.resolve.debian.pins import hold, newer
from envbuild.resolve.debian.release_file import environment_keyrings, trusted_certificates
from envbuild.resolve.debian.releases import Release, find_release
from envbuild.resolve.debian.search import search
from envbuild.resolve.debian.sources import AptConfig, archive_bases, check_snapshot, origin, read_apt_config
from envbuild.resolve.debian.universe import Package, Pin, Universe

__all__ = ["OsRequest", "deb_urls", "open_suites", "resolve_emulator", "resolve_os"]

_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_ARCHITECTURE = re.compile(r"[a-z0-9][a-z0-9-]+")
_MOST_SHOWN = 6
"""Packages named in a note."""
EXCLUDED = {"usrmerge": "an image of envbuild is merged from the start, and its script refuses overlay file systems"}
"""Packages that are treated as absent, with the reason. What needs ``usrmerge | usr-is-merged`` gets the latter."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OsRequest:
    """What the operating system must be.

    Attributes:
        release: such as ``debian-12``.
        architecture: Debian's name of it, such as ``amd64``.
        packages: names to install next to the essential ones; order and repetition do not matter.
        snapshot: UTC time such as ``20260115T000000Z`` to resolve as of, or empty for now.
        mirror: the spec's mirror, or empty; see ``debian_sources.archive_bases``.
        components: of the archive that are searched; empty: those that the distribution has by default.
        archives: further archives, after the system's own.
        versions: the only version that a package may have, by name; the archive's if it has no such version.
        held: packages of an earlier lock, to be kept where the archive has them and they fit.
    """

    release: str
    architecture: str
    packages: tuple[str, ...]
    snapshot: str = ""
    mirror: str = ""
    components: tuple[str, ...] = ()
    archives: tuple[FurtherArchive, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    held: tuple[OsPackage, ...] = ()


def resolve_os(
    request: OsRequest,
    cache: Path,
    progress: Progress | None = None,
    *,
    refresh: bool = False,
    offline: bool = False,
    keyrings: Sequence[Path] = (),
    apt: AptConfig | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> Os:
    """Resolve a request to packages, sorted by name.

    Args:
        cache: folder for release files and parsed indexes; what is in it can be got again.
        progress: receives downloads.
        refresh: ask the mirror even if the cache is fresh (ten minutes).
        offline: ask no mirror; the cache must do.
        keyrings: further trusted keyring files, next to the distribution's and those in ``ENVBUILD_DEBIAN_KEYS`` or
            ``ENVBUILD_UBUNTU_KEYS``.
        apt: the machine's apt configuration; read from it if None.
        note: receives a sentence about pins that hold newer versions back.

    Raises:
        ResolveError: unknown release, architecture or package, or no set of packages fits; the message states why.
        IntegrityError: a download failed, or a signature or digest is not what it must be.
    """
    release = find_release(request.release)
    access = _access(release, cache, keyrings, progress, refresh=refresh, offline=offline)
    with open_suites(request, release, access, apt or read_apt_config()) as opened:
        suites = [suite for suite, indexes in opened if indexes]
        exact = {name: Pin(version) for name, version in request.versions.items()}
        newest = Universe(
            [indexes for _, indexes in opened if indexes],
            request.architecture,
            EXCLUDED,
            exact,
            remember(partial(_component_of, opened[0][0], request, access)),
            replaced_names(request.archives, suites),
            first_places(request.archives, suites),
        )
        held = _fitting(request.held, newest, suites, request.archives)
        chosen = close_holding(newest, request.packages, held)
        if behind := newer(chosen, newest):
            note(_behind(behind))
    return Os(
        release=release.name,
        architecture=request.architecture,
        snapshot=request.snapshot,
        suites=tuple(map(_locked_suite, {(suite.archive, suite.name): suite for suite in suites}.values())),
        archives=tuple(map(lock_archive, request.archives)),
        packages=tuple(_locked_package(chosen[name], suites) for name in sorted(chosen)),
    )


def resolve_emulator(
    request: OsRequest,
    machine: str,
    cache: Path,
    progress: Progress | None = None,
    *,
    refresh: bool = False,
    keyrings: Sequence[Path] = (),
    apt: AptConfig | None = None,
) -> OsPackage | None:
    """Find the package with the emulators of a request's release, at the request's time; None if there is none.

    Args:
        request: its release, snapshot and mirror count.
        machine: Debian's name of the architecture that the emulator runs on.
        cache, progress, refresh, keyrings, apt: as for ``resolve_os``.

    Raises:
        IntegrityError: as for ``resolve_os``.
    """
    release = find_release(request.release)
    access = _access(release, cache, keyrings, progress, refresh=refresh)
    wanted = OsRequest(
        release=release.name, architecture=machine, packages=(), snapshot=request.snapshot, mirror=request.mirror
    )
    with suppress(ResolveError), open_suites(wanted, release, access, apt or read_apt_config()) as opened:
        found = Universe([indexes for _, indexes in opened if indexes], machine).candidate(release.emulator)
        return _locked_package(found, [suite for suite, indexes in opened if indexes]) if found else None
    return None


def _access(
    release: Release,
    cache: Path,
    keyrings: Sequence[Path],
    progress: Progress | None,
    *,
    refresh: bool,
    offline: bool = False,
) -> Access:
    """Return how a release's archives are read; arguments as for ``resolve_os``."""
    name = release.distribution.name
    return Access(
        cache=cache,
        keyrings=(*keyrings, *environment_keyrings(distribution=name)),
        distribution=name,
        refresh=refresh,
        offline=offline,
        progress=progress or Silent(),
    )


def close(universe: Universe, packages: Sequence[str]) -> dict[str, Package]:
    """Return the essential packages, the named ones, and all that they need, as apt would choose it.

    Raises:
        ResolveError: unknown names (all of them at once), or no set fits.
    """
    requested = _known(universe, sorted(set(packages)))
    roots = list(dict.fromkeys((*universe.essential(), *requested)))
    return mark(universe, roots) or search(universe, roots)


def close_holding(newest: Universe, packages: Sequence[str], held: Sequence[OsPackage]) -> dict[str, Package]:
    """Return what ``close`` does, with as many packages of an earlier lock as can be kept; raises as it does."""
    if not held:
        return close(newest, packages)
    pins = {package.name: Pin(package.version, package.sha256) for package in held}
    roots = [*newest.essential(), *_known(newest, sorted(set(packages)))]
    try:
        return close(hold(newest, pins, roots), packages)
    except ResolveError:
        return close(newest, packages)


def _fitting(
    held: Sequence[OsPackage], newest: Universe, suites: Sequence[Suite], archives: Sequence[FurtherArchive]
) -> list[OsPackage]:
    """Leave out pins of packages that the spec now takes from another archive, or from the system."""
    if not archives:
        return list(held)
    further = {archive.name for archive in archives}

    def moved(package: OsPackage) -> bool:
        found = newest.candidate(package.name)
        archive = suites[found.suite].archive if found else ""
        return archive != package.archive and bool({archive, package.archive} & further)

    return [package for package in held if not moved(package)]


def _behind(names: Sequence[str]) -> str:
    """Describe packages that stay at an older version than the archive has."""
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    count = "1 OS package has a newer version" if len(names) == 1 else f"{len(names)} OS packages have newer versions"
    return (
        f"{count} in the archive: {', '.join(names[:_MOST_SHOWN])}{more}; to move them: envbuild lock --upgrade, "
        f"or -P {names[0]} for one"
    )


@contextmanager
def open_suites(
    request: OsRequest, release: Release, access: Access, apt: AptConfig
) -> Iterator[list[tuple[Suite, list[Index]]]]:
    """Get, check and open every suite of a release at once; the indexes are closed at the end of the context.

    Returns:
        each suite once for each component that is searched, the system's first.

    Raises:
        ResolveError: no address is known, or the release does not have the architecture.
        IntegrityError: see ``load_suite`` and ``load_indexes``.
    """
    check_snapshot(request.snapshot)
    if not _ARCHITECTURE.fullmatch(request.architecture):
        raise ResolveError(f"os architecture: expected a Debian architecture, found {request.architecture!r}")
    parts = release.suites(request.architecture)
    bases = {
        archive: archive_bases(archive, mirror=request.mirror, snapshot=request.snapshot, apt=apt)
        for archive in dict(parts)
    }

    def load(archive: str, name: str) -> list[tuple[Suite, list[Index]]]:
        with cache_errors(access.cache):
            suite = load_suite(archive, name, bases[archive], access, snapshot=request.snapshot)
            return [(suite, load_indexes(suite, request.architecture, access, part)) for part in searched(suite)]

    def searched(suite: Suite) -> list[str]:
        return [part for part in _components(request, release) if part == "main" or part in suite.components]

    def further(archive: FurtherArchive) -> list[tuple[Suite, list[Index]]]:
        with cache_errors(access.cache):
            return load_further(archive, request.architecture, request.snapshot, access)

    trusted_certificates(access.keyrings, access.distribution)  # read once, not once in each thread
    opened: list[tuple[Suite, list[Index]]] = []
    try:
        with ThreadPoolExecutor(max_workers=len(parts) + len(request.archives)) as pool:
            waiting = [pool.submit(partial(load, *part)) for part in parts]
            waiting += [pool.submit(further, archive) for archive in request.archives]
        opened += [part for future in waiting if not future.exception() for part in future.result()]
        for future in waiting:
            future.result()
        first, indexes = opened[0]
        if not indexes:
            known = [name for name in first.release.fields.get("Architectures", "").split() if name != "all"]
            raise ResolveError(
                f"os architecture: expected one that {release.name} has ({', '.join(known)}), "
                f"found {request.architecture!r}"
            )
        yield opened
    finally:
        for _, indexes in opened:
            for index in indexes:
                index.close()


def _components(request: OsRequest, release: Release) -> tuple[str, ...]:
    """Return the components to search; raises ``ResolveError`` for one that the distribution does not have."""
    found = release.distribution
    known = (*found.components, *found.further)
    for component in request.components:
        if component not in known:
            raise ResolveError(
                f"os.components: expected {either(known)}, found {component!r}", "correct os.components in the spec"
            )
    return request.components or found.components


def deb_urls(
    os: Os, mirror: str = "", *, archives: Mapping[str, str] | None = None, apt: AptConfig | None = None
) -> dict[str, tuple[str, ...]]:
    """Return where each package file may be had, by SHA-256, in the order to try: mirrors, then the snapshot service.

    The service is asked for the suites as they were a day after the newest of them was made, when nothing in
    them can be gone yet, so a lock outlives what mirrors keep.

    Args:
        os: the locked system.
        mirror: the spec's mirror, if any.
        archives: addresses of further archives, by name, as the spec has them; a lock has none.
        apt: the machine's apt configuration; read from it if None.

    Raises:
        ResolveError: no address is known at all.
    """
    apt = apt or read_apt_config()
    bases: dict[str, tuple[str, ...]] = {}
    named = {archive.name for archive in os.archives}
    for archive in dict.fromkeys(package.archive for package in os.packages):
        if archive in named:
            address = (archives or {}).get(archive, "")
            bases[archive] = (base_of(address, os.snapshot),) if address else ()
            continue
        found = archive_bases(archive, mirror=mirror, snapshot=os.snapshot, apt=apt)
        if not os.snapshot:
            found += () if not mirror else apt.mirrors.get(archive, ())
            service = origin(archive, apt)
            found += (service.replace("{snapshot}", _a_day_after(os)),) if service else ()
        bases[archive] = tuple(dict.fromkeys(found))
    return {
        package.sha256: tuple(f"{base}/{package.path}" for base in bases[package.archive]) for package in os.packages
    }


def _a_day_after(os: Os) -> str:
    named = {archive.name for archive in os.archives}
    own = [suite for suite in os.suites if suite.archive not in named]
    dates = [datetime.fromisoformat(suite.date.replace("Z", "+00:00")) for suite in own]
    newest = max(dates, default=datetime.now(timezone.utc))
    return (newest + timedelta(days=1)).strftime("%Y%m%dT%H%M%SZ")


def _known(universe: Universe, packages: Sequence[str]) -> list[str]:
    """Return the packages' names, a virtual one replaced by its only provider; raises ``ResolveError``."""
    known: list[str] = []
    unknown: list[str] = []
    for name in packages:
        if universe.candidate(name) is not None:
            known.append(name)
        elif len(providers := sorted({owner.name for _, owner in universe.providers(name)})) == 1:
            known += providers
        else:
            unknown.append(_unknown(universe, name, providers))
    if unknown:
        listed = unknown[0] if len(unknown) == 1 else "\n  ".join(["these names do not do", *unknown])
        raise ResolveError(f"os packages: {listed}", "correct the package names in the spec")
    return known


def _unknown(universe: Universe, name: str, providers: Sequence[str]) -> str:
    """Describe why a name is no package."""
    if name in universe.excluded:
        return f"{name!r} is left out: {universe.excluded[name]}"
    if providers:
        return f"{name!r} is virtual; write one of its providers: {', '.join(providers)}"
    if not _NAME.fullmatch(name):
        return f"expected a Debian package name, found {name[:60]!r}"
    if component := universe.elsewhere(name):  # such as: in Debian's non-free, but …
        return f"{name!r} is {component}"
    near = _near(name, universe)
    return f"there is no package {name!r}" + (f" — perhaps you meant {' or '.join(near)}" if near else "")


def _near(name: str, universe: Universe) -> list[str]:
    """Return up to three package names that look like ``name``; only those worth a comparison are compared."""
    from difflib import get_close_matches

    start = name[:3]
    likely = [
        other
        for other in sorted(universe.names())
        if abs(len(other) - len(name)) <= 4 and (other.startswith(start) or other.endswith(name[-4:]))
    ]
    return get_close_matches(name, likely, n=3, cutoff=0.75)


def _component_of(suite: Suite, request: OsRequest, access: Access, name: str) -> str:
    """Describe the component of a suite, of those not searched, that has a package; an empty string if none has."""
    searched = _components(request, find_release(request.release))
    for component in suite.components:
        if component in searched:
            continue
        with suppress(IntegrityError):  # this only makes a message better
            indexes = load_indexes(suite, request.architecture, access, component)
            found = any(index.versions(name) for index in indexes)
            for index in indexes:
                index.close()
            if found:
                return _unsearched(request, component, searched)
    return ""


def _unsearched(request: OsRequest, component: str, searched: Sequence[str]) -> str:
    """Describe a component that a spec may ask for, with the line to write."""
    title = find_release(request.release).distribution.title
    line = f"os: {{release: {request.release}, components: [{', '.join((*searched, component))}]}}"
    verb = "is" if len(searched) == 1 else "are"
    return f"in {title}'s {component}, but only {' and '.join(searched)} {verb} searched: write in the spec  {line}"


def _locked_suite(suite: Suite) -> LockedSuite:
    date = suite.release.date.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return LockedSuite(archive=suite.archive, name=suite.name, date=date, sha256=suite.release.sha256)


def _locked_package(package: Package, suites: Sequence[Suite]) -> OsPackage:
    """Check what the index states of a package and convert it to the lock's form; raises ``IntegrityError``."""
    record = package.record
    entry: Mapping[str, object] = {
        "name": record.name,
        "version": record.version,
        "architecture": record.architecture,
        "archive": suites[package.suite].archive,
        "path": record.path,
        "size": record.size,
        "sha256": record.sha256,
    }
    try:
        return msgspec.convert(entry, OsPackage)
    except msgspec.ValidationError as error:
        raise IntegrityError(
            f"package index of {suites[package.suite].name}: {record.name}: {error}", "use another mirror"
        ) from None
