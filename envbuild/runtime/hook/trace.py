"""The step trace: after each step of an optimiser, digests of all parameters, in one file for each process.

Two runs that should be equal are compared by it: the first step, and the tensor, at which they differ is known to the
bit. It is off unless a run asks for it by ``ENVBUILD_TRACE``: the number of steps from one entry to the next, 1 for
each. ``ENVBUILD_TRACE_VALUES`` = ``BYTES`` or ``BYTES@STEP`` keeps the parameters' values too, from that step on, until
so many bytes are written. ``trace_file`` describes the file, ``trace_measure`` the digests.

A trace reads; it draws no random number, adds nothing to a framework's graph and changes no value. Nothing that goes
wrong here reaches the program: it is a warning, once, and the trace goes without. What a signal's handler of the
program raises meanwhile is the program's.
"""

from __future__ import annotations

import os
import sys
from _thread import allocate_lock

from .handlers import is_programs
from .trace_file import FORMAT, VALUED, create, step_body
from .trace_measure import MASK, Meter, splitmix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from .process import Process
    from .trace_file import Writer
    from .trace_measure import Measured

    Named = Iterable[tuple[str, Any]]
    """Tensors by name."""

VARIABLE = "ENVBUILD_TRACE"
VALUES = "ENVBUILD_TRACE_VALUES"
ALL_FIGURED, FIGURED_EVERY = 100, 10
"""Entries of a group that all have figures; of those after them every tenth has."""
FIGURES_UNTIL = 1 << 28
"""Bytes of a file from which on entries have digests without figures."""
SIZE = 1 << 32
"""Bytes of a file at which the trace ends."""
BATCH_SIZE = 1 << 26
"""Bytes of a batch above which it is not digested."""


def wanted(environment: Mapping[str, str]) -> bool:
    """Return whether this run asked for a trace."""
    return environment.get(VARIABLE, "") not in ("", "0", "off")


def read_settings(environment: Mapping[str, str]) -> tuple[int, int, int]:
    """Return steps from entry to entry, bytes of values to keep, and the first step of which to keep them.

    Raises:
        ValueError: a variable has another form; the message names it.
    """
    interval = environment.get(VARIABLE, "")
    if not (interval.isascii() and interval.isdigit() and int(interval)):
        raise ValueError(f"{VARIABLE}: expected a number of steps such as 1, found {interval!r}")
    values = environment.get(VALUES, "")
    budget, at, start = values.partition("@")
    for part in (budget, start if at else "0"):
        if values and not (part.isascii() and part.isdigit()):
            raise ValueError(f"{VALUES}: expected BYTES or BYTES@STEP, found {values!r}")
    return int(interval), int(budget or 0), int(start or 0)


class Group:
    """Tensors that are looked at together: those of a model, of an optimiser, or what the program named.

    Attributes:
        step: steps counted so far.
        entries: how often it was looked at.
    """

    def __init__(self, source: str, label: str) -> None:
        self.source, self.label = source, label
        self.step = self.entries = self.since = 0
        self.number = -1
        self.tensors: list[Any] = []
        self.kept: dict[int, int] = {}


