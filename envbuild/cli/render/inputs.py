"""Declared input data compared with a lock, as text and as JSON values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec

from envbuild.core.text import human_bytes, plural

if TYPE_CHECKING:
    from envbuild.inputs.compare import Comparison
    from envbuild.lockfile.model import Lock


def locked_inputs_lines(lock: Lock) -> Iterator[str]:
    """Yield a line for each input that is as locked."""
    for entry in lock.inputs:
        yield f"  input    {entry.path}: as locked, {plural(entry.files, 'file')}, {human_bytes(entry.bytes)}"


def comparison_json(found: Comparison) -> list[dict[str, Any]]:
    """Return differences as JSON values."""
    return [
        {
            "path": one.path,
            "message": one.message,
            "locked": msgspec.to_builtins(one.locked),
            "found": msgspec.to_builtins(one.found),
            "changes": asdict(one.tree) if one.tree is not None else None,
        }
        for one in found.differences
    ]
