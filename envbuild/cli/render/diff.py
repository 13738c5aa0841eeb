"""Two runs compared, as one screen of aligned lines or as JSON values."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from envbuild.core.text import plain
from envbuild.difference.finding import Difference, Finding
from envbuild.operations.diff import DiffResult
from envbuild.record.model import Record

if TYPE_CHECKING:
    from envbuild.difference.bisect import Answer
    from envbuild.trace.divergence import Divergence

_DIGITS = {"float16": 5, "bfloat16": 4, "float32": 9}
"""Significant digits of floating-point numbers; 17 of those of double precision."""
_SHORT = 10
_ROWS = 14
"""Causes shown; the rest is counted."""
_OF_ONE_AREA = 5
_RESULTS = 6
_DETAILS = 4
_DETAILED = 3
"""How many causes are shown with what goes with them."""
_WIDE = 28
_ALSO = 4


def as_json(result: DiffResult, answer: Answer | None = None) -> dict[str, Any]:
    """Return a comparison as JSON values, each finding with its sentence; with ``answer`` what ``--bisect`` found."""
    difference = result.difference
    table: dict[str, Any] = msgspec.to_builtins(difference)
    for key in ("results", "causes", "others"):
        for entry, finding in zip(table[key], getattr(difference, key), strict=True):
            del entry["where"], entry["attempt"]  # of causes that verify finds
            if not finding.ranks:
                del entry["ranks"]
            entry["sentence"] = finding.sentence
    table["first"] = divergence_json(result.divergence)
    table["renamed"] = dict(result.renamed)
    if answer is not None:
        table["bisect"] = msgspec.to_builtins(answer)
    return table


def lines(result: DiffResult) -> Iterator[tuple[str, ...]]:
    """Yield label and columns of each line: results, where training diverges, causes, and what is equal."""
    difference, first = result.difference, result.divergence
    for letter, side in (("A", result.a), ("B", result.b)):
        job = side.job
        ranks = f"{job.world} ranks" if job.start else ""
        yield letter, job.first.id[:_SHORT], _started(job.first), *([ranks] if ranks else []), _command(job.first)
    yield from _results(difference)
    if first is not None:
        yield "first", divergence_sentence(first)
        if values := divergence_values(first):
            yield "", values
    label = {"equal": "although", "different": "because", "unknown": "differs"}[difference.outcome]
    if difference.outcome == "different" and difference.verdict:  # nothing is reason enough
        yield label, difference.verdict
        yield from _labelled("perhaps", _causes(difference.causes))
    elif difference.causes:
        yield from _labelled(label, _causes(difference.causes))
    elif difference.outcome == "unknown":
        yield label, "nothing that is recorded"
    if result.renamed:
        pairs = [f"{plain(theirs)} as {plain(mine)}" for theirs, mine in sorted(result.renamed.items())]
        yield "compared", "; ".join(pairs[:_ALSO]) + (f"; {len(pairs) - _ALSO} more" if len(pairs) > _ALSO else "")
    if difference.same:
        yield "same", ", ".join(difference.same)
    if others := [finding for finding in difference.others if not finding.follows]:
        words = [finding.sentence for finding in others[:_ALSO]]
        yield "no matter", "; ".join(words) + (f"; {len(others) - _ALSO} more" if len(others) > _ALSO else "")
    if difference.unknown:
        yield "unknown", ", ".join(difference.unknown)


def _results(difference: Difference) -> Iterator[tuple[str, ...]]:
    if difference.outcome != "different":
        yield "results", difference.verdict
        return
    shown = difference.results[:_RESULTS]
    rows = [*_aligned(shown)]
    if len(difference.results) > len(shown):
        rows.append((f"and {len(difference.results) - len(shown):,} more: --json",))
    yield from _labelled("results", rows)


def _causes(causes: Sequence[Finding]) -> Iterator[tuple[str, ...]]:
    """Yield rows, the most likely first; of an area with many differences the first."""
    kept, left = _chosen_rows(causes)
    for number, (finding, row) in enumerate(zip(kept, _aligned(kept), strict=True)):
        yield row
        if number < _DETAILED:
            lines = finding.details[1:] if finding.area == "inputs" else finding.details  # its first is in the sentence
            yield from ((f"  {line}",) for line in lines[:_DETAILS])
            if len(lines) > _DETAILS:
                yield (f"  {lines[-1] if lines[-1].startswith('and ') else '…'}",)
    if left:
        counts = ", ".join(f"{count:,} in {area}" for area, count in left.items())
        yield (f"and {left.total():,} more ({counts}): --json",)


def _chosen_rows(causes: Sequence[Finding]) -> tuple[list[Finding], Counter[str]]:
    """Return the causes to show, and how many others there are by area."""
    seen: Counter[str] = Counter()
    left: Counter[str] = Counter()
    kept: list[Finding] = []
    for finding in causes:
        seen[finding.area] += 1
        if len(kept) < _ROWS and seen[finding.area] <= _OF_ONE_AREA:
            kept.append(finding)
        else:
            left[finding.area] += 1
    return kept, left


def _aligned(findings: Sequence[Finding]) -> Iterator[tuple[str, ...]]:
    width = min(max((len(finding.name) for finding in findings), default=0), _WIDE)
    for finding in findings:
        yield f"{finding.name:<{width}}", finding.change


def _labelled(label: str, rows: Iterator[tuple[str, ...]] | Sequence[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    for number, row in enumerate(rows):
        yield label if number == 0 else "", *row


def _started(record: Record) -> str:
    """Write when a run started as the caller's clock shows it."""
    return f"{datetime.fromisoformat(record.start.replace('Z', '+00:00')).astimezone():%Y-%m-%d %H:%M:%S}"


def _command(record: Record) -> str:
    text = plain(shlex.join(record.command))
    return text if len(text) <= 80 else f"{text[:79]}…"


def divergence_sentence(found: Divergence) -> str:
    """Describe where and how much, with the process if it is not the main one."""
    return f"{found.process}: {found.sentence}" if found.process else found.sentence


def divergence_values(found: Divergence) -> str:
    """Write both values that differ most, with the digits that their type has; empty if they are not known."""
    tensor = found.leading
    if tensor is None or tensor.values is None:
        return ""
    digits = _DIGITS.get(tensor.dtype, 17)
    return f"{tensor.values.before:.{digits}g} → {tensor.values.after:.{digits}g}"


def divergence_json(found: Divergence | None) -> dict[str, Any] | None:
    """Return a divergence as JSON values: its place, and the first tensor that differs."""
    if found is None:
        return None
    tensor = found.leading
    known = tensor.values if tensor is not None else None
    return {
        "kind": found.kind,
        "sentence": found.sentence,
        "process": found.process,
        "epoch": found.epoch,
        "place": found.place,
        "step": found.step,
        "tensor": tensor.name if tensor is not None else "",
        "dtype": tensor.dtype if tensor is not None else "",
        "others": max(len(found.tensors) - 1, 0),
        "count": known.count if known is not None else 0,
        "size": tensor.size if tensor is not None else 0,
        "before": known.before if known is not None else None,
        "after": known.after if known is not None else None,
        "ulps": known.ulps if known is not None else None,
        "distance": tensor.distance if tensor is not None else None,
        "batch": found.batch,
    }
