"""What can be installed: the candidate of every package over all suites of a release, and who provides what.

One version of each package is installable: the one that a pin names, if an index has it; else the highest (apt pins
all three suites alike, at 500); among equal versions, that of the earliest suite. Further archives provide what the
system's suites do not have, and the names that they replace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from envbuild.errors import IntegrityError
from envbuild.resolve.debian.index import Index, Record
from envbuild.resolve.debian.relations import Group, Relation, version_key


@dataclass(frozen=True, slots=True, eq=False)
class Package:
    """A candidate: its record, the place of its suite among the suites, and its relations.

    Attributes:
        age: sorts packages by how early apt hears of them.
        wishes: what it recommends and suggests.
        provided: names it provides with the version it provides them as, or with an empty one.
    """

    record: Record
    suite: int
    age: tuple[int, int]
    requirements: tuple[Group, ...]
    conflicts: tuple[Relation, ...]
    wishes: tuple[Group, ...]
    provided: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        """Its name."""
        return self.record.name

    @property
    def version(self) -> str:
        """Its version."""
        return self.record.version

    def __str__(self) -> str:
        """Name and version, for messages."""
        return f"{self.name} {self.version}"


_LAST = (3, 0)
"""Behind every suite."""


@dataclass(frozen=True, slots=True)
class Pin:
    """The version that a package is to have, and its file's SHA-256; empty for any file of that version."""

    version: str
    sha256: str = ""


