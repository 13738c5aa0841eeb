"""Whether several runs that should be equal are: what was compared, and what came of it. Pure judgement.

A result is a program's exit code, the files it left, the metrics it measured, and the step trace of its parameters.
What a program prints counts only if it left nothing else: progress bars show times. Files of equal content
(``record.Output.content``) are equal, whatever their bytes: Keras writes the time of saving into every model.
TensorBoard's event files hold the time of each value, and their names too: their metrics are compared in their place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any, Literal

import msgspec

from envbuild.core.digest import sha256_json
from envbuild.core.text import plural
from envbuild.record.compare_outputs import different_tensors
from envbuild.record.model import Record, State

Outcome = Literal["identical", "different", "failed", "refused"]

_EVENTS = re.compile(r"events\.out\.tfevents\.\d+\..*")
_WORDS = "time|times|sec|secs|seconds|duration|elapsed|eta|speed|throughput|fps|memory|mem"
_OF_TIME = re.compile(rf"(?i)(?:^|[^a-z])(?:{_WORDS})(?:$|[^a-z])")
"""Metrics that are no results."""
_PER_TIME = re.compile(r"(?i)(?:_|/|per_)(?:s|sec|second)$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """One run of a verification.

    Attributes:
        record: its record.
        printed: SHA-256 of what it wrote to standard output; ``lines`` is how many lines that were.
        trace: digest of its step trace, all processes; empty if it left none.
        steps, tensors: entries of the trace, and the number of parameter tensors in it.
    """

    record: Record
    printed: str = ""
    lines: int = 0
    trace: str = ""
    steps: int = 0
    tensors: int = 0

    @property
    def ended_well(self) -> bool:
        """Whether the program ran and said that all is well."""
        return self.record.state == "finished" and self.record.exit_code == 0


class _Value(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the parts."""


class Verdict(_Value, frozen=True, kw_only=True):
    """What a verification found.

    Attributes:
        outcome: ``failed``: the program ended badly in all runs; ``refused``: the guard did not let it start.
        runs: how many runs were compared; ``asked``: how many there should have been.
        groups: indexes of runs with equal results, in the order in which each result was first seen.
        compared: what was equal in all runs, a phrase each; empty if there was nothing but the exit code.
        volatile: files of equal content in other bytes.
        ignored: files that were not compared, as asked.
        differs: what differs between the first two results, a phrase each.
        differing_files: the files among that.
    """

    outcome: Outcome
    runs: int
    asked: int
    groups: tuple[tuple[int, ...], ...]
    compared: tuple[str, ...] = ()
    volatile: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    differs: tuple[str, ...] = ()
    differing_files: tuple[str, ...] = ()
    exit_codes: tuple[int | None, ...] = ()
    states: tuple[State, ...] = ()

    @property
    def pair(self) -> tuple[int, int]:
        """Indexes of two runs with different results."""
        return self.groups[0][0], self.groups[1][0]


def judge(runs: Sequence[Ran], asked: int, ignore: Sequence[str] = ()) -> Verdict:
    """Compare the results of runs.

    Args:
        runs: in their order; one at least.
        asked: how many there should have been.
        ignore: patterns of files that are not compared, as ``fnmatch`` has them.
    """
    groups: dict[str, list[int]] = {}
    prints = not any(_files(each, ignore) or each.trace or _metrics(each.record) for each in runs)
    for index, each in enumerate(runs):
        groups.setdefault(_key(each, ignore, prints), []).append(index)
    common: dict[str, Any] = {
        "runs": len(runs),
        "asked": asked,
        "groups": tuple(map(tuple, groups.values())),
        "exit_codes": tuple(each.record.exit_code for each in runs),
        "states": tuple(each.record.state for each in runs),
        "ignored": tuple(sorted({path for each in runs for path in _paths(each) if _ignored(path, ignore)})),
    }
    if any(each.record.state == "refused" for each in runs):
        return Verdict(outcome="refused", **common)
    if not any(each.ended_well for each in runs):
        return Verdict(outcome="failed", **common)
    if len(groups) == 1:
        volatile = _volatile(runs)
        return Verdict(outcome="identical", compared=_compared(runs[0], ignore, prints), volatile=volatile, **common)
    first, second, *_ = groups.values()
    one, other = runs[first[0]], runs[second[0]]
    files = _differing_files(one, other, ignore)
    return Verdict(
        outcome="different",
        differs=_differs(one, other, files, prints),
        differing_files=files,
        **common,
    )


def is_event_file(path: str) -> bool:
    """Whether a file is TensorBoard's: its name and its bytes hold the time."""
    return _EVENTS.fullmatch(PurePosixPath(path).name) is not None


