"""``report.chart``: drawings of any values, on any machine the same, without colours and scripts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import inf, nan
from types import SimpleNamespace
from xml.etree.ElementTree import fromstring

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envbuild.reports.chart import Curve, draw, thinned, ticks

ODD = [nan, inf, -inf, 0.0, -0.0, 0.3, 0.30000000000000004, 1e-8, 5e-324, 1e308, -1e308]
POINTS = st.lists(st.tuples(st.integers(-(2**62), 2**62), st.one_of(st.floats(), st.sampled_from(ODD))), max_size=9)


def curve(*values: float, place: int = 0) -> Curve:
    """A curve of values at steps 0, 1, 2 …"""
    return Curve(place=place, letter="AB"[place], points=list(enumerate(values)))


def labels(svg: str, axis: str) -> list[str]:
    """The texts along an axis."""
    found = next(group for group in fromstring(svg).iter("g") if (group.get("class") or "").startswith(f"axis {axis}"))
    return [text.text or "" for text in found.iter("text")]


@settings(max_examples=60, deadline=None)
@given(st.lists(POINTS, min_size=1, max_size=3), st.one_of(st.none(), st.integers(-3, 3)))
def test_any_values_can_be_drawn(series: Sequence[Sequence[tuple[int, float]]], mark: int | None) -> None:
    """Values that are no number, infinite, huge, tiny, equal or alone: the drawing is sound XML of finite numbers."""
    curves = [Curve(place=place, letter="ABC"[place], points=points) for place, points in enumerate(series)]
    svg = draw(curves, "any", mark=mark)
    if svg:
        for element in fromstring(svg).iter():
            assert not re.search(
                r"nan|inf|e[+-]", " ".join(element.get(key, "") for key in ("d", "cx", "cy", "x", "y"))
            )


def test_nothing_to_draw_is_no_drawing() -> None:
    """Without a finite value there is no empty frame."""
    assert draw([curve(), curve(nan, inf, place=1)], "nothing") == ""


def test_a_drawing_has_shapes_classes_and_words_only() -> None:
    """No style, no script, no comment, no identity and no colour; the label and the texts of dots are escaped."""
    svg = draw([curve(1.0, 2.0)], 'a "b" <c>\x1b')
    assert fromstring(svg).attrib == {"viewBox": "0 0 360 220", "role": "img", "aria-label": 'a "b" <c>\\x1b'}
    assert not re.search(r"<(style|script|desc|defs|!--)|\b(id|style|fill|stroke|xmlns)=", svg)
    assert "<circle" in svg
    assert "<title>A, step 1: 2</title></circle>" in svg


def test_gaps_are_left_where_a_value_is_no_number() -> None:
    """A curve is interrupted, not bridged."""
    paths = re.findall(r'<path d="(M[^"]*)" class="line reactive nofill"', draw([curve(1, 2, nan, 3, 4)], "gap"))
    assert len(paths) == 2


def test_values_over_powers_of_ten_are_drawn_logarithmically() -> None:
    """A loss that falls to a thousandth is seen to the end; labels and dots show the values themselves."""
    svg = draw([curve(100.0, 1.0, 0.01)], "falls")
    assert labels(svg, "y") == ["0.01", "0.1", "1", "10", "100"]
    assert "<title>A, step 2: 0.01</title>" in svg
    assert labels(draw([curve(100.0, 1.0, 0.0)], "reaches zero"), "y") == ["0", "20", "40", "60", "80", "100"]


def test_labels_tell_neighbours_apart() -> None:
    """However close values are, no two labels of an axis are the same."""
    for low, high in ((0.3, 0.30001), (1e6, 1e6 + 0.1), (0.3, 0.30000000000000004), (5.0, 5.0)):
        found = labels(draw([curve(low, high)], "close"), "y")
        assert len(set(found)) == len(found) >= 2, found


def test_long_curves_are_drawn_without_dots() -> None:
    """Dots are for curves of few points."""
    assert "<circle" in draw([curve(*range(60))], "short")
    assert "<circle" not in draw([curve(*range(61))], "long")


@pytest.mark.parametrize(
    ("low", "high", "whole", "expected"),
    [
        (0, 1, False, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (0, 3, True, [0, 1, 2, 3]),
        (1, 200, True, [50, 100, 150, 200]),
        (-7, 7, False, [-5, 0, 5]),
        (2, 2, True, [2, 2]),
        (0.11, 0.19, False, [0.12, 0.14, 0.16, 0.18]),
    ],
)
def test_ticks_are_round(low: float, high: float, whole: bool, expected: list[float]) -> None:
    """Axes have about five round numbers within the range; steps are whole."""
    assert ticks(low, high, whole=whole) == expected


def test_thinning_keeps_ends_and_extremes() -> None:
    """A spike of one step stays in a curve of ten thousand, whatever else is left out."""
    points = [(step, 1.0) for step in range(10_000)]
    points[4321], points[5000], points[77] = (4321, 9.0), (5000, -9.0), (77, nan)
    kept = thinned(points)
    assert {points[0], points[4321], points[5000], points[-1]} <= set(kept)
    assert len(kept) <= 242
    assert kept == sorted(kept)
    assert thinned(points[:240]) == points[:240]


def test_lxml_makes_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """pygal would write with lxml where it is installed: it is configured not to."""
    from pygal.etree import etree

    before = draw([curve(1.0, 2.0)], "same")
    monkeypatch.setattr(etree, "_lxml_etree", SimpleNamespace(), raising=False)
    etree.to_lxml()
    assert draw([curve(1.0, 2.0)], "same") == before
