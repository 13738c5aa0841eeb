"""Dates, moments and spans of time in pickles: those of ``datetime``, and pandas' ``Timestamp``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from envbuild.verification.content.canonical import day
from envbuild.verification.content.nodes import Node, latin

_OF_DAY = 4
"""Bytes of a date, behind which the time of day is in a pickled ``datetime``."""
_NOON = 43200
_TIMESTAMP = "pandas._libs.tslibs.timestamps _unpickle_timestamp"
_DAYS, _OF_A_DAY, _MICROSECONDS = 1_000_000_000, 86400, 1_000_000
"""Of a span of time: days that it has less than, seconds of a day, and what a second has."""
_IN_A_SECOND = {7: 1, 8: 1_000, 9: 1_000_000, 10: 1_000_000_000}
"""Units of a ``Timestamp``, by NumPy's numbers of them (``NPY_DATETIMEUNIT``)."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A date.

    Attributes:
        near: a moment of its day, in seconds since 1970.
        exact: the moment itself, if it has a time of day.
        text: how it is stored.
        rest: all else that its object has: its zone, its unit.
    """

    near: float
    exact: float | None
    text: str
    rest: tuple[Any, ...]


def moment_in(node: Node) -> Moment | None:
    """Return the date that an object is; None for other objects. Without a zone, by UTC."""
    match node:
        case Node(kind="object", parts=[Node(kind="global", parts=[str(name)]), Node(kind="tuple", parts=arguments)]):
            pass
        case _:
            return None
    match name, arguments:
        case "datetime datetime" | "datetime date", [packed, *rest] if len(rest) < 2:
            return _of_bytes(name, latin(packed), rest)
        case str(of), [int(value), None, zone, int(unit)] if of == _TIMESTAMP:
            if unit not in _IN_A_SECOND or isinstance(value, bool):
                return None
            if abs(value) >> 63:  # NumPy's numbers have 64 bits
                return None
            moment = value / _IN_A_SECOND[unit]
            return Moment(moment, moment, str(value), (name, zone, unit))
    return None


def _of_bytes(name: str, packed: Any, rest: list[Any]) -> Moment | None:
    if not isinstance(packed, bytes) or len(packed) not in (_OF_DAY, 10):
        return None
    noon = day(packed[0] << 8 | packed[1], packed[2] & 127, packed[3])
    if noon is None:
        return None
    exact = None
    if len(packed) > _OF_DAY:
        hour, minute, second, *fraction = packed[_OF_DAY:]
        exact = noon + hour * 3600 + minute * 60 + second + int.from_bytes(fraction, "big") / 1e6 - _NOON
    return Moment(noon, exact, repr(packed), (name, *rest))


def span_of(node: Node) -> tuple[float, str] | None:
    """Return how many seconds a ``timedelta`` is, also exactly, as a text; None for other objects."""
    match node:
        case Node(
            kind="object",
            parts=[
                Node(kind="global", parts=["datetime timedelta"]),
                Node(kind="tuple", parts=[int(days), int(seconds), int(fraction)]),
            ],
        ):
            if abs(days) >= _DAYS or abs(seconds) > _OF_A_DAY or abs(fraction) > _MICROSECONDS:
                return None
            total = (days * _OF_A_DAY + seconds) * _MICROSECONDS + fraction
            whole, rest = divmod(abs(total), _MICROSECONDS)
            return total / _MICROSECONDS, f"{'-' if total < 0 else ''}{whole}.{rest:06d}"
    return None
