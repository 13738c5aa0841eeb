"""Makers of step traces without a framework: the hook's own writer, fed with small tensors in plain Python."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path
from typing import Any

from envbuild.runtime.hook import trace
from envbuild.runtime.hook.trace_measure import (
    BLOCK,
    MASK,
    SKETCHES,
    Measured,
    block_sign,
    multiplier,
    signs,
    weights,
)  # fmt: skip

Values = Mapping[str, Sequence[float]]
_WEIGHTS = weights()
_SIGNS = [signs(sketch) for sketch in range(SKETCHES)]


@dataclass(frozen=True)
class Tensor:
    """Numbers of one type in one row, as the hook gets them from a framework."""

    numbers: Sequence[float]
    dtype: str = "float32"

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.numbers),)

    def tobytes(self) -> bytes:
        code = {"float32": "f", "float64": "d", "int32": "i"}[self.dtype]
        return struct.pack(f"<{len(self.numbers)}{code}", *self.numbers)


def reference(data: bytes, numbers: Sequence[float]) -> Measured:
    """Return digest and figures by their definition, word by word."""
    words = array("I", data + bytes(-len(data) % 4))
    digest = sum(multiplier(i // BLOCK) * _WEIGHTS[i % BLOCK] * word for i, word in enumerate(words)) & MASK
    sums = [
        sum(block_sign(i // BLOCK, sketch) * _SIGNS[sketch][i % BLOCK] * number for i, number in enumerate(numbers))
        for sketch in range(SKETCHES)
    ]
    norm = sqrt(sum(number * number for number in numbers))
    return digest, (norm, min(numbers, default=0.0), max(numbers, default=0.0), *sums)


@dataclass
class Process:
    """The part of the hook's state that a trace uses."""

    folder: str
    path: str = ""
    warnings: list[str] = field(default_factory=list)
    closing: list[Callable[[], None]] = field(default_factory=list)

    def warn(self, message: str) -> None:
        self.warnings.append(message)

    def guarded(self, what: str, action: Callable[[], None], *, vital: bool = True) -> None:
        try:
            action()
        except Exception as error:
            self.warn(f"{what}: {type(error).__name__}: {error}")


class Tracer(trace.Tracer):
    """The hook's tracer, measuring by definition."""

    process: Any

    def measure(self, values: list[Any], figures: bool = True) -> list[Measured]:
        found = [reference(value.tobytes(), value.numbers) for value in values]
        return found if figures else [(digest, ()) for digest, _ in found]


def make_tracer(folder: Path, process: str = "", *settings: int) -> Tracer:
    """Return a tracer that writes into a folder; settings are interval, budget and first step of values."""
    folder.mkdir(parents=True, exist_ok=True)
    return Tracer(Process(str(folder), process), *settings)  # type: ignore[arg-type]


def make_trace(
    folder: Path,
    steps: Sequence[Values],
    *,
    process: str = "",
    source: str = "keras.fit",
    label: str = "model",
    per_epoch: int = 0,
    losses: Sequence[float] = (),
    batches: Sequence[int] = (),
    interval: int = 1,
    budget: int = 0,
    dtype: str = "float32",
    close: bool = True,
) -> Path:
    """Write a trace and return its path.

    Args:
        steps: tensors by name before the first step and after each.
        per_epoch: steps of an epoch; 0: the epoch is unknown.
        losses, batches: loss and digest of the batch of each step; empty for unknown.
        close: the process ended by itself.
    """
    known = set(folder.iterdir()) if folder.exists() else set()
    tracer = make_tracer(folder, process, interval, budget)
    for number, values in enumerate(steps):
        named = [(name, Tensor(numbers, dtype)) for name, numbers in values.items()]
        if not number:
            tracer.initial(source, label, lambda named=named: named)  # type: ignore[misc]
            continue
        epoch, place = divmod(number - 1, per_epoch) if per_epoch else (0, 0)
        tracer.step(
            source,
            label,
            lambda named=named: named,  # type: ignore[misc]
            epoch=epoch + 1 if per_epoch else None,
            place=place + 1 if per_epoch else 0,
            observe=(lambda number=number: {"loss": losses[number - 1]}) if losses else None,  # type: ignore[misc]
            batch=(lambda number=number: batches[number - 1]) if batches else None,  # type: ignore[misc]
        )
    if close:
        tracer.close()
    assert tracer.process.warnings == []
    (new,) = set(folder.iterdir()) - known
    return new
