"""Values as people read them, two at a time: what differs stays visible however long they are."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from envbuild.core.text import plain
from envbuild.difference.finding import NOWHERE

_WIDTH = 60
_LEAD = 12
"""Characters shown before the first difference of two long texts."""


def shown(before: Any, after: Any) -> tuple[str, str]:
    """Write two different values so that they look different."""
    one, other = value(before), value(after)
    if max(len(one), len(other)) <= _WIDTH:
        return one, other
    same = next((i for i, (x, y) in enumerate(zip(one, other, strict=False)) if x != y), min(len(one), len(other)))
    start = max(0, same - _LEAD) if same >= _WIDTH // 2 else 0
    return _cut(one, start), _cut(other, start)


def value(found: Any) -> str:
    """Write a value: a text as it is, anything else as JSON, nothing as ``(not there)``."""
    if found is None:
        return NOWHERE
    if isinstance(found, str):
        return plain(found) or '""'
    return plain(json.dumps(found, ensure_ascii=False, default=str))


def numbers(before: float, after: float) -> tuple[str, str]:
    """Write two numbers with as many digits as it takes to distinguish them, four at least."""
    for digits in range(4, 18):
        one, other = f"{before:.{digits}g}", f"{after:.{digits}g}"
        if one != other:
            return one, other
    return repr(before), repr(after)


def digest(sha256: str | None) -> str:
    """Write the beginning of a digest."""
    return f"{sha256[:12]}…" if sha256 else "(no digest)"


def some(names: list[str] | tuple[str, ...], count: int = 3) -> str:
    """Name the first of several."""
    return ", ".join(plain(name) for name in names[:count]) + (" …" if len(names) > count else "")


def flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the leaves of nested tables by dotted name; a list is a leaf."""
    for key, part in table.items():
        if isinstance(part, Mapping):
            yield from flat(part, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", part


def pairs(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield name and both values of what differs between two tables, in their order; None for what one lacks."""
    for name in {**before, **after}:
        one, other = before.get(name), after.get(name)
        if one != other or type(one) is not type(other):
            yield name, one, other


def _cut(text: str, start: int) -> str:
    part = text[start : start + _WIDTH]
    return f"{'…' if start else ''}{part}{'…' if start + _WIDTH < len(text) else ''}"
