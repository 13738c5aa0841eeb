"""Choose packages the way apt does, so that a lock holds what ``apt-get install`` would have installed.

This follows apt's published algorithm for an empty system (apt 2.6, apt-pkg/depcache.cc, pkgDepCache::MarkInstall):
depth first; a relation that something chosen already satisfies is left alone; else alternatives in written order, and
the providers of one in apt's order of preference; an alternative that turns out not to be installable is dropped and
the next one tried. What a requested package cannot do without is *protected*: nothing may rule it out later.

It finds what apt finds without its problem resolver. Where that is not enough, ``debian_search`` takes over.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from envbuild.resolve.debian.relations import Group, Relation
from envbuild.resolve.debian.universe import Package, Universe, reachable


def mark(universe: Universe, roots: Sequence[str]) -> dict[str, Package] | None:
    """Return the packages apt would install for the roots (names of packages that exist), or None if that is broken."""
    marks = _Marks(universe)
    with _deep_recursion():
        for name in roots:
            marks.protect_root(name)
        for name in roots:
            marks.install(name, from_user=True)
    if not marks.consistent(roots):
        return None
    kept = reachable(roots, marks.chosen)
    return {name: package for name, package in marks.chosen.items() if name in kept}


class _Marks:
    """The state of apt's marking: chosen packages, protected ones, and candidates dropped."""

    def __init__(self, universe: Universe) -> None:
        self.universe = universe
        self.chosen: dict[str, Package] = {}
        self._protected: set[str] = set()
        self._discarded: set[str] = set()
        self._provided: dict[str, list[tuple[str, Package]]] = {}

    def protect_root(self, name: str) -> None:
        """Choose a requested package, come what may."""
        if package := self._candidate(name):
            self._protected.add(name)
            self._choose(package)

    def install(self, name: str, *, from_user: bool = False) -> bool:
        """Choose a package and what it needs; on failure it is dropped, unless it is protected or requested."""
        protected = name in self._protected
        package = self._candidate(name)
        if package is None or (not from_user and protected and name not in self.chosen):
            return False
        if not protected and name in self.chosen and not self._broken(package):
            return True
        if not all(map(self._satisfiable, package.requirements)):
            if not protected:
                self._discard(name)
            return False
        careful = not protected and not from_user
        wanted = [group for group in package.requirements if protected or not self._satisfied(group)]
        complete = self._rule_out(package, protected=protected, careful=careful)
        if not complete and careful:
            return False
        self._choose(package)
        self._protected.add(name)  # for as long as its own dependencies are being chosen
        if not self._install_all(wanted, protected=protected, careful=careful):
            complete = False
        if not protected:
            self._protected.discard(name)
            if not complete and careful:
                self._drop(name)
        return complete

    def consistent(self, roots: Iterable[str]) -> bool:
        """Return whether every root is chosen and every chosen package has what it needs and no conflict."""
        return all(name in self.chosen for name in roots) and not any(map(self._broken, self.chosen.values()))

    def _install_all(self, wanted: Iterable[Group], *, protected: bool, careful: bool) -> bool:
        """Satisfy each group of alternatives; with ``careful``, stop at the first that cannot be."""
        complete = True
        for group in wanted:
            if self._satisfied(group):
                if protected:
                    complete = self._pass_protection_on(group) and complete
            elif not self._install_one(group, protected=protected):
                complete = False
                if careful:
                    return False
        return complete

    def _pass_protection_on(self, group: Group) -> bool:
        """Protect what alone satisfies a protected package's need."""
        solutions = {package.name for relation in group for package in self._solutions(relation)}
        if len(solutions) != 1 or (name := solutions.pop()) in self._protected:
            return True
        self._protected.add(name)
        return self.install(name)

    def _install_one(self, group: Group, *, protected: bool) -> bool:
        solutions = list(dict.fromkeys(package for relation in group for package in self._solutions(relation)))
        solutions = [item for item in solutions if item.name in self.chosen or item.name not in self._protected]
        for package in solutions:
            if self._candidate(package.name) is None:
                continue
            if protected and len(solutions) == 1:
                self._choose(package)
                self._protected.add(package.name)
            if self.install(package.name):
                return True
        return False

    def _rule_out(self, package: Package, *, protected: bool, careful: bool) -> bool:
        """Handle what the package conflicts with; a protected one rules its opponents out for good."""
        complete = True
        for relation in package.conflicts:
            for opponent in self._opponents(package, relation, chosen_only=not protected):
                if opponent.name in self.chosen:
                    if opponent.name in self._protected:
                        complete = False
                        if careful:
                            return False
                        continue
                    self._unchoose(opponent.name)
                if protected:
                    self._discard(opponent.name)
                    self._protected.add(opponent.name)
        return complete

    def _opponents(self, package: Package, relation: Relation, *, chosen_only: bool) -> list[Package]:
        return [
            other
            for other in (self._chosen_solutions(relation) if chosen_only else self._solutions(relation))
            if other.name != package.name
        ]

    def _candidate(self, name: str) -> Package | None:
        return None if name in self._discarded else self.universe.candidate(name)

    def _solutions(self, relation: Relation) -> Iterator[Package]:
        """Give apt's choices for a relation: protected ones first, else in the universe's order."""
        found = [item for item in self.universe.solutions(relation) if item.name not in self._discarded]
        return iter(sorted(found, key=lambda item: item.name not in self._protected))

    def _chosen_solutions(self, relation: Relation) -> list[Package]:
        named = self.chosen.get(relation.name)
        found = [named] if named is not None and self.universe.matches(relation, named) else []
        for version, package in self._provided.get(relation.name, ()):
            if relation.accepts(version) and self.universe.arch_matches(relation, package):
                found.append(package)
        return found

    def _satisfied(self, group: Group) -> bool:
        return any(self._chosen_solutions(relation) for relation in group)

    def _satisfiable(self, group: Group) -> bool:
        return self._satisfied(group) or any(True for relation in group for _ in self._solutions(relation))

    def _broken(self, package: Package) -> bool:
        return not all(map(self._satisfied, package.requirements)) or any(
            self._opponents(package, relation, chosen_only=True) for relation in package.conflicts
        )

    def _choose(self, package: Package) -> None:
        if package.name not in self.chosen:
            self.chosen[package.name] = package
            for name, version in package.provided:
                self._provided.setdefault(name, []).append((version, package))

    def _unchoose(self, name: str) -> None:
        package = self.chosen.pop(name)
        for provided, version in package.provided:
            self._provided[provided].remove((version, package))

    def _drop(self, name: str) -> None:
        if name in self.chosen:
            self._unchoose(name)
        self._discarded.add(name)

    def _discard(self, name: str) -> None:
        """Give a candidate up; apt leaves one that is chosen as it is."""
        if name not in self.chosen:
            self._discarded.add(name)


@contextmanager
def _deep_recursion() -> Iterator[None]:
    """Allow chains as long as apt does (3,000 packages, a few frames each)."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, 20_000))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
