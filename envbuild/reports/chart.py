"""Draws curves as SVG for an HTML page: shapes, classes and text only; the page's style sheet gives the colours.

pygal makes the drawing. Taken out are its style, its scripts, comments (they hold the day) and tooltips that need
scripts; points get ``title`` elements instead. The result is the same bytes on every day, with or without lxml.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import Element, tostring

from envbuild.reports.words import clean, number

if TYPE_CHECKING:
    from pygal import XY

WIDTH, HEIGHT = 360, 220
"""Of the drawing, in its own units; a unit is about a pixel on a phone and on a screen with three columns."""
DOTS = 60
"""Points of a curve up to which each is a dot that states its value."""
_DECADES = 3.0
"""How many powers of ten positive values must span to be drawn on a logarithmic scale."""
_LARGEST, _SMALLEST = 1e250, 1e-250
"""Values beyond are drawn as gaps, and as 0: the arithmetic of axes would overflow."""
_FLAT = 1e-9
"""Spread of values, in relation to their size, below which they are drawn as a level line in the middle."""
_FLOAT = re.compile(r"-?\d+\.\d+")
_KEPT = {"class", "d", "transform", "x", "y", "cx", "cy", "r", "viewBox"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """One line: the place of its run in the report, the run's letter, and points by step; NaN leaves a gap."""

    place: int
    letter: str
    points: Sequence[tuple[int, float]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """What a drawing shows.

    Attributes:
        left, right: first and last step; right is larger.
        low, high: range of values, or of their logarithms to base 10; high is larger.
    """

    left: int
    right: int
    low: float
    high: float
    logarithmic: bool

    def height(self, value: float) -> float | None:
        """Return where a value is drawn; None for a gap."""
        if not _drawable(value):
            return None
        return math.log10(value) if self.logarithmic else _without_dust(value)

    def value(self, height: float) -> float:
        """Return what is drawn at a height."""
        return 10.0**height if self.logarithmic else height


def frame(curves: Sequence[Curve]) -> Frame | None:
    """Return the frame of curves; None if there is no point to draw."""
    points = [(x, _without_dust(y)) for curve in curves for x, y in curve.points if _drawable(y)]
    if not points:
        return None
    left, right = min(x for x, _ in points), max(x for x, _ in points)
    low, high = min(y for _, y in points), max(y for _, y in points)
    logarithmic = low > 0 and math.log10(high) - math.log10(low) >= _DECADES
    if logarithmic:
        low, high = math.log10(low), math.log10(high)
    elif high - low <= _FLAT * max(abs(low), abs(high)):
        middle = low / 2 + high / 2
        low, high = middle - (abs(middle) * 0.05 or 0.5), middle + (abs(middle) * 0.05 or 0.5)
    # Neighbours that are equal in binary floating point would be no range.
    return Frame(
        left=left, right=max(right, left + max(1, abs(left) >> 30)), low=low, high=high, logarithmic=logarithmic
    )


def draw(curves: Sequence[Curve], label: str, *, axis: str = "step", mark: int | None = None) -> str:
    """Draw curves over each other; returns an ``svg`` element, or nothing if there is no finite value.

    Args:
        curves: the first of them is drawn broad, so that others may be drawn on it and both are seen.
        label: text alternative of the drawing.
        axis: what the numbers from left to right are.
        mark: step at which a line is drawn from top to bottom.
    """
    seen = frame(curves)
    if seen is None:
        return ""
    chart = _chart(seen, axis)
    for curve in curves:
        chart.add(
            curve.letter,
            [(x, seen.height(y)) for x, y in curve.points],
            show_dots=len(curve.points) <= DOTS,
            formatter=_formatter(curve.letter, axis, seen),
        )
    classes = [f"run run-{curve.place}" for curve in curves]
    if mark is not None and seen.left <= mark <= seen.right:
        chart.add("", [(mark, seen.low), (mark, seen.high)], show_dots=False)
        classes.append("mark")
    return _markup(chart.render_tree(), classes, label)


def ticks(low: float, high: float, count: int = 5, *, whole: bool = False) -> list[float]:
    """Return round numbers from ``low`` to ``high``, about ``count`` of them; both ends if there is no room for any."""
    rough = (high - low) / count
    if rough < 1e-300:
        return [low, high]
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * part for part in (1, 2, 5, 10) if power * part >= rough * 0.999)
    if whole:
        step = max(1.0, float(round(step)))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    found = [float(f"{place * step:.12g}") for place in range(first, last + 1)]
    return found if len({*found}) > 1 else [low, high]


