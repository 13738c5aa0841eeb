"""Metrics while they are collected: values by step under names, within bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator

from envbuild.record.model import Point, Value

NAMES = 100
"""Metrics of one source; further names are left out."""
POINTS = 2000
"""Points of one metric. Where there are more, every second one is dropped, again and again; the last one stays."""
_NAME = 200


class Series:
    """The points of one metric in their order."""

    def __init__(self) -> None:
        self._points: list[Point] = []
        self._last: Point | None = None
        self._every = 1
        self._count = 0

    def add(self, step: int, value: float) -> None:
        """Add a point."""
        point = self._last = (step, exact(value))
        if self._count % self._every == 0:
            self._points.append(point)
            if len(self._points) >= POINTS:
                self._points = self._points[::2]
                self._every *= 2
        self._count += 1

    def __len__(self) -> int:
        """Return how many points there were."""
        return self._count

    def points(self) -> tuple[Point, ...]:
        """Return what is kept: the first of every so many, and the last."""
        kept = tuple(self._points)
        if self._last is None or (self._count - 1) % self._every == 0:
            return kept
        return (*kept, self._last)


class Collected:
    """The metrics of one source by name."""

    def __init__(self) -> None:
        self._series: dict[str, Series] = {}

    def add(self, name: str, step: int | None, value: float) -> None:
        """Add a point; without a step it gets the number of points before it."""
        name = name.encode("utf-8", "backslashreplace").decode()[:_NAME]
        series = self._series.get(name)
        if series is None:
            if len(self._series) >= NAMES:
                return
            series = self._series[name] = Series()
        series.add(len(series) if step is None else step, value)

    def __iter__(self) -> Iterator[tuple[str, tuple[Point, ...]]]:
        """Yield names and points."""
        for name, series in self._series.items():
            yield name, series.points()


def exact(value: float) -> Value:
    """Return a value as a record keeps it: JSON has no number for those that are none."""
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value
