"""Reading a step trace: what the hook wrote of one process, step by step (docs/reference/record.md).

``envbuild/runtime/hook/trace_file.py`` states what the bytes are. A trace is read as far as it is whole: a process that
was killed leaves an incomplete last frame, which is reported and is no error.
"""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO
from zlib import crc32

import msgspec

from envbuild.core.fs import atomic_file, open_regular
from envbuild.errors import UsageError

FORMAT = 1
MAGIC = b"ENVTRC1\n"
FIGURES = 7
_FRAME = struct.Struct("<II")
_STEP = struct.Struct("<IQIiIBBQ")
_VALUES = struct.Struct("<IQI")
_FIGURED, _BATCH = 1, 2
_ENDED = "the process was ended while it wrote"


class TraceError(UsageError):
    """A step trace cannot be read, or is of another format."""


class TensorInfo(msgspec.Struct, frozen=True, array_like=True):
    """A tensor of a group.

    Attributes:
        dtype: as NumPy calls it.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Tensors that were entered together.

    Attributes:
        number: in this trace.
        source: how steps were noticed: ``keras.fit``, ``keras.train_on_batch``, ``keras.optimizer``, ``tf.function``,
            ``torch.optim``, or ``program``: entered by the script itself.
        label: which model or optimiser.
    """

    number: int = msgspec.field(name="group")
    source: str
    label: str
    tensors: tuple[TensorInfo, ...]


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    process: str
    pid: int
    python: str = ""
    interval: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """The size of one tensor in one step, in float64.

    Attributes:
        norm: square root of the sum of squares.
        sketch: four sums of the elements with fixed pseudo-random signs, which give distances (``trace.distance``).
    """

    norm: float
    minimum: float
    maximum: float
    sketch: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One entry.

    Attributes:
        group: the tensors.
        step: optimiser steps made so far by this group; 0: the values before the first.
        covers: steps since the entry before: more than 1 if several were made at once or entries were left out.
        epoch: from 1, None if unknown.
        place: in the epoch, from 1; 0 if unknown.
        observed: other numbers of the step, such as the loss.
        batch: digest of what the step was computed from, None if unknown.
        digests: one for each tensor of the group, in its order.
    """

    group: Group
    step: int
    covers: int
    epoch: int | None
    place: int
    observed: dict[str, float]
    batch: int | None
    digests: array[int]
    _figures: array[float]

    @property
    def tensors(self) -> dict[str, int]:
        """Digest by name."""
        return {tensor.name: digest for tensor, digest in zip(self.group.tensors, self.digests, strict=True)}

    def figures(self, place: int) -> Figures | None:
        """Return the figures of the tensor at a place; None if there are none (docs/reference/trace.md)."""
        if not self._figures:
            return None
        norm, low, high, *sketch = self._figures[place * FIGURES : (place + 1) * FIGURES]
        return Figures(norm=norm, minimum=low, maximum=high, sketch=tuple(sketch))


@dataclass(frozen=True, kw_only=True)
class Trace:
    """The trace of one process.

    Attributes:
        process: its path (docs/reference/guard.md); empty for the main process.
        interval: steps from entry to entry that were asked for.
        steps: in the order in which they were made.
        notes: what was left out, and why.
        ended: whether the process ended by itself.
        damaged: empty, or a sentence: from where on the file could not be read.
    """

    path: Path
    process: str
    pid: int
    interval: int = 1
    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()
    ended: bool = False
    damaged: str = ""
    _values: dict[tuple[int, int], list[tuple[int, int, int]]] = field(default_factory=dict)

    @property
    def has_values(self) -> bool:
        """Whether values of tensors were kept."""
        return bool(self._values)

    def values(self, step: Step, place: int) -> bytes | None:
        """Return a tensor's values as they were at a step; None if they were not kept."""
        found = None
        for number, start, size in self._values.get((step.group.number, place), ()):
            if number <= step.step:
                found = number, start, size
        if found is None or not self._unchanged_since(step, place, found[0]):
            return None
        with open_regular(self.path, follow=False) as stream:
            stream.seek(found[1])
            return stream.read(found[2])

    def _unchanged_since(self, step: Step, place: int, number: int) -> bool:
        """Return whether values that were kept at an earlier step still hold: unchanged tensors are kept once."""
        return number == step.step or any(
            each.step == number and each.group is step.group and each.digests[place] == step.digests[place]
            for each in self.steps
        )


class _DamagedError(Exception):
    """The frames end here; the sentence states why."""


def read(path: Path) -> Trace:
    """Read a trace as far as it is whole.

    Raises:
        TraceError: not a trace, or of a format that this version does not know; it cannot be read.
    """
    try:
        with open_regular(path, follow=False) as stream:
            if stream.read(len(MAGIC)) != MAGIC:
                raise TraceError(f"{path}: not a step trace: expected it to begin with {MAGIC.decode().strip()}")
            return _Reader(path, stream).read()
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror or error}") from None


