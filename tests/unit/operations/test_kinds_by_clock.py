"""What a number is that was left out by its name, as three runs with a fixed clock show it."""

from __future__ import annotations

import pytest

from envbuild.operations.verification.doubtful import _FOLLOWS, _kind, _several
from envbuild.verification.measurements.clockwork import Span, settings

_NOW, _LATER, _FASTER, _ = settings(1_790_000_000)
_TICK, _FAST = _NOW.tick / 1e9, _FASTER.tick / 1e9


@pytest.mark.parametrize(
    ("real", "now", "later", "faster", "measured"),
    [
        ("10.257715225219727", repr(7 * _TICK), repr(7 * _TICK), repr(7 * _FAST), True),  # as often each time
        ("10.257715225219727", repr(330 * _TICK), repr(328 * _TICK), repr(341 * _FAST), True),  # a progress bar
        ("10.257715225219727", repr(330.5 * _TICK), repr(328.2 * _TICK), repr(341.7 * _FAST), False),
        ("0.46875", "0.53125", "0.5", "0.4375", False),  # parts of a batch of 32
        ("0.8314159265358979", "0.7171828182845904", "0.4142135623730951", "0.5772156649015329", False),  # drawn
        ("10.26", "10.31", "10.25", "341.41", False),  # shown with so few digits that it fits anyway
    ],
)
def test_whole_ticks_of_each_clock_are_measured(
    real: str, now: str, later: str, faster: str, *, measured: bool
) -> None:
    """What asks the clock as often as something else is fast takes whole ticks, another number of them each time."""
    values = [(Span(1.79e9, 1.79e9 + 20), real), (_NOW, now), (_LATER, later), (_FASTER, faster)]
    assert (_kind(values) in _FOLLOWS) == measured


def test_numbers_of_a_column_are_looked_at_one_by_one() -> None:
    """Those that are the same in all runs are results; a column that is longer in one run is not decided."""
    found = _several(["1 0.25 3.5", "1 0.26 3.7"], ["1 0.25 3", "1 0.25 3"])
    assert found == [("0.25", ("0.25", "0.25")), ("3.5", ("3", "3"))]
    assert _several(["1 0.25", "1 0.25"], ["1 0.5 2", "1 0.5"]) == []
    assert _several(["0.25"], ["0.5"]) == []
    assert _several(["0.25 x"], ["0.5 x"]) == []
