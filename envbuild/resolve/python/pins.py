"""Python requirements to exact wheels for a target, whatever the host runs.

uv answers in one process; what it leaves out (sizes, at most indexes) is asked for once and kept. pip-tools can
decide the versions instead, or check them. No address gets into a lock: where each wheel was found is given
separately, for fetching.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from envbuild.core.fs import atomic_write, temporary_folder
from envbuild.core.progress import Progress, Silent
from envbuild.core.text import perhaps, quote
from envbuild.errors import IntegrityError, ResolveError
from envbuild.lockfile.model import PythonPackage, Wheel
from envbuild.net.config import NetworkConfig, network_config
from envbuild.resolve.python import cutoff, indexes, local, newest, old_pins, pip_tools, sizes, uv
from envbuild.resolve.python.sources import Build, Shelf, locate
from envbuild.resolve.python.wheels import Candidate, NoWheelError, Target, best, choose, project_of

RESOLVERS = ("uv", "pip-tools")
_ANY = "pip"
"""A package that every index has which mirrors the usual one."""
_FURTHER = ("UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS")


@dataclass(frozen=True, kw_only=True, slots=True)
class PythonRequest:
    """What to resolve.

    Attributes:
        target: interpreter and platform.
        requirements: PEP 508 lines.
        constraints: PEP 508 lines that only limit versions of what is asked for anyway.
        wheels: folders with wheels of one's own.
        digests: the files that may be taken, SHA-256 by normalised name and version; None: any. What has no entry may
            not be taken, as in pip's hash-checking mode.
        folder: relative paths start here; usually the spec's folder.
        existing: packages of the lock there is; their versions are kept where the requirements allow it.
        upgrade: forget ``existing``.
        upgrade_packages: names to move, with whatever that forces.
        exclude_newer: leave out what was uploaded to an index from this time on, ``20260711T000000Z``; empty: nothing.
        sources: packages that may be built from source where no wheel fits; ``all``: any.
    """

    target: Target
    requirements: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    wheels: tuple[Path, ...] = ()
    digests: Mapping[tuple[str, str], frozenset[str]] | None = None
    folder: Path = Path()
    existing: tuple[PythonPackage, ...] = ()
    upgrade: bool = False
    upgrade_packages: tuple[str, ...] = ()
    exclude_newer: str = ""
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolvedPython:
    """The answer.

    Attributes:
        packages: sorted by name.
        locations: addresses or absolute paths by SHA-256, in the order to try; never part of a lock.
        notes: sentences worth reporting: configuration left out, an index without digests, a yanked release.
    """

    packages: tuple[PythonPackage, ...] = ()
    locations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def resolve_python(
    request: PythonRequest,
    *,
    cache_dir: Path,
    resolver: str = "uv",
    cross_check: bool = False,
    progress: Progress | None = None,
    environ: Mapping[str, str] = os.environ,
    network: NetworkConfig | None = None,
    build: Build | None = None,
) -> ResolvedPython:
    """Resolve requirements to one wheel per package.

    Args:
        cache_dir: folder for what can be asked again: sizes, environments for pip-tools.
        resolver: ``uv`` or ``pip-tools``.
        cross_check: let the other resolver start from the same pins and refuse if it moves, adds or drops one.
        environ: the process environment, which holds part of the user's configuration of uv and pip.
        network: how to reach files; read from ``environ`` if absent.
        build: builds the sources that ``request`` allows.

    Raises:
        ResolveError: nothing satisfies the requirements, a package has no wheel for the target, or resolvers differ.
        IntegrityError: an index or file cannot be read, or no file of a package has a digest that ``request`` admits.
    """
    progress = progress or Silent()
    if not request.requirements:
        _check_names(request.upgrade_packages, ())
        return ResolvedPython()
    if request.exclude_newer and (cross_check or resolver != "uv"):
        raise ResolveError(
            "exclude-newer: only uv resolves as of a time, not pip-tools", "leave out --resolver and --cross-check"
        )
    if request.sources and (cross_check or resolver != "uv"):
        raise ResolveError(
            "sources: pip-tools would run the code of packages outside of the sandbox",
            "leave out --resolver and --cross-check",
        )
    network = network or network_config(environ)
    question = _question(request)
    own = local.read_folders(_folders(request))
    with (
        progress.phase("python", unit="packages"),
        temporary_folder("envbuild-wheels-") as folder,
        ThreadPoolExecutor(1) as pool,
    ):
        places = indexes.configured(environ, request.folder, request.wheels)
        places = local.first_of_all(places, own, folder, environ)
        places = cutoff.limited(places, request.exclude_newer, own.digests, environ)
        decided: Mapping[str, frozenset[str]] = {}
        asked = _Pages(request.folder, request.target, places, environ, network, cache_dir)
        may = [name for name in request.sources if name not in own.digests]
        shelf = Shelf(folder, may, request.target, asked.of, build, request.exclude_newer)
        places = shelf.next_to(places, environ)
        comparison = _Comparison(request, own, places, environ, asked)
        pages = pool.submit(comparison.pages)
        if resolver == "uv":
            answer = _ask_uv(request, question, own, places, environ, shelf, comparison, asked, pages.result)
        elif resolver == "pip-tools":
            answer, decided = _ask_pip_tools(request, _with_constraints(question, own), places, cache_dir, environ)
        else:
            raise ResolveError(f"unknown resolver {quote(resolver)}: expected {' or '.join(RESOLVERS)}")
        answer = replace(answer, offered=own.only_own(answer.offered))
        chosen = choose(_admissible(answer.offered, request, shelf.archives), request.target, _kept(request))
        if cross_check:
            _cross_check(request, _with_constraints(question, own), chosen, resolver, places, cache_dir, environ)
        passed_over = comparison.notes(chosen, pages.result())
    _check_names(request.upgrade_packages, chosen)
    known = {p.wheel.sha256: p.wheel.size for p in request.existing}
    full, notes = sizes.complete(chosen, cache_dir, network, progress, known)
    # What comes from an index without digests is known only now.
    _admissible({c.package: [c] for c in full}, request, shelf.archives)
    _decided({c.package: [c] for c in full}, decided)
    return ResolvedPython(
        packages=tuple(map(_package, full)),
        locations={c.sha256: _locations(c, answer.offered[c.package]) for c in full if c.sha256 not in shelf.archives},
        notes=(*places.notes, *cutoff.summed_up(answer.warnings), *notes, *passed_over),
    )


def _kept(request: PythonRequest) -> dict[str, str]:
    """Return the digests of wheels that an earlier lock has, by file name."""
    return {} if request.upgrade else {p.wheel.name: p.wheel.sha256 for p in request.existing}


def _ask_uv(
    request: PythonRequest,
    question: uv.Question,
    own: local.LocalWheels,
    places: indexes.Indexes,
    environ: Mapping[str, str],
    shelf: Shelf,
    comparison: _Comparison,
    asked: _Pages,
    pages: Callable[[], Pages],
) -> uv.Answer:
    """Ask until all that is chosen can be installed: what has no wheel is built, where the spec allows it."""
    shelf.offer()
    while True:
        try:
            answer = uv.ask(question, request.target, places, environ)
        except NoWheelError as error:
            if shelf.admit(error.lacking):
                continue
            lines = old_pins.of_projects((*error.lacking, *request.requirements))
            raise old_pins.explained(error, lines, asked.of(map(project_of, lines)), request.target) from None
        answer = replace(answer, offered=shelf.completed(answer.offered))
        if not shelf.used:
            return answer
        chosen = choose(own.only_own(answer.offered), request.target, _kept(request))
        if shelf.build(chosen):
            continue
        falls = comparison.falls(chosen, pages())
        if not shelf.admit(line for fall in falls for line in fall.lacking):
            return answer


Pages = Mapping[str, Sequence[Sequence[newest.File]]]


class _Pages:
    """Reads pages of the indexes that uv asks."""

    def __init__(
        self,
        folder: Path,
        target: Target,
        places: indexes.Indexes,
        environ: Mapping[str, str],
        network: NetworkConfig,
        cache_dir: Path,
    ) -> None:
        self._memory = cache_dir / "default-index"
        self._folder, self._target, self._places = folder, target, places
        self._environ, self._network = environ, network

    def known(self, names: Iterable[str]) -> Pages:
        """Read the pages of all indexes that are known without uv."""
        known = indexes.addresses(self._places, self._environ, self._built_in())
        return newest.read_pages(dict.fromkeys(names, known), self._network) if known else {}

    def others(self, names: Collection[str], lines: Sequence[str]) -> Pages:
        """Read the pages of indexes that only uv knows, which takes a process: by its files, or its own default.

        Args:
            lines: requirements that are met with wheels, of these names.
        """
        if self._built_in() and indexes.addresses(self._places, self._environ):
            return {}  # all were read: the packages come from a folder
        found = uv.indexes_of(lines, self._folder, self._target, self._places, self._environ)
        self._remember(found.values())
        return newest.read_pages({name: (place,) for name, place in found.items()}, self._network)

    def of(self, names: Iterable[str]) -> Pages:
        """Read the pages of packages that may have no wheel at all."""
        if not self._built_in() and "built-in:" in indexes.addresses(self._places, self._environ, "built-in:"):
            self._remember(self._of_default([_ANY]).values())
        return self.known(names)

    def _of_default(self, lines: Sequence[str]) -> dict[str, str]:
        """Return what the default index has; an index that is asked before it may have the same packages."""
        places = replace(self._places, environment=_without_further(self._places.environment))
        return uv.indexes_of(lines, self._folder, self._target, places, _without_further(self._environ))

    def _built_in(self) -> str:
        """Return uv's own default index as an earlier call learned it; empty if none did."""
        with suppress(OSError, ValueError):
            uv_file, _, address = self._memory.read_text(encoding="utf-8").partition("\n")
            return address if uv_file == _identity(uv.find_uv()) else ""
        return ""

    def _remember(self, places: Iterable[str]) -> None:
        """Keep uv's own default index, where it is the only one that nothing else names."""
        named = indexes.addresses(self._places, self._environ, "built-in:")
        others = set(places) - set(named)
        if len(others) == 1 and "built-in:" in named:
            with suppress(OSError):
                atomic_write(self._memory, f"{_identity(uv.find_uv())}\n{others.pop()}".encode(), mode=0o600)