def _key(run: Ran, ignore: Sequence[str], prints: bool) -> str:
    """Return the digest of a result."""
    record = run.record
    printed = run.printed if prints else ""
    deleted = [path for path in record.deleted if not _ignored(path, ignore)]
    files = sorted(_files(run, ignore).items())
    return sha256_json([record.state, record.exit_code, files, deleted, run.trace, _metrics(record), printed])


def _files(run: Ran, ignore: Sequence[str]) -> dict[str, str | None]:
    """Return the content of each file that is compared."""
    return {
        output.path: output.content or output.sha256
        for output in run.record.outputs
        if not _ignored(output.path, ignore) and not is_event_file(output.path)
    }


def _metrics(record: Record) -> dict[str, Any]:
    """Return what was measured, but for times."""
    return {
        name: [list(point) for point in points]
        for name, points in record.metrics.items()
        if not _OF_TIME.search(name) and not _PER_TIME.search(name)
    }


def _paths(run: Ran) -> list[str]:
    return [*(output.path for output in run.record.outputs), *run.record.deleted]


def _ignored(path: str, ignore: Sequence[str]) -> bool:
    return any(fnmatchcase(path, pattern) or path.startswith(f"{pattern.rstrip('/')}/") for pattern in ignore)


def _volatile(runs: Sequence[Ran]) -> tuple[str, ...]:
    """Name the files whose bytes differ while what they hold is equal."""
    seen: dict[str, set[str | None]] = {}
    for each in runs:
        for output in each.record.outputs:
            if output.content:
                seen.setdefault(output.path, set()).add(output.sha256)
    return tuple(sorted(path for path, digests in seen.items() if len(digests) > 1))


def _compared(run: Ran, ignore: Sequence[str], prints: bool) -> tuple[str, ...]:
    """Say what was equal."""
    found = []
    if files := _files(run, ignore):
        found.append(plural(len(files), "file"))
    if run.steps:
        found.append(f"{plural(run.steps, 'step')} of {plural(run.tensors, 'tensor')}")
    if metrics := _metrics(run.record):
        found.append(plural(len(metrics), "metric"))
    if prints:
        found += [f"{plural(run.lines, 'line')} of standard output"] if run.lines else []
    return tuple(found)


def _differing_files(one: Ran, other: Ran, ignore: Sequence[str]) -> tuple[str, ...]:
    mine, theirs = _files(one, ignore), _files(other, ignore)
    return tuple(path for path in sorted({*mine, *theirs}) if mine.get(path, "") != theirs.get(path, ""))


def _differs(one: Ran, other: Ran, files: Sequence[str], prints: bool) -> tuple[str, ...]:
    """Say what differs between two runs."""
    found = []
    a, b = one.record, other.record
    if (a.state, a.exit_code) != (b.state, b.exit_code):
        found.append(f"{_ended(a)} in one run, {_ended(b)} in another")
    if files:
        found.append(_some([_with_tensors(path, a, b) for path in files]))
    if a.deleted != b.deleted:
        found.append(f"deleted: {_some(sorted({*a.deleted} ^ {*b.deleted}))}")
    if one.trace != other.trace:
        found.append("the parameters in training")
    mine, theirs = _metrics(a), _metrics(b)
    if metrics := [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]:
        found.append(f"metrics: {_some([_with_values(name, mine, theirs) for name in metrics])}")
    if prints and one.printed != other.printed:
        found.append("standard output")
    return tuple(found)


def _with_tensors(path: str, a: Record, b: Record) -> str:
    """Name a file, and of a saved model the tensors that differ."""
    pair = [output for record in (a, b) for output in record.outputs if output.path == path and output.tensors]
    names = different_tensors(pair[0], pair[1]) if len(pair) == 2 else ()
    if not names:
        return path
    return f"{path} ({len(names):,} of {plural(len(pair[0].tensors), 'tensor')}: {_some(names, 2)})"


def _with_values(name: str, mine: dict[str, Any], theirs: dict[str, Any]) -> str:
    """Name a metric with the last value of both runs, if these differ."""
    last = [table[name][-1][1] if table.get(name) else None for table in (mine, theirs)]
    return f"{name} {last[0]} → {last[1]}" if None not in last and last[0] != last[1] else name


def _ended(record: Record) -> str:
    return f"exit {record.exit_code}" if record.state == "finished" else record.state


def _some(names: Sequence[str], count: int = 3) -> str:
    return ", ".join(names[:count]) + (f" and {len(names) - count} more" if len(names) > count else "")
