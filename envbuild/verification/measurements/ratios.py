"""Numbers made of durations: ``59 %`` next to ``0.037 s``, how many times as fast one of two is, or by how much.

With a fixed clock a ratio of two durations is the same whatever its speed, as a result is. It is a measurement if in
each run it is what one duration is of another one, or of a sum of durations: all of these have to follow the clock, and
with the real clock there have to be so many digits that no unrelated number fits any of them. The same holds for a
ratio less one, and for one less a ratio (``overhead 12.3 %``), which may be negative.

``0.54 min`` has too few digits to show by itself that it is so many ticks of a clock. It is a measurement if it is a
duration that shows it, rounded, in each run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from math import prod

from envbuild.verification.measurements.clockwork import RISK, Number, Span, When, kind_of_numbers
from envbuild.verification.measurements.labels import place_name
from envbuild.verification.measurements.tokens import numbers_in

_Place = tuple[str, "bytes | str"]
_MOST, _PLACES = 120, 5000
"""The most durations of which ratios are looked for, and places in which they are."""
_REAL = 3
"""Runs with the real clock that show a ratio at the least."""
_WHOLE = (1.0, 100.0)
_FORMS = (((0.0, 1.0),), ((-1.0, 1.0), (1.0, -1.0)))
"""What is shown of a ratio, as what is added to it, and its sign: itself, or how much more or less than one it is."""
_EXACT = 1e-12
"""Part of a ratio by which it may be wrong as floating-point numbers are."""
_UNITS = (1.0, 60.0, 3600.0, 1000.0, 1 / 60, 1 / 3600, 1 / 1000)
"""How many of the unit of a duration the same has in another one."""

Values = Sequence[tuple[When, Number]]
_Interval = tuple[float, float]


class Ratios:
    """Which numbers are ratios of durations.

    Args:
        runs: the clock of each run, and what returns all places that it left by source, nothing in them masked: they
            are asked for once, and only if some number may be made of durations.
        may_be: ask what may be a ratio; further runs will show whether it is none by chance.
    """

    def __init__(
        self, runs: Sequence[tuple[When, Callable[[], Mapping[str, Sequence[_Place]]]]], *, may_be: bool = False
    ) -> None:
        self._runs, self._may_be = runs, may_be

    def explain(self, values: Values) -> bool:
        """Whether numbers are a ratio of durations in all runs: of the same two, or of one and the same sum."""
        real = [at for at, (when, _) in enumerate(values) if isinstance(when, Span)]
        if len(real) < _REAL or len(values) != len(self._runs):
            return False
        shown = [_interval(number) for _, number in values]
        found = self._durations
        pairs = 1 if self._may_be else len(found) * len(found) * len(_WHOLE)
        most = 1 if self._may_be else RISK
        return any(
            _chance(shown, one, other, (whole, more * whole, sign), real) * pairs * len(forms) <= most
            for forms in _FORMS
            for one in found
            for other in found
            if one is not other
            for whole in _WHOLE
            for more, sign in forms
        )

    def round(self, values: Values) -> bool:
        """Whether numbers are the same duration in all runs, with fewer digits and perhaps in another unit.

        As few digits as all runs with the real clock show alike may fit another number, which differs in none of them.
        """
        if len(values) != len(self._runs) or len({number.value for _, number in values}) == 1:
            return False
        shown = [_interval(number) for _, number in values]
        real = {number.value for when, number in values if isinstance(when, Span)}
        least = {(high - low) / high for low, high in shown if low > 0}
        trials = len(_UNITS) * len(self._durations)
        if len(real) > 1 and prod(least) * trials > RISK:
            return False
        return any(
            all(
                low <= most * unit and least * unit <= high
                for (low, high), (least, most) in zip(shown, each, strict=True)
            )
            for each in self._durations
            for unit in _UNITS
        )

    @cached_property
    def _durations(self) -> list[list[_Interval]]:
        """Durations, and the sums of those that are under one name, in each run."""
        found: list[list[_Interval]] = []
        columns: dict[tuple[str, str, int], list[list[_Interval]]] = {}
        for source, name, at, values in self._numbers():
            if len(found) >= _MOST:
                break
            if kind_of_numbers(values) == "duration":
                found.append([_interval(number) for _, number in values])
                columns.setdefault((source, place_name(name), at), []).append(found[-1])
        return found + [[_sum(each) for each in zip(*column, strict=True)] for column in columns.values() if column[1:]]

    def _numbers(self) -> Iterator[tuple[str, str, int, Values]]:
        """Yield source and name of a place, which number in it, and what that is in each run."""
        left = _PLACES
        opened = [places() for _, places in self._runs]
        for source, first in opened[0].items():
            tables = [table.get(source, ()) for table in opened]
            names = [name for name, _ in first]
            if any([name for name, _ in table] != names for table in tables):
                continue
            for place, name in enumerate(names):
                texts = [value for table in tables if isinstance(value := table[place][1], str)]
                if len(texts) < len(tables) or len({*texts}) == 1:
                    continue
                left -= 1
                if left < 0:
                    return
                for at, numbers in enumerate(numbers_in(texts)):
                    yield (
                        source,
                        name,
                        at,
                        [(when, number) for (when, _), number in zip(self._runs, numbers, strict=True)],
                    )


def _interval(number: Number) -> _Interval:
    value, off = float(number.value), float(number.off)
    off += abs(value) * _EXACT
    return value - off, value + off


def _sum(parts: Sequence[_Interval]) -> _Interval:
    return sum(low for low, _ in parts), sum(high for _, high in parts)


def _chance(
    shown: Sequence[_Interval],
    one: Sequence[_Interval],
    other: Sequence[_Interval],
    form: tuple[float, float, float],
    real: Sequence[int],
) -> float:
    """Return the chance that unrelated numbers are a ratio in all runs as these are; more than 1 if these are not.

    Args:
        shown: the numbers, in each run.
        one, other: the durations.
        form: what the ratio is multiplied by, what is added to it then, and the sign of the ratio in that sum.
        real: the places of runs with the real clock.
    """
    whole, more, sign = form
    chance = 1.0
    for at, (low, high) in enumerate(shown):
        if one[at][0] < 0 or other[at][0] <= 0:
            return 2.0
        ends = [one[at][0] * whole / other[at][1], one[at][1] * whole / other[at][0]]
        least, most = sorted(more + sign * end for end in ends)
        if more:  # what is left of a difference is as exact as what it is of
            off = whole * _EXACT
            least, most = least - off, most + off
        if least > high or most < low:
            return 2.0
        if at in real:
            chance *= min(1.0, (most - least + high - low) / max(abs(low), abs(high), 1e-300))
    return chance
