"""The first difference between the step traces of two runs, as it goes into a verdict."""

from __future__ import annotations

import msgspec

from envbuild.trace.compare import Divergence

ROUNDING_ULPS = 1024
ROUNDING_DISTANCE = 1e-5
"""Up to here values count as equal but for rounding. Single precision has 24 bits, and sums lose some of them."""


class First(msgspec.Struct, frozen=True, kw_only=True):
    """Where two runs' parameters first differ.

    Attributes:
        kind: as ``trace_divergence.Divergence`` has it.
        process: the process's path (docs/guard.md); empty for the main one.
        epoch: from 1, None if unknown; ``place`` in it from 1, 0 if unknown; ``step``: optimiser steps made.
        tensor: the first that differs, of its type ``dtype``; ``others`` more differ at the same step.
        count, size: values of the tensor that differ, and all of them; 0 for unknown.
        before, after: the value that differs most, on both sides; None if values were not kept.
        ulps: how far apart these are, in units of the last place; None for unknown.
        distance: Euclidean distance of the tensor in relation to its norm, estimated; None for unknown.
        batch: whether the data that went into the step differed; None for unknown.
        sentence: all of it in words.
    """

    kind: str
    sentence: str
    process: str = ""
    epoch: int | None = None
    place: int = 0
    step: int = 0
    tensor: str = ""
    dtype: str = ""
    others: int = 0
    count: int = 0
    size: int = 0
    before: float | None = None
    after: float | None = None
    ulps: int | None = None
    distance: float | None = None
    batch: bool | None = None

    @property
    def rounding(self) -> bool | None:
        """Whether values differ by rounding alone: sums in another order, not other numbers. None for unknown."""
        if self.ulps is not None:
            return self.ulps <= ROUNDING_ULPS
        return None if self.distance is None else self.distance <= ROUNDING_DISTANCE


def first_of(found: Divergence) -> First:
    """Take from a divergence what a verdict says of it."""
    tensor = found.tensors[0] if found.tensors else None
    values = tensor.values if tensor is not None else None
    return First(
        kind=found.kind,
        sentence=found.sentence,
        process=found.process,
        epoch=found.epoch,
        place=found.place,
        step=found.step,
        tensor=tensor.name if tensor is not None else "",
        dtype=tensor.dtype if tensor is not None else "",
        others=max(len(found.tensors) - 1, 0),
        count=values.count if values is not None else 0,
        size=tensor.size if tensor is not None else 0,
        before=values.before if values is not None else None,
        after=values.after if values is not None else None,
        ulps=values.ulps if values is not None else None,
        distance=tensor.distance if tensor is not None else None,
        batch=found.batch,
    )