def _without_further(environ: Mapping[str, str]) -> dict[str, str]:
    """Return variables without those that name indexes and folders next to the default index."""
    return {name: value for name, value in environ.items() if name not in _FURTHER}


class _Comparison:
    """Compares what was chosen with the newest releases; pages of indexes are read while the resolver works."""

    def __init__(
        self,
        request: PythonRequest,
        own: local.LocalWheels,
        places: indexes.Indexes,
        environ: Mapping[str, str],
        pages: _Pages,
    ) -> None:
        self._request, self._places, self._environ, self._pages = request, places, environ, pages
        asked = request.requirements
        admitted = newest.open_names((*asked, *request.constraints))
        named = set(newest.open_names(asked)) - set(own.digests)
        self._asked = {name: found for name, found in admitted.items() if name in named}
        self._lines = [line for line in asked if next(iter(newest.open_names([line])), "") in named]
        self._before = set() if request.upgrade else {(p.name, p.version) for p in request.existing}

    def pages(self) -> Pages:
        """Return what indexes list of the packages that the spec names; nothing if a lock pins them all."""
        moved = set(self._asked) - {name for name, _ in self._before} | set(self._request.upgrade_packages)
        return self._pages.known(self._asked) if moved else {}

    def notes(self, chosen: Sequence[Candidate], pages: Pages) -> tuple[str, ...]:
        """Return notes on newer releases that were passed over for want of a wheel; raises ``ResolveError`` if far."""
        return newest.refuse_far(self.falls(chosen, pages), self._request.target)

    def falls(self, chosen: Sequence[Candidate], pages: Pages) -> list[newest.PassedOver]:
        """Return which newer releases were passed over for want of a wheel."""
        fresh = [c for c in chosen if c.package in self._asked and (c.package, c.version) not in self._before]
        pages = pages or (self._pages.known(self._asked) if fresh else {})
        if unlisted := {c.package for c in fresh if not newest.lists(pages.get(c.package, ()), c)}:
            lines = [line for line in self._lines if unlisted & set(newest.open_names([line]))]
            pages = {**pages, **self._pages.others(unlisted, lines)}
        target = self._request.target
        if self._request.exclude_newer:
            pages = cutoff.before(pages, self._request.exclude_newer)
        return newest.passed_over(fresh, self._asked, target, pages, self._lacking)

    def _lacking(self, line: str) -> Sequence[str]:
        alone = uv.Question(lines=(line,), folder=self._request.folder, constraints=self._request.constraints)
        return uv.lacking_wheels(alone, self._request.target, self._places, self._environ)


