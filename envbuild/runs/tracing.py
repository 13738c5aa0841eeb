"""How a run is asked for a step trace."""

from __future__ import annotations

TRACE_VALUES = 256 << 20
"""Bytes of parameter values that a trace keeps, so that a difference has numbers."""


def trace_variables(values: int = 0, start: int = 0) -> dict[str, str]:
    """Return the variables that ask for a step trace (docs/reference/trace.md).

    Args:
        values: bytes of parameter values to keep.
        start: the first step of which to keep them.
    """
    kept = f"{values}@{start}" if start else str(values)
    return {"ENVBUILD_TRACE": "1", **({"ENVBUILD_TRACE_VALUES": kept} if values else {})}
