"""The curves of a report: each metric of all runs in one drawing, with the step where they diverge, and as a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from envbuild.core.text import plain
from envbuild.record.model import Record
from envbuild.reports import chart
from envbuild.reports.values import LETTERS, Run
from envbuild.reports.words import letters, number

FIGURES = 24
"""Metrics that are drawn; the names of the others are reported."""
_ROWS = 12
"""Steps in the table of a metric."""
Points = list[tuple[int, float]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One metric.

    Attributes:
        svg: the drawing; empty if there is no finite value.
        divergence: the first step at which a run differs from the first one; None if none does.
        sentence: what the drawing shows.
        last: the last value of each run that has the metric: place, letter and text.
        head, rows: the table: letters; step and values. Long curves are reported by some of their steps.
        whole: the table has all steps.
    """

    name: str
    svg: str
    divergence: int | None
    sentence: str
    last: tuple[tuple[int, str, str], ...]
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    whole: bool

    @property
    def marked(self) -> bool:
        """Whether the drawing shows where runs diverge."""
        return self.divergence is not None and bool(self.svg)


def figures(runs: Sequence[Run]) -> tuple[list[Figure], list[str]]:
    """Return the metrics, those that differ between runs first, and the names of those for which there is no room."""
    names = list(dict.fromkeys(name for run in runs for name in run.record.metrics))
    results = [found for run in runs if run.difference for found in run.difference.results]
    differing = [name for found in results for name in (found.what, found.name)]
    names.sort(key=lambda name: differing.index(plain(name)) if plain(name) in differing else len(differing))
    shown = [_figure(name, runs, judged=plain(name) in differing) for name in names[:FIGURES]]
    return shown, names[FIGURES:]


def _figure(name: str, runs: Sequence[Run], *, judged: bool) -> Figure:
    """Describe a metric. One that measures the clock is not judged: it differs between any two runs."""
    series = {place: _points(run.record, name) for place, run in enumerate(runs) if name in run.record.metrics}
    divergence = _first_divergence(series) if judged else None
    axis = "epoch" if all(_of_epochs(runs[place].record, name) for place in series) else "step"
    curves = [
        chart.Curve(place=place, letter=LETTERS[place], points=chart.thinned(points))
        for place, points in series.items()
    ]
    sentence = _sentence(series, divergence, axis, judged=judged)
    label = f"{name}: {sentence} " + " ".join(
        f"{LETTERS[place]} goes from {number(points[0][1])} to {number(points[-1][1])}."
        for place, points in series.items()
        if points
    )
    rows, whole = _rows(series, divergence)
    return Figure(
        name=name,
        svg=chart.draw(curves, label, axis=axis, mark=divergence),
        divergence=divergence,
        sentence=sentence,
        last=tuple((place, LETTERS[place], number(points[-1][1])) for place, points in series.items() if points),
        head=(axis, *(LETTERS[place] for place in series)),
        rows=tuple(rows),
        whole=whole,
    )


def _points(record: Record, name: str) -> Points:
    """Return a metric by step; Keras counts epochs from 0 in its history and from 1 in all that people see of it."""
    first = int(_of_epochs(record, name))
    return [(step + first, float(value)) for step, value in record.metrics[name]]


def _of_epochs(record: Record, name: str) -> bool:
    return record.metric_sources.get(name) == "keras"


def _first_divergence(series: dict[int, Points]) -> int | None:
    """Return the first step at which a run's value differs from the first run's, bit by bit."""
    places = sorted(series)
    if not places or places[0] != 0:
        return None
    base = series[0]
    found = [_first_difference(base, series[place]) for place in places[1:]]
    return min((step for step in found if step is not None), default=None)


def _first_difference(one: Points, other: Points) -> int | None:
    for mine, theirs in zip(one, other, strict=False):
        if mine[0] != theirs[0]:
            return min(mine[0], theirs[0])
        if mine[1] != theirs[1] and not (math.isnan(mine[1]) and math.isnan(theirs[1])):
            return mine[0]
    return None


def _sentence(series: dict[int, Points], divergence: int | None, axis: str, *, judged: bool) -> str:
    """Describe what a drawing shows."""
    sentence = []
    missing = [LETTERS[place] for place, points in series.items() if not points]
    lengths = {place: points[-1][0] for place, points in series.items() if points}
    if divergence is not None:
        sentence.append(f"Runs differ from {axis} {divergence:,} on.")
    elif judged and len(series) > 1:
        sentence.append("Equal as far as both go.")
    elif len(series) > 1 and len({tuple(map(repr, points)) for points in series.values()}) == 1:
        sentence.append("Equal to the last bit.")
    if len(set(lengths.values())) > 1:
        sentence.append(f"The last {axis} is {_ends(lengths)}.")
    for place, points in series.items():
        odd = next((step for step, value in points if not math.isfinite(value)), None)
        if odd is not None:
            sentence.append(f"{LETTERS[place]} is not finite at {axis} {odd:,}.")
    if missing:
        sentence.append(f"{letters(missing)} measured nothing.")
    return " ".join(sentence)


def _ends(lengths: dict[int, int]) -> str:
    """Describe where runs end: ``3 of A and C, 5 of B``."""
    ends = {last: [LETTERS[place] for place in lengths if lengths[place] == last] for last in sorted(lengths.values())}
    return ", ".join(f"{last:,} of {letters(names)}" for last, names in ends.items())


def _rows(series: dict[int, Points], divergence: int | None) -> tuple[list[tuple[str, ...]], bool]:
    """Return the rows of a table of about a dozen steps, the ends and the place of parting among them."""
    tables = [dict(points) for points in series.values()]
    steps = sorted({step for table in tables for step in table})
    whole = len(steps) <= 2 * _ROWS
    if not whole:
        kept = {steps[round(part * (len(steps) - 1) / (_ROWS - 1))] for part in range(_ROWS)}
        steps = sorted(kept | ({divergence} if divergence is not None else set()))
    return [(f"{step:,}", *(_cell(table, step) for table in tables)) for step in steps], whole


def _cell(table: dict[int, float], step: int) -> str:
    return number(table[step]) if step in table else "–"
