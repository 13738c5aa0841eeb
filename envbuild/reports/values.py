"""What a report is made from: runs, how each compares with the first, and how far its parameters are from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from envbuild.difference.finding import Difference
from envbuild.lockfile.model import Lock
from envbuild.record.model import Record

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""What the runs of a report are called, in the order in which they were named."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Distance:
    """How far the parameters of a run are from those of the first run, from its step trace.

    Attributes:
        first: the first step at which they differ; None if they never do.
        sentence: that as text, with tensor and values where they are known.
        tensors: by tensor its steps and how far it is from the first run's: 0 for equal bits, NaN for unknown.
        unit: what the numbers are, such as ``relative to the norm``.
    """

    first: int | None = None
    sentence: str = ""
    tensors: Mapping[str, Sequence[tuple[int, float]]] = field(default_factory=dict)
    unit: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One run of a report.

    Attributes:
        record: its record.
        lock: what its lock reported; None if it was not kept.
        difference: how it compares with the first run; None for the first run itself.
        distance: None for the first run, and if one of the two was not traced.
        ranks: of a job of several ranks all their records, of which ``record`` is merged; empty for a run by itself.
    """

    record: Record
    lock: Lock | None = None
    difference: Difference | None = None
    distance: Distance | None = None
    ranks: tuple[Record, ...] = ()