@dataclass(slots=True)
class Universe:
    """Candidates, read on demand.

    Attributes:
        suites: the indexes of each suite, in the order in which apt would read them.
        architecture: native architecture; packages of ``all`` count as native too.
        excluded: packages to be treated as absent, each with the reason.
        pins: versions to prefer to the highest, by package name.
        elsewhere: describes the component of the archive, of those not searched, that has a package; empty if none has.
        replaced: of each further archive, by its place among the suites, the names that it provides although the
            system's suites have them.
        first: of each further archive's components but the first, by place, the place of the first.
    """

    suites: Sequence[Sequence[Index]]
    architecture: str
    excluded: Mapping[str, str] = field(default_factory=dict)
    pins: Mapping[str, Pin] = field(default_factory=dict)
    elsewhere: Callable[[str], str] = lambda name: ""
    replaced: Mapping[int, frozenset[str]] = field(default_factory=dict)
    first: Mapping[int, int] = field(default_factory=dict)
    _packages: dict[str, Package | None] = field(default_factory=dict, init=False)
    _providers: dict[str, tuple[tuple[str, Package], ...]] = field(default_factory=dict, init=False)
    _solutions: dict[Relation, tuple[Package, ...]] = field(default_factory=dict, init=False)

    def candidate(self, name: str) -> Package | None:
        """Return the installable version of a package, or None if there is no package of that name."""
        if name not in self._packages:
            self._packages[name] = None if name in self.excluded else self._find(name)
        return self._packages[name]

    def providers(self, name: str) -> tuple[tuple[str, Package], ...]:
        """Return the candidates that provide a name, each with the version it provides it as."""
        if name not in self._providers:
            owners = dict.fromkeys(
                owner for indexes in self.suites for index in indexes for owner in index.providers(name)
            )
            self._providers[name] = tuple(
                (version, package)
                for package in filter(None, map(self.candidate, owners))
                for provided, version in package.provided
                if provided == name
            )
        return self._providers[name]

    def solutions(self, relation: Relation) -> tuple[Package, ...]:
        """Return every candidate that satisfies a relation, in apt's order of preference.

        The package of that name comes first, then providers, the system's before others': essential ones, important
        ones, by priority, and last the one apt heard of last (apt-pkg/depcache.cc, CompareProviders).
        """
        if relation not in self._solutions:
            named = self.candidate(relation.name)
            found = {named.name: named} if named and self.matches(relation, named) else {}
            for version, package in self.providers(relation.name):
                if relation.accepts(version) and self.arch_matches(relation, package):
                    found.setdefault(package.name, package)
            self._solutions[relation] = tuple(sorted(found.values(), key=lambda item: self._preference(relation, item)))
        return self._solutions[relation]

    def matches(self, relation: Relation, package: Package) -> bool:
        """Return whether the package of that name satisfies a relation by itself."""
        return relation.accepts(package.version) and self.arch_matches(relation, package)

    def arch_matches(self, relation: Relation, package: Package) -> bool:
        """Return whether a package's architecture satisfies a relation's qualifier (``name:any``, ``name:amd64``)."""
        if relation.arch == "any":
            return package.record.multi_arch == "allowed"
        return relation.arch in ("", self.architecture)

    def essential(self) -> tuple[str, ...]:
        """Return the names of all essential packages, sorted."""
        own = (indexes for place, indexes in enumerate(self.suites) if place not in self.replaced)
        names = {name for indexes in own for index in indexes for name in index.essential}
        return tuple(sorted(name for name in names if (found := self.candidate(name)) and found.record.essential))

    def names(self) -> set[str]:
        """Return the names of all packages."""
        return {name for indexes in self.suites for index in indexes for name in index.names()}

    def _preference(self, relation: Relation, package: Package) -> tuple[object, ...]:
        record = package.record
        suite, rank = package.age
        further = package.suite in self.replaced
        return (
            record.name != relation.name or relation.arch == "any",
            further,
            not record.essential,
            not record.important,
            record.priority,
            -suite,
            -rank,
        )

    def _find(self, name: str) -> Package | None:
        best: Record | None = None
        place = 0
        age: tuple[int, int] | None = None
        pin = self.pins.get(name)
        pinned = False
        rank = _LAST
        for number, indexes in enumerate(self.suites):
            for record in (record for index in indexes for record in index.versions(name)):
                if record.architecture not in (self.architecture, "all"):
                    continue
                age = age or (number, record.rank)
                if pinned:
                    continue
                pinned = pin is not None and pin.version == record.version and pin.sha256 in ("", record.sha256)
                here = self._rank(number, name)
                higher = best is None or version_key(record.version) > version_key(best.version)
                if pinned or here < rank or (here == rank and higher):
                    best, place, rank = record, number, here
        return _package(best, place, age) if best and age else None

    def _rank(self, suite: int, name: str) -> tuple[int, int]:
        """Return which suites come first for a name: those that replace it, the system's, other archives in order."""
        if suite not in self.replaced:
            return (1, 0)
        archive = self.first.get(suite, suite)
        return (0, archive) if name in self.replaced[suite] else (2, archive)


def _package(record: Record, suite: int, age: tuple[int, int]) -> Package:
    """Read a record's relations; raises ``IntegrityError`` for an index that is not well formed."""
    try:
        return Package(
            record=record,
            suite=suite,
            age=age,
            requirements=record.requirements(),
            conflicts=record.conflicting(),
            wishes=record.wishes(),
            provided=tuple((relation.name, relation.version) for relation in record.provided()),
        )
    except ValueError as error:
        raise IntegrityError(f"package index: {record.name} {record.version}: {error}", "use another mirror") from None


def reachable(roots: Iterable[str], chosen: dict[str, Package]) -> set[str]:
    """Return the chosen packages that the roots lead to through any relation that is met, wishes included.

    This is what apt keeps of what it marked (MarkAndSweep with its default settings): the rest was chosen for an
    alternative that was dropped.
    """
    provided: dict[str, list[str]] = {}
    for package in chosen.values():
        for name, _ in package.provided:
            provided.setdefault(name, []).append(package.name)
    seen: set[str] = set()
    waiting = [name for name in roots if name in chosen]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for group in (*chosen[name].requirements, *chosen[name].wishes):
            for relation in group:
                waiting += [relation.name] if relation.name in chosen else []
                waiting += provided.get(relation.name, ())
    return seen
