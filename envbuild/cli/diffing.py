"""``diff``: two runs compared on one screen, and found to be equal (0) or not (16)."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from envbuild.cli.console import Console
from envbuild.core.text import plain, plural, script_in
from envbuild.difference.compare import compare
from envbuild.difference.finding import Difference, Finding
from envbuild.errors import NotReproducibleError, UsageError
from envbuild.lockfile.discovery import STATE_FOLDER, project_of
from envbuild.operations.diff_evidence import Side, evidence
from envbuild.operations.first_difference import first_difference
from envbuild.record import history
from envbuild.record.model import Record, RecordError, loads
from envbuild.record.select_runs import earlier_of, newest_two

if TYPE_CHECKING:
    from envbuild.verification.first import First

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


def diff_runs(
    names: Sequence[str], folder: Path, console: Console, *, bisect: bool = False, offline: bool = False
) -> int:
    """Compare two runs and print what differs.

    Args:
        names: identities or their beginnings, or paths of records; one: compared with the run before it; none: the two
            newest of one program.
        folder: the project.
        console: prints.
        bisect: run A again with one thing at a time as B had it.
        offline: for the builds that this takes.

    Returns:
        0 if the results are equal, else 16.
    """
    a, b = chosen(names, project_of(folder))
    difference = compare(a.record, b.record, evidence(a, b))
    first, _ = first_difference((a.project, a.record), (b.project, b.record), asked=False)
    if not console.as_json:
        for label, *columns in screen(difference, a.record, b.record, first):
            console.line(label, *columns)
    result = as_json(difference) | {"first": msgspec.to_builtins(first)}
    if bisect:
        from envbuild.cli.bisecting import bisect as search

        answer = search(a, b, difference, console, offline=offline)
        console.line("answer", answer.sentence)
        result["bisect"] = msgspec.to_builtins(answer)
    console.result(result)
    return code(difference)


def code(difference: Difference) -> int:
    """Return the exit code of a comparison: only results that are known to be equal are good."""
    return 0 if difference.outcome == "equal" else NotReproducibleError.exit_code


def as_json(difference: Difference) -> dict[str, Any]:
    """Return a comparison as JSON values, each finding with its sentence."""
    table: dict[str, Any] = msgspec.to_builtins(difference)
    for key in ("results", "causes", "others"):
        for entry, finding in zip(table[key], getattr(difference, key), strict=True):
            entry["sentence"] = finding.sentence
    return table


def chosen(names: Sequence[str], project: Path) -> tuple[Side, Side]:
    """Return the runs to compare, the older one of a choice of ours first.

    Raises:
        UsageError: one run compared with itself, or there is nothing to compare with.
    """
    found = [find_side(name, project) for name in names]
    if len(found) == 2:
        if found[0].record.id == found[1].record.id:
            raise UsageError(f"run {found[0].record.id} cannot be compared with itself", "list them: envbuild runs")
        return found[0], found[1]
    if found:
        return _with_earlier(found[0])
    records = history.list_runs(project)
    if len(records) < 2:
        program = shlex.join(records[0].command).removeprefix("python ") if records else script_in(project)
        number = plural(1, "run") if records else "no runs"
        raise UsageError(
            f"nothing to compare: {project} has {number}",
            f"run {'again' if records else 'twice'}: envbuild run {program}",
        )
    older, newer = newest_two(records)
    return Side(record=older, project=project), Side(record=newer, project=project)


def find_side(name: str, project: Path) -> Side:
    """Return a run by the beginning of its identity, or by the path of its record or of its folder.

    Raises:
        RecordError: there is none, there are several, or the record is damaged.
    """
    path = Path(name)
    if "/" not in name and not name.endswith(".json"):
        return Side(record=history.find_run(project, name), project=project)
    file = path / "record.json" if path.is_dir() else path
    try:
        record = loads(file.read_bytes(), str(file))
    except OSError as error:
        raise RecordError(f"cannot read {file}: {error.strerror}", "name a run, or the folder of one") from None
    parents = file.absolute().parents
    own = len(parents) > 3 and parents[2].name == STATE_FOLDER
    return Side(record=record, project=parents[3] if own else parents[0])


def screen(difference: Difference, a: Record, b: Record, first: First | None = None) -> Iterator[tuple[str, ...]]:
    """Yield label and columns of each line for people: results, where training parts, causes, and what is equal."""
    yield "A", a.id[:_SHORT], _started(a), _command(a)
    yield "B", b.id[:_SHORT], _started(b), _command(b)
    yield from _results(difference)
    if first is not None:
        from envbuild.verification.text import numbers

        yield "first", first.sentence if not first.process else f"{first.process}: {first.sentence}"
        if told := numbers(first):
            yield "", told
    label = {"equal": "although", "different": "because", "unknown": "differs"}[difference.outcome]
    if difference.causes:
        yield from _labelled(label, _causes(difference.causes))
    elif difference.outcome == "different":
        yield label, difference.verdict
    elif difference.outcome == "unknown":
        yield label, "nothing that is recorded"
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
    width = min(max((len(finding.what) for finding in findings), default=0), _WIDE)
    for finding in findings:
        yield f"{finding.what:<{width}}", finding.change


def _labelled(label: str, rows: Iterator[tuple[str, ...]] | Sequence[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    for number, row in enumerate(rows):
        yield label if number == 0 else "", *row


def _started(record: Record) -> str:
    """Write when a run started as the caller's clock shows it."""
    return f"{datetime.fromisoformat(record.start.replace('Z', '+00:00')).astimezone():%Y-%m-%d %H:%M:%S}"


def _command(record: Record) -> str:
    text = plain(shlex.join(record.command))
    return text if len(text) <= 80 else f"{text[:79]}…"


def _with_earlier(side: Side) -> tuple[Side, Side]:
    """Pair a run with an earlier one, else with the newest."""
    records = [record for record in history.list_runs(side.project) if record.id != side.record.id]
    if not records:
        raise UsageError(f"nothing to compare run {side.record.id} with in {side.project}", "name another run")
    earlier = earlier_of(side.record, records)
    if earlier is None:
        return side, Side(record=records[0], project=side.project)
    return Side(record=earlier, project=side.project), side
