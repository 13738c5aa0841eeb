"""Which names in sources measure, and which libraries measure nothing for a program (``data/measuring.toml``)."""

from __future__ import annotations

from functools import cache

import msgspec

from envbuild.core import package_data


class Asks(msgspec.Struct, frozen=True):
    """Names by which something is asked for."""

    modules: frozenset[str]
    names: frozenset[str]
    called: frozenset[str] = frozenset()
    dates: frozenset[str] = frozenset()


class Table(msgspec.Struct, frozen=True):
    """Which names measure, and which libraries do not (``measuring.toml``)."""

    libraries: frozenset[str]
    running: frozenset[str]
    runs: frozenset[str]
    builtins: frozenset[str]
    paths: tuple[str, ...]
    asks: dict[str, Asks]


@cache
def table() -> Table:
    """Return what is known."""
    return msgspec.toml.decode(package_data.data("measuring.toml"), type=Table)
