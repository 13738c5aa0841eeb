"""Pins of an earlier lock: which packages keep their version, since the archive still has it and it still fits.

An index lists several versions of a package if its suites have different ones (the release's, and a security update).
Pins are preferences, as for Python packages: one whose version is gone, or that does not fit what is new, is given up,
and no other with it. What a spec states (``name=version``) is no preference and is never given up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from envbuild.resolve.debian.universe import Package, Pin, Universe


def hold(newest: Universe, pins: Mapping[str, Pin], roots: Sequence[str]) -> Universe:
    """Return a universe in which pins are the candidates, without those that cannot be kept.

    Args:
        newest: what would be chosen from without pins.
        pins: by package name.
        roots: names of packages to install; what cannot be reached from them is not looked at.
    """
    left = dict(pins)
    while True:
        universe = replace(newest, pins={**left, **newest.pins})
        given_up = set(_unfit(universe, newest, roots)) & left.keys()
        if not given_up:
            return universe
        for name in given_up:
            del left[name]


def newer(chosen: Mapping[str, Package], newest: Universe) -> list[str]:
    """Return the chosen packages of which the archive has a newer version, sorted by name."""
    return sorted(name for name, package in chosen.items() if _moves(package, newest))


def _unfit(universe: Universe, newest: Universe, roots: Sequence[str]) -> Iterator[str]:
    """Yield names of packages whose newest version may do where the pinned one does not."""
    reached: dict[str, Package] = {}
    pending = list(roots)
    while pending:
        name = pending.pop()
        package = universe.candidate(name)
        if package is None or name in reached:
            continue
        reached[name] = package
        for group in package.requirements:
            ways = [way for relation in group for way in universe.solutions(relation)]
            if not ways:
                if _moves(package, newest):
                    yield name
                fitting = (way for relation in group for way in newest.solutions(relation))
                yield from (way.name for way in fitting if way is not universe.candidate(way.name))
            elif not any(way.name in reached for way in ways):
                pinned = (way for way in ways if way.name in universe.pins)
                pending.append(next(pinned, ways[0]).name)
    for package in reached.values():
        for relation in package.conflicts:
            for opponent in universe.solutions(relation):
                if opponent.name in reached and opponent.name != package.name:
                    yield from (one.name for one in (package, opponent) if _moves(one, newest))


def _moves(package: Package, newest: Universe) -> bool:
    """Return whether another version of a package would be chosen without its pin."""
    other = newest.candidate(package.name)
    return other is not None and other.version != package.version
