"""Where two runs' training first differs, made up."""

from __future__ import annotations

from typing import Any

from envbuild.trace.divergence import Differing, Divergence
from envbuild.trace.values import ValueDifference


def diverged(
    kind: Any = "step", step: int = 0, *, ulps: int | None = None, distance: float | None = None, sentence: str = ""
) -> Divergence:
    """One tensor of float32 differs by so much; without ``ulps`` its values were not kept."""
    values = ValueDifference(count=4, size=4, index=(0,), before=0.5, after=0.25, ulps=ulps)
    tensor = Differing(
        name="w", dtype="float32", shape=(4,), size=4, before=None, after=None, distance=distance,
        values=None if ulps is None else values,
    )  # fmt: skip
    return Divergence(kind=kind, step=step, tensors=(tensor,), sentence=sentence)