def thinned(points: Sequence[tuple[int, float]], count: int = 240) -> list[tuple[int, float]]:
    """Keep about ``count`` points of a long curve: the lowest and the highest of each stretch, and both ends."""
    if len(points) <= count:
        return list(points)
    kept = {0, len(points) - 1}
    stretch = len(points) / (count // 2)
    for part in range(count // 2):
        places = range(int(part * stretch), min(int((part + 1) * stretch), len(points)))
        finite = [place for place in places if math.isfinite(points[place][1])] or list(places)
        kept |= {min(finite, key=lambda place: points[place][1]), max(finite, key=lambda place: points[place][1])}
    return [points[place] for place in sorted(kept)]


def _chart(seen: Frame, axis: str) -> XY:
    """Set up an empty drawing with round numbers at both axes."""
    from pygal import XY
    from pygal.etree import etree
    from pygal.style import Style

    etree.to_etree()  # lxml, where it is installed, would write other bytes
    room = (seen.high - seen.low) * 0.04
    marks = ticks(seen.low, seen.high, whole=seen.logarithmic)
    digits = next((n for n in range(3, 17) if len({number(seen.value(y), n) for y in marks}) == len(marks)), 17)
    steps = [int(x) for x in ticks(seen.left, seen.right, whole=True)]
    return XY(
        width=WIDTH, height=HEIGHT, js=(), css=(), no_prefix=True, show_legend=False, allow_interruptions=True,
        dots_size=2.5, truncate_label=-1, margin=8, margin_right=14, spacing=6, x_title=axis,
        style=Style(label_font_size=11, major_label_font_size=11, title_font_size=11, value_font_size=11),
        range=(seen.low - room, seen.high + room), xrange=(seen.left, seen.right),
        x_labels=steps, x_labels_major=steps[:1], y_labels_major=marks[:1],
        y_labels=[{"value": y, "label": number(seen.value(y), digits)} for y in marks],
        x_value_formatter=lambda x: f"{x:,.0f}", value_formatter=number,
    )  # fmt: skip


def _drawable(value: float) -> bool:
    return abs(value) < _LARGEST


def _without_dust(value: float) -> float:
    return value if abs(value) >= _SMALLEST else 0.0


def _formatter(letter: str, axis: str, seen: Frame) -> Any:
    """Return what writes the text of a dot."""

    def label_of(point: tuple[int, float]) -> str:
        return f"{letter}, {axis} {point[0]:,}: {number(seen.value(point[1]))}"

    return label_of


def _markup(root: Element, classes: Sequence[str], label: str) -> str:
    """Keep of a drawing what the page needs, and write it."""
    # Empty groups are overlays for scripts, texts of guides repeat their labels.
    _strip(root)
    for group in root.iter("g"):
        name = group.get("class", "")
        if found := re.match(r"series serie-(\d+)", name):
            group.set("class", classes[int(found[1])])
    root.attrib.clear()
    root.attrib |= {"viewBox": f"0 0 {WIDTH} {HEIGHT}", "role": "img", "aria-label": clean(label)}
    return tostring(root, encoding="unicode")


def _strip(parent: Element) -> None:
    """Remove what is not drawn; a dot's ``desc`` becomes its ``title``. Numbers are written with one decimal."""
    for child in list(parent):
        if not isinstance(child.tag, str) or child.tag in ("defs", "title", "style", "script", "rect"):
            parent.remove(child)
        elif child.tag == "desc":
            if child.get("class") == "value":
                child.tag = "title"
                child.attrib.clear()
                child.text = clean(child.text or "")
            else:
                parent.remove(child)
        else:
            _strip(child)
            child.attrib = {key: _rounded(key, value) for key, value in child.attrib.items() if key in _KEPT and value}
            if child.tag == "g" and not len(child):
                parent.remove(child)
    if parent.tag == "g" and parent.get("class") == "dots" and len(parent) == 2:
        # A title belongs to the element that holds it.
        circle, title = parent
        parent.remove(title)
        circle.append(title)


def _rounded(key: str, value: str) -> str:
    return value if key == "class" else _FLOAT.sub(_short, value)


def _short(found: re.Match[str]) -> str:
    text = f"{float(found[0]):.1f}".removesuffix(".0")
    return "0" if text == "-0" else text