def drop_values(path: Path) -> None:
    """Write a trace anew without the values in it, if it has some; what is behind a damage is dropped too.

    Raises:
        TraceError: as ``read``.
        OSError: it cannot be written.
    """
    if not read(path).has_values:
        return
    with open_regular(path, follow=False) as stream, atomic_file(path, sync=False) as target:
        target.write(stream.read(len(MAGIC)))
        with suppress(_DamagedError):
            for _, body in _Reader(path, stream).frames():
                if body[:1] != b"V":
                    length = len(body).to_bytes(4, "little")
                    target.write(length + crc32(body, crc32(length)).to_bytes(4, "little") + body)


def drop_values_of(folder: Path) -> None:
    """Drop the values from all traces in the folder of a run, as far as they can be read and written."""
    for path in folder.glob("trace-*.bin"):
        with suppress(OSError, TraceError):
            drop_values(path)


class _Reader:
    def __init__(self, path: Path, stream: BinaryIO) -> None:
        self.path, self.stream = path, stream
        self.size = os.fstat(stream.fileno()).st_size
        self.head = _Head(format=FORMAT, process="", pid=0)
        self.groups: dict[int, Group] = {}
        self.steps: list[Step] = []
        self.notes: list[str] = []
        self.values: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        self.ended = False

    def read(self) -> Trace:
        damaged = ""
        try:
            for start, body in self.frames():
                self._take(start, body)
        except _DamagedError as error:
            damaged = str(error)
        return Trace(
            path=self.path,
            process=self.head.process,
            pid=self.head.pid,
            interval=self.head.interval,
            steps=tuple(self.steps),
            notes=tuple(self.notes),
            ended=self.ended and not damaged,
            damaged=damaged,
            _values=self.values,
        )

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """Yield where each frame's body starts, and the body."""
        while head := self.stream.read(_FRAME.size):
            start = self.stream.tell() - len(head)
            if len(head) < _FRAME.size:
                raise _DamagedError(
                    f"{self.path.name}: the last entry is incomplete: the process was ended while it wrote"
                )
            length, check = _FRAME.unpack(head)
            if start + _FRAME.size + length > self.size:
                raise _DamagedError(
                    f"{self.path.name}: the entry at byte {start} is incomplete: {_ENDED}, or the file was cut"
                )
            body = self.stream.read(length)
            if crc32(body, crc32(head[:4])) != check or not body:
                raise _DamagedError(
                    f"{self.path.name}: the entry at byte {start} is damaged; what follows was not read"
                )
            yield start + _FRAME.size, body

    def _take(self, start: int, body: bytes) -> None:
        kind = body[:1]
        try:
            if kind == b"S":
                self.steps.append(self._step(body))
            elif kind == b"V":
                group, step, place = _VALUES.unpack_from(body, 1)
                before = 1 + _VALUES.size
                self.values.setdefault((group, place), []).append((step, start + before, len(body) - before))
            elif kind == b"G":
                found = msgspec.json.decode(body[1:], type=Group)
                self.groups[found.number] = found
            elif kind == b"N":
                self.notes.append(body[1:].decode("utf-8", "replace"))
            elif kind == b"H":
                self._start(body)
            elif kind == b"E":
                self.ended = True
        except (struct.error, KeyError, ValueError, RecursionError) as error:
            raise _DamagedError(f"{self.path.name}: the entry at byte {start} cannot be understood: {error}") from None

    def _start(self, body: bytes) -> None:
        table: dict[str, Any] = msgspec.json.decode(body[1:])
        if table.get("format") != FORMAT:
            raise TraceError(
                f"{self.path}: expected a trace of format {FORMAT}, found {table.get('format')!r}",
                "read it with the version of envbuild that wrote it",
            )
        self.head = msgspec.convert(table, _Head)

    def _step(self, body: bytes) -> Step:
        number, step, covers, epoch, place, flags, count, batch = _STEP.unpack_from(body, 1)
        position = 1 + _STEP.size
        observed = {}
        for _ in range(count):
            length = body[position]
            name = body[position + 1 : position + 1 + length].decode()
            (observed[name],) = struct.unpack_from("<d", body, position + 1 + length)
            position += 9 + length
        group = self.groups[number]
        end = position + 8 * len(group.tensors)
        figures = body[end:]
        if len(figures) != (8 * FIGURES * len(group.tensors) if flags & _FIGURED else 0):
            raise ValueError(f"expected figures of {len(group.tensors)} tensors, found {len(figures)} bytes")
        return Step(
            group=group,
            step=step,
            covers=covers,
            epoch=None if epoch < 0 else epoch,
            place=place,
            observed=observed,
            batch=batch if flags & _BATCH else None,
            digests=_numbers("Q", body[position:end]),
            _figures=_numbers("d", figures),
        )


def _numbers(kind: str, data: bytes) -> array[Any]:
    """Return little-endian numbers of eight bytes each."""
    import sys

    found: array[Any] = array(kind, data)
    if sys.byteorder == "big":
        found.byteswap()
    return found
