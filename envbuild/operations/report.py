"""``report``: runs as one page that a browser shows without a network."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path

from envbuild.core.fs import atomic_write
from envbuild.difference.compare import compare
from envbuild.errors import UsageError
from envbuild.operations.diff import diff, find_side, select_pair
from envbuild.operations.run_context import Side, gather_context, kept_lock
from envbuild.record import history as recorded
from envbuild.record.jobs import merged
from envbuild.reports.page import render
from envbuild.reports.values import Distance, Run
from envbuild.trace.compare import Divergence, Trace, distance_by_step, first_divergence_of_runs, read_run
from envbuild.trace.file import TraceError


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportResult:
    """A page that was written: where, of how many runs, and its size in bytes."""

    path: Path
    runs: int
    size: int


def report(names: Sequence[str], output: Path, project: Path) -> ReportResult:
    """Write a page about runs, each compared with the first.

    Args:
        names: identities or their beginnings, or paths of records; one: alone; none: the two newest.
        output: the page; an earlier one is replaced.
        project: the folder that holds the lock.

    Raises:
        RecordError: a run is not there, or its record is damaged.
        UsageError: a run is named twice, there are too many, or the page cannot be written.
    """
    sides = [find_side(name, project) for name in names] if names else [*select_pair((), project)]
    _refuse_twice(sides)
    page = render([_run(side, sides[0]) for side in sides])
    _write(output, page)
    return ReportResult(path=output, runs=len(sides), size=len(page))


def _refuse_twice(sides: Sequence[Side]) -> None:
    seen = set()
    for side in sides:
        if side.record.id in seen:
            raise UsageError(f"run {side.record.id} is named twice", "list them: envbuild runs")
        seen.add(side.record.id)


def _write(output: Path, page: bytes) -> None:
    if output.is_dir():
        raise UsageError(f"{output} is a folder", f"name a file: envbuild report -o {output / 'report.html'}")
    with suppress(OSError):
        if output.exists() and not os.access(output, os.W_OK):
            raise UsageError(f"{output} may not be written", "choose another file: envbuild report -o FILE")
    atomic_write(output, page)


def _run(side: Side, first: Side) -> Run:
    record, ranks = merged(side.job), side.job.ranks if side.job.start else ()
    if side is first:
        return Run(record=record, lock=kept_lock(side), ranks=ranks)
    if not (first.alone and side.alone):
        found = diff(first, side)
        return Run(
            record=record,
            lock=kept_lock(side),
            difference=found.difference,
            distance=_of_ranks(first, side, found.divergence),
            ranks=ranks,
        )
    known = gather_context(first, side)
    return Run(
        record=record,
        lock=known.lock_b,
        difference=compare(first.record, side.record, known),
        distance=_distance(first, side),
    )


def _of_ranks(first: Side, side: Side, divergence: Divergence | None) -> Distance | None:
    """Return how far the first ranks of two jobs are apart, with the first divergence of all ranks."""
    distance = _distance(first, side)
    if divergence is None:
        return distance
    sentence = f"{divergence.process}: {divergence.sentence}."
    return replace(distance or Distance(), first=divergence.step, sentence=f"First difference: {sentence}")


def _traces(side: Side) -> tuple[Trace, ...]:
    return read_run(recorded.process_folder(side.project, side.record.id))


def _distance(first: Side, side: Side) -> Distance | None:
    """Return how far two runs are apart; None if one of them was not traced."""
    try:
        before, after = _traces(first), _traces(side)
    except TraceError as error:
        return Distance(sentence=f"The traces cannot be compared: {error.message}.")
    return _of_traces(before, after) if before and after else None


def _of_traces(before: Sequence[Trace], after: Sequence[Trace]) -> Distance:
    """Compare traces: the first difference of all processes, the distance of the main ones."""
    first = first_divergence_of_runs(before, after)
    tensors: dict[str, list[tuple[int, float]]] = {}
    found = distance_by_step(before[0], after[0])
    several = len({(each.source, each.label) for each in found}) > 1
    for each in found:
        for name, value in each.tensors.items():
            label = f"{each.label}: {name}" if several else name
            tensors.setdefault(label, []).append((each.step, nan if value is None else value))
    return Distance(
        first=first.step if first else None,
        sentence=_sentence(first) if first else "",
        tensors=tensors,
        unit="of the larger norm",
    )


def _sentence(first: Divergence) -> str:
    if first.kind in ("start", "step"):
        return f"First difference: {first.sentence}."
    return f"{first.sentence[:1].upper()}{first.sentence[1:]}."