def _identity(program: str) -> str:
    """Return what changes when a program is replaced."""
    status = Path(program).stat()
    return f"{program} {status.st_size} {status.st_mtime_ns}"


def _with_constraints(question: uv.Question, own: local.LocalWheels) -> uv.Question:
    """Return a question for pip as well, which ranks no indexes: the versions that the spec's own wheels have."""
    return replace(question, constraints=(*question.constraints, *own.constraints))


def source_urls(
    archives: Mapping[str, tuple[str, str]],
    target: Target,
    cache_dir: Path,
    *,
    folder: Path = Path(),
    environ: Mapping[str, str] = os.environ,
    network: NetworkConfig | None = None,
) -> dict[str, tuple[str, ...]]:
    """Return where archives of sources are found now, by SHA-256.

    Args:
        archives: file name and SHA-256 by normalised name of the package.
        cache_dir, environ, network: as for ``resolve_python``.

    Raises:
        IntegrityError: no configured index has one of them.
    """
    places = indexes.configured(environ, folder, ())
    reader = _Pages(folder, target, places, environ, network or network_config(environ), cache_dir)
    pages = reader.of(archives)
    return {sha256: locate(file, sha256, pages.get(name, ())) for name, (file, sha256) in archives.items()}


def wheel_urls(
    packages: Sequence[PythonPackage],
    target: Target,
    *,
    wheels: Sequence[Path] = (),
    folder: Path = Path(),
    environ: Mapping[str, str] = os.environ,
) -> dict[str, tuple[str, ...]]:
    """Return where the wheels of a lock are found now, by SHA-256: addresses or absolute paths, in the order to try.

    Asks the configured indexes for exactly these versions, without following dependencies.

    Raises:
        IntegrityError: an index cannot be read, or no longer has a version or a file.
    """
    if not packages:
        return {}
    pins = tuple(f"{package.name}=={package.version}" for package in packages)
    question = uv.Question(lines=pins, folder=folder, dependencies=False)
    try:
        answer = uv.ask(question, target, _anywhere(indexes.configured(environ, folder, wheels)), environ)
    except ResolveError as error:
        raise IntegrityError(
            f"the configured indexes do not have the locked wheels: {error.message}",
            "configure the index that the lock was made with, or lock again: envbuild lock --upgrade",
        ) from None
    found: dict[str, tuple[str, ...]] = {}
    for package in packages:
        offered = answer.offered.get(package.name, ())
        places = dict.fromkeys(c.location for c in offered if c.sha256 == package.wheel.sha256)
        if not places:
            raise IntegrityError(
                f"no configured index has {package.wheel.name} with sha256 {package.wheel.sha256}",
                "configure the index that the lock was made with, or lock again: envbuild lock --upgrade",
            )
        found[package.wheel.sha256] = tuple(places)
    return found


