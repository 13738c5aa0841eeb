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
            whole, rest = divmod((days * 86400 + seconds) * 1_000_000 + fraction, 1_000_000)
            return whole + rest / 1e6, f"{whole}.{rest:06d}"
    return None
