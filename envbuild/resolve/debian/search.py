"""A complete search for a set of packages, for what apt's way of choosing does not reach, and the reason if none is.

Every choice is propagated at once (a need with one way left is that way; a conflict forbids). A dead end jumps back to
the last decision that had a part in it (conflict-directed backjumping), so a search that ends without a set has
proved that there is none, and the facts that depend on no decision are the proof that the user reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from envbuild.errors import ResolveError
from envbuild.resolve.debian.relations import Group, Relation, format_group
from envbuild.resolve.debian.universe import Package, Universe

_LIMIT = 20_000
_SHOWN = 6

Levels = frozenset[int]
_NONE: Levels = frozenset()


@dataclass(frozen=True, slots=True)
class _Why:
    """Why a package is chosen or forbidden: the decisions behind it, who reports it, and in which words."""

    levels: Levels
    owner: str
    text: str


class _DeadEndError(Exception):
    """No way left for a need: the decisions behind it, and an account of it."""

    def __init__(self, levels: Levels, account: str) -> None:
        super().__init__(account)
        self.levels = levels
        self.account = account


@dataclass(slots=True)
class _State:
    """What is chosen and forbidden, each with its reason, and the needs still open."""

    chosen: dict[str, _Why] = field(default_factory=dict)
    forbidden: dict[str, _Why] = field(default_factory=dict)
    open: list[tuple[str, Group]] = field(default_factory=list)

    def copy(self) -> _State:
        return _State(dict(self.chosen), dict(self.forbidden), list(self.open))


def search(universe: Universe, roots: Sequence[str]) -> dict[str, Package]:
    """Return a set of packages that holds the roots and in which every relation is kept.

    Args:
        roots: names of packages that exist.

    Raises:
        ResolveError: there is no such set; the message is a chain of reasons.
    """
    return _Search(universe).run(roots)


class _Search:
    def __init__(self, universe: Universe) -> None:
        self._universe = universe
        self._state = _State()
        self._decided: list[tuple[_State, str]] = []

    def run(self, roots: Sequence[str]) -> dict[str, Package]:
        for _ in range(_LIMIT):
            try:
                while roots:
                    self._choose(roots[0], _Why(_NONE, "", ""))
                    roots = roots[1:]
                need = self._next_need()
                if need is None:
                    found = {name: self._universe.candidate(name) for name in self._state.chosen}
                    return {name: package for name, package in found.items() if package}
                owner, ways = need
                self._decided.append((self._state.copy(), ways[0].name))
                levels = frozenset({len(self._decided)})
                self._choose(ways[0].name, _Why(levels | self._state.chosen[owner].levels, owner, "needs it"))
            except _DeadEndError as end:
                self._jump_back(end)
        raise ResolveError(
            f"os packages: found no fitting set within {_LIMIT} attempts",
            "name fewer packages, or choose between alternatives",
        )

    def _jump_back(self, end: _DeadEndError) -> None:
        """Undo up to the last decision that mattered and forbid it; raises ``ResolveError`` if none did."""
        if not end.levels:
            raise ResolveError(
                f"os packages: no set of packages fits together:\n{self._explained(end.account)}",
                "drop one of the packages named above from the spec",
            )
        last = max(end.levels)
        self._state, name = self._decided[last - 1]
        del self._decided[last - 1 :]
        self._forbid(name, _Why(end.levels - {last}, "", f"{name} is ruled out:\n{end.account}"))

    def _next_need(self) -> tuple[str, list[Package]] | None:
        """Follow needs with a single way; return the first that has several, or None when all are met."""
        waiting: list[tuple[str, Group]] = []
        while self._state.open:
            owner, group = self._state.open.pop(0)
            ways = self._ways(owner, group)
            if len(ways) == 1:
                levels = self._levels_without(owner, group)
                self._choose(ways[0].name, _Why(levels, owner, f"needs {format_group(group)}"))
                self._state.open += waiting
                waiting = []
            elif ways:
                waiting.append((owner, group))
        self._state.open = waiting
        return (waiting[0][0], self._ways(*waiting[0])) if waiting else None

    def _ways(self, owner: str, group: Group) -> list[Package]:
        """Return the ways left to meet a need; none if it is met. Raises ``_DeadEndError`` if it cannot be."""
        solutions = list(dict.fromkeys(item for relation in group for item in self._universe.solutions(relation)))
        if any(item.name in self._state.chosen for item in solutions):
            return []
        ways = [item for item in solutions if item.name not in self._state.forbidden]
        if not ways:
            raise _DeadEndError(self._levels_without(owner, group), self._account(owner, group, solutions))
        return ways

    def _levels_without(self, owner: str, group: Group) -> Levels:
        """Return the decisions that made a need and closed its other ways."""
        levels = self._state.chosen[owner].levels
        for item in (item for relation in group for item in self._universe.solutions(relation)):
            if item.name in self._state.forbidden:
                levels |= self._state.forbidden[item.name].levels
        return levels

    def _choose(self, name: str, why: _Why) -> None:
        if name in self._state.chosen:
            return
        package = self._universe.candidate(name)
        assert package is not None  # noqa: S101 - only candidates are ever ways
        if name in self._state.forbidden:
            against = self._state.forbidden[name]
            self._state.chosen[name] = why
            raise _DeadEndError(why.levels | against.levels, f"{self._chain(name)}\n  but {against.text}")
        self._state.chosen[name] = why
        for relation in package.conflicts:
            for opponent in self._universe.solutions(relation):
                if opponent.name != name:
                    self._rule_out(package, relation, opponent)
        self._state.open += [(name, group) for group in package.requirements]

    def _rule_out(self, package: Package, relation: Relation, opponent: Package) -> None:
        """Forbid what a chosen package conflicts with; raises ``_DeadEndError`` if that is chosen already."""
        why = self._state.chosen[package.name]
        text = f"{package} conflicts with {relation}" + ("" if relation.name == opponent.name else f" ({opponent})")
        if opponent.name in self._state.chosen:
            levels = why.levels | self._state.chosen[opponent.name].levels
            raise _DeadEndError(levels, f"{self._chain(package.name)}\n{self._chain(opponent.name)}\n  but {text}")
        self._forbid(opponent.name, _Why(why.levels, package.name, text))

    def _forbid(self, name: str, why: _Why) -> None:
        self._state.forbidden.setdefault(name, why)

    def _account(self, owner: str, group: Group, solutions: Sequence[Package]) -> str:
        """Describe why a need cannot be met."""
        lines = [self._chain(owner), f"  {owner} needs {format_group(group)}, but"]
        lines += [f"    {self._missing(relation)}" for relation in group if not self._universe.solutions(relation)]
        blockers = []
        for item in solutions[:_SHOWN]:
            why = self._state.forbidden[item.name]
            lines.append(f"    {why.text}")
            if why.owner and why.owner not in blockers:
                blockers.append(why.owner)
        lines += [self._chain(name) for name in blockers]
        return "\n".join(dict.fromkeys(lines))

    def _missing(self, relation: Relation) -> str:
        """Describe why nothing satisfies a relation."""
        if relation.name in self._universe.excluded:
            return f"{relation.name} is left out: {self._universe.excluded[relation.name]}"
        package = self._universe.candidate(relation.name)
        provided = [f"{relation.name} {version}".strip() for version, _ in self._universe.providers(relation.name)]
        if package is not None:
            return f"only {package} exists"
        if provided:
            return f"only {', '.join(sorted(set(provided))[:_SHOWN])} is provided"
        return f"there is no {relation.name}"

    def _explained(self, account: str) -> str:
        """Add where the archive has a package after all: an index more is read, so only of the final account."""
        for line in dict.fromkeys(account.splitlines()):
            name = line.strip().removeprefix("there is no ")
            if name != line.strip() and (place := self._universe.elsewhere(name)):
                account = account.replace(line, f"    {name} is {place}")
        return account

    def _chain(self, name: str) -> str:
        """Describe which needs lead from a requested package to this one."""
        parts = [str(self._universe.candidate(name))]
        seen = {name}
        while (why := self._state.chosen.get(name)) and why.owner and why.owner not in seen:
            name = why.owner
            seen.add(name)
            parts.append(str(self._universe.candidate(name)))
        return "  " + (" needs ".join(reversed(parts)) if len(parts) > 1 else f"{parts[0]} is wanted")