class Tracer:
    """The trace of one process; adapters of frameworks call ``initial`` and ``step``.

    Args:
        process: the hook's state.
        interval: steps from entry to entry.
        budget: bytes of values to keep.
        start: first step of which values are kept.
    """

    def __init__(self, process: Process, interval: int = 1, budget: int = 0, start: int = 0) -> None:
        self.process = process
        self.interval, self.budget, self.start = interval, budget, start
        self.groups: dict[tuple[str, str], Group] = {}
        self.numbers = 0
        self.labels: dict[str, int] = {}
        self.writer: Writer | None = None
        self.over = False
        self.lock = allocate_lock()
        self._meter: Meter | None = None
        os.register_at_fork(after_in_child=self.forked)

    @property
    def meter(self) -> Meter:
        """Measures arrays of NumPy, which the program has loaded by now."""
        if self._meter is None:
            self._meter = Meter(sys.modules["numpy"])
        return self._meter

    def initial(self, source: str, label: str, read: Callable[[], Named]) -> None:
        """Enter tensors as they are before the first step, once for each group."""
        group = self.groups.get((source, label))
        if group is None or not group.entries:
            self._guarded(lambda: self._enter(self._group(source, label), read, epoch=None, place=0))

    def step(
        self,
        source: str,
        label: str,
        read: Callable[[], Named],
        *,
        covers: int = 1,
        at: int | None = None,
        epoch: int | None = None,
        place: int = 0,
        observe: Callable[[], Mapping[str, float]] | None = None,
        batch: Callable[[], int | None] | None = None,
    ) -> None:
        """Count a step, and enter the tensors if it is time to.

        Args:
            source: how the step was noticed, such as ``keras.fit``.
            label: which model or optimiser.
            read: returns the tensors by name; called only for an entry.
            covers: optimiser steps that were made at once.
            at: number of the step, if it is known otherwise than by counting.
            epoch: counted from 1.
            place: in the epoch, counted from 1; 0 if unknown.
            observe: returns other numbers of the step, such as the loss.
            batch: returns the digest of what the step was computed from.
        """

        def enter() -> None:
            group = self._group(source, label)
            steps = covers if at is None else max(at - group.step, 0)
            group.step += steps
            group.since += steps
            if group.since >= self.interval or not group.step:
                observed = dict(observe()) if observe else {}
                self._enter(group, read, epoch, place, observed, batch() if batch else None)

        self._guarded(enter)

    def guarded(self, action: Callable[[], None]) -> None:
        """Run what may call ``step``; what goes wrong is a warning, once."""
        if not self.over:
            self.process.guarded("trace", action, vital=False)

    def measure(self, values: list[Any], figures: bool = True) -> list[Measured]:
        """Return digests, and figures if asked for, of tensors of any framework."""
        if any(hasattr(value, "detach") for value in values):
            from .trace_tensors import measure

            return measure(values, lambda arrays, figures: self.meter.measure(arrays, figures), figures)
        return self.meter.measure(values, figures)

    def digest(self, values: list[Any]) -> int:
        """Return one digest of several tensors, their order included."""
        total = 0
        for place, (digest, _) in enumerate(self.measure(values, figures=False)):
            total += splitmix(digest ^ splitmix(place))
        return total & MASK

    def label(self, name: str) -> str:
        """Return a name, numbered if it was given before: two runs name their models and optimisers alike."""
        number = self.labels[name] = self.labels.get(name, 0) + 1
        return f"{name} {number}" if number > 1 else name

    def note(self, text: str) -> None:
        """Write into the trace that something was left out."""
        if self.writer is not None:
            self.writer.frame(b"N", text.encode("utf-8", "backslashreplace"))

    def forked(self) -> None:
        """In a forked child: a trace of its own."""
        if self.writer is not None:
            self.writer.close()
        self.writer, self.over = None, False
        self.groups, self.numbers, self.labels = {}, 0, {}
        self.lock = allocate_lock()

    def close(self) -> None:
        """Record that the process has ended by itself."""
        if self.writer is not None and not self.over:
            self.process.guarded("trace", lambda: self.writer.frame(b"E"), vital=False)  # type: ignore[union-attr]
            self.over = True

    def _guarded(self, action: Callable[[], None]) -> None:
        """Run one step of the trace; another thread's, or one within a step, is left out."""
        if self.over or not self.lock.acquire(False):
            return
        try:
            action()
        except Exception as error:
            if is_programs(error):
                raise
            if isinstance(error, OSError):
                self.over = True
                self.process.warn(f"trace: {error}: the trace ends here")
            else:
                self.process.warn(f"trace: {type(error).__name__}: {error}")
        finally:
            self.lock.release()

    def _group(self, source: str, label: str) -> Group:
        return self.groups.setdefault((source, label), Group(source, label))

    def _enter(
        self,
        group: Group,
        read: Callable[[], Named],
        epoch: int | None,
        place: int,
        observed: Mapping[str, float] = {},
        batch: int | None = None,
    ) -> None:
        named = list(read())
        writer = self._describe(group, named)
        figured = writer.size < FIGURES_UNTIL and (group.entries < ALL_FIGURED or not group.entries % FIGURED_EVERY)
        measured = self.measure([value for _, value in named], figured)
        if group.step >= self.start:
            self._keep(writer, group, named, [digest for digest, _ in measured])
        body = step_body(
            group=group.number,
            step=group.step,
            covers=group.since,
            epoch=epoch,
            place=place,
            observed=observed,
            batch=batch,
            digests=[digest for digest, _ in measured],
            figures=[number for _, numbers in measured for number in numbers] if figured else None,
        )
        writer.frame(b"S", *body)
        group.entries += 1
        group.since = 0
        if writer.size > SIZE:
            self.note(f"the trace has {SIZE >> 30} GiB and ends here")
            self.over = True

    def _describe(self, group: Group, named: list[tuple[str, Any]]) -> Writer:
        """Open the file at the first entry, and write the group's tensors if they are new or others than before."""
        from ..fastjson import dumps

        if self.writer is None:
            head = {"format": FORMAT, "process": self.process.path, "pid": os.getpid(), "interval": self.interval}
            writer = create(self.process.folder, self.process.path)
            writer.frame(b"H", dumps({**head, "python": sys.version.split()[0]}).encode())
            self.writer = writer
        seen = [(name, value.dtype, value.shape) for name, value in named]
        if group.number < 0 or seen != group.tensors:
            number, self.numbers = self.numbers, self.numbers + 1
            tensors = [
                [name, str(dtype).rpartition(".")[2], [int(size) for size in shape]] for name, dtype, shape in seen
            ]
            what = {"group": number, "source": group.source, "label": group.label, "tensors": tensors}
            self.writer.frame(b"G", dumps(what).encode())
            # last: a signal's handler of the program may end this at any moment
            group.number, group.tensors, group.kept = number, seen, {}
        return self.writer

    def _keep(self, writer: Writer, group: Group, named: list[tuple[str, Any]], digests: list[int]) -> None:
        """Write the values of the tensors that changed, as long as there is room."""
        for place, (_, value) in enumerate(named):
            if group.kept.get(place) == digests[place] or not self.budget:
                continue
            data = self._octets(value)
            if len(data) > self.budget:
                self.budget = 0
                self.note(f"no room for values from step {group.step} on")
                return
            self.budget -= len(data)
            writer.frame(b"V", VALUED.pack(group.number, group.step, place), data)
            group.kept[place] = digests[place]

    def _octets(self, value: Any) -> bytes:
        if hasattr(value, "detach"):
            from .trace_tensors import octets

            return octets(value)
        return bytes(value.tobytes())


_tracers: dict[int, Tracer] = {}


def begin(process: Process) -> bool:
    """Begin the trace of this process if the run asked for one; warns why there is none."""
    if not wanted(os.environ):
        return False
    try:
        settings = read_settings(os.environ)
        if not os.access(process.folder, os.W_OK):
            raise ValueError(f"{process.folder} cannot be written to")
    except ValueError as error:
        process.warn(f"{error}: no trace is kept")
        return False
    tracer = _tracers[id(process)] = Tracer(process, *settings)
    process.closing.append(tracer.close)
    from . import trace_program

    trace_program.listen(tracer)
    return True


def tracer(process: Process) -> Tracer:
    """Return the trace of this process."""
    return _tracers[id(process)]
