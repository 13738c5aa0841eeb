"""Shares and ratios of durations, which are the same with a fixed clock whatever its speed."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import pytest

from envbuild.verification.measurements.clockwork import Span, When, settings
from envbuild.verification.measurements.measured import Seen, measured

START = 1_795_247_763
_Places = list[tuple[str, str]]
PARTS = (5, 11, 3)
"""Ticks that the parts of a program take."""


def seen(places: Callable[[list[float]], tuple[_Places, _Places]], real: int = 4) -> list[Seen]:
    """Return runs of a program; ``places`` returns what is compared and all places, by how long its parts took."""
    found = []
    chance = random.Random(7)
    for number in range(real):
        took = [chance.uniform(0.5, 2.0) * ticks / 32 for ticks in PARTS]
        begin = START + 100.0 * number
        found.append(_seen(Span(begin, begin + 9.0, 1e6), places(took)))
    for setting in settings(START + 1000):
        found.append(_seen(setting, places([ticks * setting.tick / 1e9 for ticks in PARTS])))
    return found


def _seen(when: When, places: tuple[_Places, _Places]) -> Seen:
    compared, whole = ({"report.txt": each} for each in places)
    return Seen(when=when, sources=compared, whole=partial(dict, whole))


def shares(took: list[float], show: Callable[[list[float], int], str], digits: int = 4) -> tuple[_Places, _Places]:
    """Return the lines of a table of durations and of what ``show`` has behind each; durations are masked in one."""
    rows = [(f"line {at}", f"part took {each:.{digits}f} s {show(took, at)}") for at, each in enumerate(took)]
    return [(name, f"part took ⟨time⟩ {text.split(' s ', 1)[1]}") for name, text in rows], rows


@pytest.mark.parametrize(
    "show",
    [
        lambda took, at: f"{100 * took[at] / sum(took):.2f} %",
        lambda took, at: f"({took[at] / sum(took):.3%})",
        lambda took, at: f"share {took[at] / sum(took)!r}",
        lambda took, at: f"{max(took) / took[at]:.3f}x",
        lambda took, at: f"speedup: {took[0] / took[at]:.4f}",
        lambda took, at: f"overhead {100 * (took[at] / took[2] - 1):.2f}%",
        lambda took, at: f"change {(took[at] - took[1]) / took[1]:+.3%}",
        lambda took, at: f"saves {100 * (1 - took[at] / took[0]):.3f} % of the time",
        lambda took, at: f"overhead {took[at] / sum(took) - 1!r}",
    ],
)
def test_ratios_of_durations_are_measurements(show: Callable[[list[float], int], str]) -> None:
    """Of a duration and the sum of all, of one and another one; with a unit of ratios or a name."""
    found = measured(seen(partial(shares, show=show)))
    assert found
    assert {each.kind for each in found} == {"ratio"}


@pytest.mark.parametrize(
    "show",
    [
        lambda took, at: f"accuracy {took[at] / sum(took)!r}",
        lambda took, at: f"loss: {100 * took[at] / sum(took):.4f} %",
        lambda took, at: f"w {took[at] / sum(took)!r}",
        lambda took, at: f"[0.25, {took[at] / sum(took)!r}]",
        lambda took, at: f"share {(took[at] / sum(took)) ** 2!r}",
        lambda took, at: f"share {took[at] / (sum(took) + 1)!r}",
        lambda took, at: f"{100 * took[at] / sum(took):.0f} % right {hash(took[at]) % 97} %",
        lambda took, at: f"{50 + 100 * took[at] / sum(took):.4f} %",
        lambda took, at: f"w {took[at] / took[1] - 1!r}",
        lambda took, at: f"loss {100 * (1 - took[at] / took[1]):.4f} %",
        lambda took, at: f"change {took[at] / took[1] - 2!r}",
        lambda took, at: f"change {1 - (took[at] / took[1]) ** 2!r}",
        lambda took, at: f"change {-(took[at] / took[1])!r}",
        lambda took, at: f"change {(took[at] - took[1]) * 3 / took[1]:+.3%}",
    ],
)
def test_other_numbers_that_are_equal_with_a_fixed_clock_are_results(show: Callable[[list[float], int], str]) -> None:
    """Under the name of a result or without any, and what is computed otherwise."""
    assert measured(seen(partial(shares, show=show))) is None


@pytest.mark.parametrize(("head", "known"), [("%", True), ("share", True), ("accuracy", False), ("w", False)])
def test_a_column_of_shares(head: str, known: bool) -> None:
    """It is named by its head, which may be a sign."""

    def table(took: list[float]) -> tuple[_Places, _Places]:
        rows = [f"part{at}  {each:.4f}  {100 * each / sum(took):.2f}" for at, each in enumerate(took)]
        lines = [(f"line {at}", row) for at, row in enumerate([f"stage  seconds  {head}", *rows])]
        return lines, lines

    assert (measured(seen(table)) is not None) == known


def test_a_ratio_of_few_digits_or_runs_shows_nothing() -> None:
    """Any number of one digit is what some durations are of others; of two real runs one may be luck."""

    def rounded(took: list[float], at: int) -> str:
        return f"{took[at] / sum(took):.1f} x"

    def exact(took: list[float], at: int) -> str:
        return f"{100 * took[at] / sum(took):.4f} %"

    assert measured(seen(partial(shares, show=rounded))) is None
    assert measured(seen(partial(shares, show=rounded)), least=2) is not None
    assert measured(seen(partial(shares, show=exact), real=2)) is None
    unknown = [Seen(when=each.when, sources=each.sources) for each in seen(partial(shares, show=exact))]
    assert measured(unknown) is None


@pytest.mark.parametrize(
    ("show", "known"),
    [
        (lambda took: f"fold 0 | auc: 0.91 | {took[0] / 60:.2f} min", True),
        (lambda took: f"in {took[1] / 3600:.2f} hours", True),
        (lambda took: f"time: {took[1]:.0f}", True),
        (lambda took: f"fold 0 | auc: 0.91 | {took[0] / 60:.2f}", False),
        (lambda took: f"loss: {took[0] / 60:.2f}", False),
        (lambda took: f"fold 0 | auc: 0.91 | {took[0] / 47:.2f} min", False),
        (lambda took: f"in {took[1] / 3600 + 0.02:.2f} hours", False),
        (lambda took: f"in {took[0] / 47:.2f} min", False),
    ],
)
def test_a_duration_that_another_place_shows_with_more_digits(show: Callable[[list[float]], str], known: bool) -> None:
    """Its few digits would fit many numbers; under the name of a time it has to be that duration in each run."""

    def places(took: list[float]) -> tuple[_Places, _Places]:
        exact = [(f"folds[{at}].seconds", repr(each)) for at, each in enumerate(took)]
        return [*exact, ("line 1", show(took))], [*exact, ("line 1", show(took))]

    assert (measured(seen(places)) is not None) == known


def test_a_number_of_few_digits_that_differs_with_the_real_clock_may_be_another() -> None:
    """So near to one of several durations many numbers are: this is none, and each time one of them fits."""

    def places(took: list[float]) -> tuple[_Places, _Places]:
        exact = [(f"folds[{at}].seconds", repr(each)) for at, each in enumerate(took)]
        shown = [*exact, ("line 1", f"in {took[0] / 6.1:.2f} min")]
        return shown, [*shown, *[(f"other[{at}].seconds", repr(took[0] * at / 6.1)) for at in (60, 1)]]

    assert measured(seen(places)) is None
