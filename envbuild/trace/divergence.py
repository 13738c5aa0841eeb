"""Where two step traces differ first, and how that is reported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from envbuild.trace.file import Figures
from envbuild.trace.values import ValueDifference

Kind = Literal["start", "step", "tensors", "length", "process"]

ROUNDING_ULPS = 1024
ROUNDING_DISTANCE = 1e-5
"""Up to here values count as equal but for rounding. Single precision has 24 bits, and sums lose some of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Differing:
    """A tensor that differs at a step.

    Attributes:
        size: number of its values.
        before, after: its figures; None if the entry has none (docs/reference/record.md).
        distance: Euclidean distance of the two in relation to the larger norm, estimated from the figures to about a
            third; None if unknown.
        values: what is known from the values themselves; None if they were not kept on both sides.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    size: int
    before: Figures | None
    after: Figures | None
    distance: float | None
    values: ValueDifference | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Divergence:
    """The first place at which two traces differ.

    Attributes:
        kind: ``start``: the values before the first step; ``step``: after a step; ``tensors``: other tensors were
            traced; ``length``: equal as far as both go; ``process``: one run has a process that the other has not.
        process: the process's path (docs/reference/guard.md); empty for the main process.
        source, label: how the step was noticed, and of which model or optimiser (``trace_file.Group``).
        epoch: from 1, None if unknown. ``place`` in the epoch from 1, 0 if unknown.
        step: optimiser steps made.
        covers: steps since the last that was seen equal: more than 1 if the trace is no finer.
        tensors: those that differ, in the model's order; ``of``: how many there are.
        batch: whether the data that went into the step differed; None if the trace does not know.
        observed: other numbers of the step that differ, such as the loss, on both sides.
        sentence: what is the matter, without a full stop.
    """

    kind: Kind
    process: str = ""
    source: str = ""
    label: str = ""
    epoch: int | None = None
    place: int = 0
    step: int = 0
    covers: int = 1
    tensors: tuple[Differing, ...] = ()
    of: int = 0
    batch: bool | None = None
    observed: tuple[tuple[str, float, float], ...] = ()
    sentence: str = ""

    @property
    def leading(self) -> Differing | None:
        """The first tensor that differs, in the model's order; None if none is known."""
        return self.tensors[0] if self.tensors else None

    @property
    def rounding(self) -> bool | None:
        """Whether values differ by rounding alone: sums in another order, not other numbers. None for unknown."""
        if self.leading is None:
            return None
        if self.leading.values is not None and self.leading.values.ulps is not None:
            return self.leading.values.ulps <= ROUNDING_ULPS
        return None if self.leading.distance is None else self.leading.distance <= ROUNDING_DISTANCE


@dataclass(frozen=True, kw_only=True, slots=True)
class Distance:
    """How far apart two runs are after a step.

    Attributes:
        whole: of all tensors together: Euclidean distance in relation to the norm, estimated; 0 for equal.
        tensors: the same for each tensor by name. None for unknown, and where a value is infinite or no number.
    """

    step: int
    epoch: int | None
    place: int
    source: str
    label: str
    whole: float | None
    tensors: dict[str, float | None]


def sentence_of(found: Divergence) -> str:
    """Describe where, which tensor and how far, and what that means."""
    first, more = found.tensors[0], len(found.tensors) - 1
    where = "before the first step" if found.kind == "start" else _where(found)
    parts = [f"{where}, tensor {first.name}"]
    if first.values is not None:
        value = first.values
        ulps = f", {value.ulps:,} ulp at most" if value.ulps is not None else ""
        parts.append(f"({value.count:,} of {value.size:,} values{ulps})")
    elif first.distance:
        parts.append(f"(relative distance about {first.distance:.1g})")
    if more:
        parts.append(f"and {more} more of {found.of} tensors" if more > 1 else "and one more tensor")
    text = " ".join(parts)
    if found.covers > 1:
        others = f"{found.covers - 1} steps before it were" if found.covers > 2 else "step before it was"
        text += f"; the {others} not looked at"
    if found.batch:
        text += "; the data that went into the step differed"
    elif found.batch is False:
        text += "; the data that went into the step was equal"
    return text


def _where(found: Divergence) -> str:
    """Return epoch and step as text; the step in the whole run is reported too where it is another number."""
    step = f"step {found.step:,}"
    if found.epoch is None:
        return step
    if found.place and found.place != found.step:
        return f"epoch {found.epoch}, step {found.place:,} ({found.step:,} in all)"
    return f"epoch {found.epoch}, {step}"