def _question(request: PythonRequest) -> uv.Question:
    """Turn a request into what resolvers are asked."""
    return uv.Question(
        lines=request.requirements,
        constraints=request.constraints,
        folder=request.folder,
        preferred=() if request.upgrade else request.existing,
        upgrade=None if request.upgrade else request.upgrade_packages,
    )


def _ask_pip_tools(
    request: PythonRequest,
    question: uv.Question,
    places: indexes.Indexes,
    cache_dir: Path,
    environ: Mapping[str, str],
) -> tuple[uv.Answer, Mapping[str, frozenset[str]]]:
    """Let pip-tools decide the versions, then find their wheels; returns the digests, too, that they may have."""
    pins = pip_tools.compile_pins(question, request.target, _folders(request), cache_dir, environ)
    lines = tuple(f"{name}=={version}" for name, version in pins.versions.items())
    again = uv.Question(lines=lines, folder=request.folder, dependencies=False)
    answer = uv.ask(again, request.target, _anywhere(places), environ)
    return replace(answer, offered=_decided(answer.offered, pins.hashes)), pins.hashes


def _decided(
    offered: Mapping[str, Sequence[Candidate]], digests: Mapping[str, frozenset[str]]
) -> Mapping[str, Sequence[Candidate]]:
    """Return the candidates whose digest pip-tools knows, and those whose digest is not known yet.

    Args:
        digests: by package; empty if pip-tools was not asked.

    Raises:
        ResolveError: it knows none of a package's files.
    """
    if not digests:
        return offered
    known = {
        name: [c for c in candidates if not c.sha256 or c.sha256 in digests.get(name, frozenset())]
        for name, candidates in offered.items()
    }
    if strange := sorted(name for name, candidates in known.items() if not candidates):
        raise ResolveError(f"uv and pip-tools were given different files for: {', '.join(strange)}")
    return known


