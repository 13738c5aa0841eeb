"""What ``envbuild show`` says of a run's parameters and of the files it read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from envbuild.core.text import plain, plural
from envbuild.record.processes import Parameter, ParameterSet, ReadFile, effective

_LINES = 40
_WIDTH = 60
"""Longest value shown; the record has all of it."""


def described(
    sets: Sequence[ParameterSet], configs: Sequence[ReadFile], modules: Sequence[ReadFile], objects: Sequence[ReadFile]
) -> Iterator[tuple[str, ...]]:
    """Yield label and columns of each line: parameters, those that were given first, then files."""
    yield from _parameters(effective(sets))
    yield from _files("config", configs)
    if modules:
        yield "modules", plural(len(modules), "file"), *_some(modules)
    yield from _files("object", objects)


def _parameters(found: dict[str, Parameter]) -> Iterator[tuple[str, ...]]:
    rows = [(plain(name), _value(each), each.source) for name, each in found.items()]
    rows.sort(key=lambda row: row[2] == "default")
    shown = rows[:_LINES]
    widths = [max((len(row[column]) for row in shown), default=0) for column in (0, 1)]
    for name, value, source in shown:
        yield "parameter", f"{name:<{widths[0]}}", f"{value:<{widths[1]}}", source
    if len(rows) > len(shown):
        yield "", f"{len(rows) - len(shown)} more: envbuild show RUN --json"


def _files(label: str, files: Sequence[ReadFile]) -> Iterator[tuple[str, ...]]:
    width = max((len(plain(file.path)) for file in files[:_LINES]), default=0)
    for file in files[:_LINES]:
        yield label, f"{plain(file.path):<{width}}", f"sha256:{file.sha256[:12]}…" if file.sha256 else "no digest"
    if len(files) > _LINES:
        yield "", f"{len(files) - _LINES} more: envbuild show RUN --json"


def _some(files: Sequence[ReadFile]) -> Iterator[str]:
    yield ", ".join(plain(file.path) for file in files[:5]) + (", …" if len(files) > 5 else "")


def _value(parameter: Parameter) -> str:
    value = parameter.value
    text = plain(value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False))
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
