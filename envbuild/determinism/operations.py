"""Operations that are refused where determinism is asked for, or differ all the same: ``data/nondeterministic.toml``.

The start-up hook names them when a framework raises (``policy_runtime``), and ``envbuild verify`` looks for them when
runs differ.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

import msgspec

from envbuild.core import package_data
from envbuild.core.types import Value, prepare_types


class Operation(Value, frozen=True, kw_only=True, rename=None):
    """One row; the attributes are explained in the data file."""

    name: str
    framework: str
    device: str
    refused: bool
    why: str
    ways: tuple[str, ...]
    source: str
    errors: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    settled: bool = False
    kind: Literal["order", "numbers"] = "order"
    versions: str = ""


class _File(Value, frozen=True, kw_only=True, rename=None):
    operation: tuple[Operation, ...]


@cache
def table() -> tuple[Operation, ...]:
    """Return every row, in the order of the data file."""
    return msgspec.toml.decode(package_data.data("nondeterministic.toml"), type=_File).operation


prepare_types(_File)