def _admissible(
    offered: Mapping[str, Sequence[Candidate]], request: PythonRequest, archives: Mapping[str, str]
) -> Mapping[str, Sequence[Candidate]]:
    """Return the candidates that the request admits by digest, and those whose digest is not known yet.

    Raises:
        ResolveError: packages without any admitted digest, all of them named.
        IntegrityError: a package has none of the files admitted.
    """
    if request.digests is None:
        return offered
    from packaging.utils import canonicalize_version

    allowed = {
        name: request.digests.get((name, canonicalize_version(candidates[0].version)))
        for name, candidates in offered.items()
        if candidates
    }
    if lacking := sorted(name for name, digests in allowed.items() if digests is None):
        raise ResolveError(
            f"the requirements files have --hash or --require-hashes, so every package needs one; {len(lacking)} have "
            f"none: {', '.join(lacking)}",
            "add them, as pip-compile --generate-hashes does, or remove every --hash",
        )
    left = {}
    for name, candidates in offered.items():
        digests = allowed.get(name) or frozenset()
        left[name] = [c for c in candidates if not c.sha256 or archives.get(c.sha256, c.sha256) in digests]
        if candidates and not left[name]:
            one = best(candidates, request.target) or candidates[0]
            raise IntegrityError(
                f"{one.file}: no --hash of the requirements files is that of this file, sha256 {one.sha256}",
                "find out why: another index may have other files, or somebody replaced one",
            )
    return left


def _anywhere(places: indexes.Indexes) -> indexes.Indexes:
    """Look into every index alike: safe where digests are known already, so that nothing is chosen, only found."""
    return replace(places, environment={**places.environment, "UV_INDEX_STRATEGY": "unsafe-best-match"})


def _cross_check(
    request: PythonRequest,
    question: uv.Question,
    chosen: Sequence[Candidate],
    resolver: str,
    places: indexes.Indexes,
    cache_dir: Path,
    environ: Mapping[str, str],
) -> None:
    """Ask the other resolver, starting from these pins; raises ``ResolveError`` if it ends elsewhere."""
    ours = {c.package: c.version for c in chosen}
    start = replace(question, preferred=tuple(map(_pin, chosen)), upgrade=())
    other = next(name for name in RESOLVERS if name != resolver)
    if other == "uv":
        answer = uv.ask(start, request.target, places, environ)
        theirs = {c.package: c.version for c in choose(answer.offered, request.target)}
    else:
        theirs = dict(
            pip_tools.compile_pins(start, request.target, _folders(request), cache_dir, environ, hashes=False).versions
        )
    differing = [
        f"{name}: {resolver} {ours.get(name, 'none')}, {other} {theirs.get(name, 'none')}"
        for name in sorted({*ours, *theirs})
        if ours.get(name) != theirs.get(name)
    ]
    if differing:
        raise ResolveError(
            f"{resolver} and {other} disagree on {len(differing)} of {len(ours)} packages: {'; '.join(differing)}",
            "pin these packages in the spec, then lock again",
        )


def _check_names(names: Sequence[str], chosen: Sequence[Candidate]) -> None:
    """Raise ``ResolveError`` for a name to upgrade that is no part of the resolution."""
    from packaging.utils import canonicalize_name

    have = [candidate.package for candidate in chosen]
    for name in names:
        if canonicalize_name(name) not in have:
            raise ResolveError(
                f"--upgrade-package: no package {quote(name)} is locked{perhaps(name, have)}",
                "name a package of the lock; a new one is named in the spec's requirements",
            )


def _folders(request: PythonRequest) -> list[Path]:
    """Return the folders of wheels, absolute."""
    return [(request.folder / path).absolute() for path in request.wheels]


def _locations(chosen: Candidate, offered: Sequence[Candidate]) -> tuple[str, ...]:
    """Return every place that has the chosen bytes, the chosen place first."""
    same = (c.location for c in offered if c.sha256 == chosen.sha256)
    return tuple(dict.fromkeys((chosen.location, *same)))


def _pin(candidate: Candidate) -> PythonPackage:
    """Return a package of which only name and version matter."""
    wheel = Wheel(name=candidate.file, size=0, sha256="0" * 64)
    return PythonPackage(name=candidate.package, version=candidate.version, wheel=wheel)


def _package(candidate: Candidate) -> PythonPackage:
    """Turn a completed candidate into its entry in the lock."""
    if candidate.size is None:  # pragma: no cover - sizes.complete promises it
        raise IntegrityError(f"{candidate.file}: size unknown")
    wheel = Wheel(name=candidate.file, size=candidate.size, sha256=candidate.sha256)
    return PythonPackage(name=candidate.package, version=candidate.version, wheel=wheel)
