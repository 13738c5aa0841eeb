"""In which order Debian packages can be installed where there is nothing yet.

Debian Policy 7.2: an essential package must work when it is merely unpacked, so these and all they depend on are
unpacked first by force; a package's Pre-Depends must be configured before it is unpacked. Everything else may be
unpacked together and be configured by dpkg in the order it finds itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from envbuild.errors import BuildError

_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9+.-]+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Package:
    """One package: name, base name of its file, and its control fields."""

    name: str
    file: str
    fields: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Action:
    """One line of the install plan.

    Attributes:
        verb: ``bootstrap`` (install by force, one after the other), ``force`` (unpack whatever is missing),
            ``unpack``, or ``configure`` (no words: all that is pending).
        words: package files, or package names for ``configure``.
    """

    verb: str
    words: tuple[str, ...] = ()


class _Relations:
    """Who needs whom, within one set of packages."""

    def __init__(self, packages: Iterable[Package]) -> None:
        self.packages = {package.name: package for package in packages}
        self._providers: dict[str, list[str]] = {}
        for name, package in sorted(self.packages.items()):
            for provided in _names(package.fields.get("Provides", "")):
                self._providers.setdefault(provided[0], []).append(name)

    def needs(self, name: str, *fields: str) -> set[str]:
        """Return the packages of the set that satisfy these relation fields of one package."""
        found: set[str] = set()
        for field in fields:
            for alternatives in _names(self.packages[name].fields.get(field, "")):
                found.update(self._satisfying(alternatives))
        return found - {name}

    def closure(self, names: Iterable[str]) -> set[str]:
        """Return these packages and all they depend on, directly or not."""
        reached: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name not in reached:
                reached.add(name)
                waiting.extend(self.needs(name, "Pre-Depends", "Depends"))
        return reached

    def _satisfying(self, alternatives: Sequence[str]) -> list[str]:
        for name in alternatives:
            if name in self.packages:
                return [name]
            if name in self._providers:
                return self._providers[name]
        return []


def essential(packages: Iterable[Package]) -> frozenset[str]:
    """Return the names of the essential packages and of all they depend on.

    Raises:
        BuildError: the set holds no dpkg, so that nothing could be installed.
    """
    relations = _Relations(packages)
    names = {name for name, package in relations.packages.items() if package.fields.get("Essential") == "yes"}
    closed = relations.closure(names)
    if "dpkg" not in closed:
        raise BuildError(
            "the lock's OS packages hold no essential dpkg: nothing could be installed", "lock again: envbuild lock"
        )
    return frozenset(closed)


def closure(packages: Iterable[Package], names: Iterable[str]) -> frozenset[str]:
    """Return these packages and all of the set that they depend on, directly or not."""
    return frozenset(_Relations(packages).closure(names))


def install_plan(packages: Iterable[Package]) -> tuple[Action, ...]:
    """Return the actions that install these packages into a tree where the essential ones are unpacked by hand.

    The same set gives the same plan, whatever its order.
    """
    relations = _Relations(packages)
    base = essential(relations.packages.values())
    first = [name for name in ("base-passwd", "base-files") if name in base]
    plan = [
        Action(verb="bootstrap", words=_files(relations, first, ordered=False)),
        Action(verb="force", words=_files(relations, base - set(first))),
        Action(verb="configure"),
    ]
    configured = set(base)
    unpacked: set[str] = set()
    waiting = set(relations.packages) - base
    while waiting:
        ready = {name for name in waiting if relations.needs(name, "Pre-Depends") <= configured}
        # A cycle of Pre-Depends is a bug of the archive that dpkg, forced, gets over like apt does.
        verb = "unpack" if ready else "force"
        chosen = ready or waiting
        plan.append(Action(verb=verb, words=_files(relations, chosen)))
        unpacked |= chosen
        waiting = waiting - chosen
        settled = {name for name in unpacked if relations.closure([name]) <= unpacked | configured}
        if waiting and settled:
            plan.append(Action(verb="configure", words=tuple(sorted(settled))))
            configured |= settled
            unpacked -= settled
    return (*plan, Action(verb="configure"))


def render(plan: Iterable[Action]) -> bytes:
    """Return the plan as the install script reads it: one action per line, words separated by blanks."""
    return "".join(" ".join((action.verb, *action.words)) + "\n" for action in plan).encode()


def _files(relations: _Relations, names: Iterable[str], *, ordered: bool = True) -> tuple[str, ...]:
    return tuple(relations.packages[name].file for name in (sorted(names) if ordered else names))


def _names(field: str) -> list[list[str]]:
    """Return the names in a relation field (Debian Policy 7.1), alternatives together; versions do not matter here."""
    groups = []
    for group in field.split(","):
        matches = [_NAME.match(alternative) for alternative in group.split("|")]
        groups.append([match[1] for match in matches if match])
    return [group for group in groups if group]
