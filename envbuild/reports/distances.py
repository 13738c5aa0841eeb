"""How far the parameters of runs are from the first run's: one strip for each tensor, darker where they are farther."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from envbuild.reports.values import LETTERS, Distance, Run
from envbuild.reports.words import number

ROWS = 40
"""Tensors shown, those that part first."""
COLUMNS = 120
"""Stretches of steps in a strip."""
LEVELS = 8
_DIGITS = 2
"""Distances are estimates."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Band:
    """Equal neighbours in a strip: where it begins, its width, its level from 0 (equal) on, and its text."""

    x: int
    width: int
    level: int
    sentence: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Strip:
    """One tensor: the first step at which it differs, its distance at the end, and its bands."""

    tensor: str
    first: str
    last: str
    bands: tuple[Band, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Strips:
    """The tensors of one run against the first.

    Attributes:
        columns: width of a strip.
        low, high: smallest and largest distance, for the legend; empty if all are equal.
        equal: how many tensors never differ.
        left_out: tensors that differ and are not shown.
    """

    place: int
    letter: str
    sentence: str
    unit: str
    steps: str
    columns: int
    low: str
    high: str
    strips: tuple[Strip, ...]
    equal: int
    left_out: int


def strips(runs: Sequence[Run]) -> list[Strips]:
    """Return the strips of each run that was traced, as the first one was."""
    return [_strips(place, run.distance) for place, run in enumerate(runs) if run.distance is not None]


def _strips(place: int, distance: Distance) -> Strips:
    tensors = {name: list(points) for name, points in distance.tensors.items()}
    firsts = {name: _first(points) for name, points in tensors.items()}
    differing = [name for name in tensors if firsts[name] is not None]
    differing.sort(key=lambda name: firsts[name] or 0)
    steps = sorted({step for points in tensors.values() for step, _ in points})
    sizes = [value for points in tensors.values() for _, value in points if math.isfinite(value) and value > 0]
    low, high = (min(sizes), max(sizes)) if sizes else (0.0, 0.0)
    stretches = _stretches(steps)
    return Strips(
        place=place,
        letter=LETTERS[place],
        sentence=distance.sentence or ("" if differing or not tensors else "All tensors are equal at every step."),
        unit=distance.unit,
        steps=f"{steps[0]:,} to {steps[-1]:,}" if steps else "",
        columns=len(stretches),
        low=number(low, _DIGITS) if sizes else "",
        high=number(high, _DIGITS) if sizes else "",
        strips=tuple(_strip(name, tensors[name], firsts[name], stretches, low, high) for name in differing[:ROWS]),
        equal=len(tensors) - len(differing),
        left_out=max(len(differing) - ROWS, 0),
    )


def _first(points: Sequence[tuple[int, float]]) -> int | None:
    """Return the first step at which a tensor is not equal; an unknown distance is not 0."""
    return next((step for step, value in points if value != 0), None)


def _stretches(steps: Sequence[int]) -> list[tuple[int, int]]:
    """Cut the steps into at most ``COLUMNS`` stretches: first and last step of each."""
    count = min(len(steps), COLUMNS)
    cuts = [round(part * len(steps) / count) for part in range(count + 1)] if count else []
    return [(steps[one], steps[two - 1]) for one, two in pairwise(cuts)]


def _strip(
    name: str,
    points: Sequence[tuple[int, float]],
    first: int | None,
    stretches: Sequence[tuple[int, int]],
    low: float,
    high: float,
) -> Strip:
    worst = _worst(points, stretches)
    levels = [_level(value, low, high) for value in worst]
    bands = []
    start = 0
    for place in range(1, len(levels) + 1):
        if place < len(levels) and levels[place] == levels[start]:
            continue
        if levels[start]:
            one, two = stretches[start][0], stretches[place - 1][1]
            where = f"step {one:,}" if one == two else f"steps {one:,} to {two:,}"
            most = max((x for x in worst[start:place] if x is not None and math.isfinite(x)), default=math.nan)
            amount = "differs, by how much is not known" if math.isnan(most) else f"up to {number(most, _DIGITS)}"
            bands.append(Band(x=start, width=place - start, level=levels[start], sentence=f"{where}: {amount}"))
        start = place
    last = points[-1][1] if points else 0.0
    text = "equal again" if last == 0 else "unknown" if math.isnan(last) else number(last, _DIGITS)
    return Strip(tensor=name, first=f"{first:,}" if first is not None else "", last=text, bands=tuple(bands))


def _worst(points: Sequence[tuple[int, float]], stretches: Sequence[tuple[int, int]]) -> list[float | None]:
    """Return the largest distance in each stretch; NaN for an unknown one, None where nothing was traced."""
    found: list[list[float]] = [[] for _ in stretches]
    ends = [last for _, last in stretches]
    for step, value in points:
        found[bisect_left(ends, step)].append(value)
    return [max(values, key=_rank) if values else None for values in found]


def _rank(value: float) -> tuple[bool, bool, float]:
    """Order distances: a known one before an unknown one, that before none."""
    return value > 0, math.isnan(value), 0.0 if math.isnan(value) else value


def _level(value: float | None, low: float, high: float) -> int:
    """Return 0 for equal, else 1 to ``LEVELS`` by the order of magnitude."""
    if value is None or value == 0:
        return 0
    if not math.isfinite(value) or high <= low:
        return LEVELS if value == math.inf or high <= low else 1
    return 1 + min(LEVELS - 1, int(LEVELS * math.log(value / low) / math.log(high / low)))
