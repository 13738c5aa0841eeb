"""The files that runs left, side by side, and what differs in them down to the tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from envbuild.core.text import human_bytes
from envbuild.record.compare_outputs import equal_content
from envbuild.record.model import Output, Tensor
from envbuild.reports.facts import ABSENT
from envbuild.reports.values import LETTERS, Run
from envbuild.reports.words import letters, number

ROWS = 200
"""Tensors and files shown of each list, those that differ first."""
State = Literal["same", "content", "differs", "alone"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorRow:
    """One tensor in all runs; ``figures`` describe the first run's."""

    name: str
    kind: str
    figures: str
    digests: tuple[str, ...]
    same: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """One file in all runs.

    Attributes:
        state: equal bytes; other bytes of equal content; other content; only one run's report is about it.
        sentence: the same as text.
        cells: size and beginning of the digest in each run.
        differing: tensors that differ.
        left_out: tensors for which there is no room.
    """

    path: str
    state: State
    sentence: str
    cells: tuple[str, ...]
    unread: str
    tensors: tuple[TensorRow, ...]
    differing: int
    left_out: int


def files(runs: Sequence[Run]) -> tuple[list[File], int]:
    """Return the files, those that differ first, and how many more there are."""
    found = [{output.path: output for output in run.record.outputs} for run in runs]
    paths = sorted({path for each in found for path in each})
    rows = [_file(path, [each.get(path) for each in found]) for path in paths]
    rows.sort(key=lambda row: ("differs", "alone", "content", "same").index(row.state))
    return rows[:ROWS], max(len(rows) - ROWS, 0)


def deleted(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Return files that runs deleted, and which runs did."""
    paths = sorted({path for run in runs for path in run.record.deleted})
    by = {path: [LETTERS[place] for place, run in enumerate(runs) if path in run.record.deleted] for path in paths}
    return [(path, letters(by[path])) for path in paths][:ROWS]


def _file(path: str, outputs: Sequence[Output | None]) -> File:
    there = [output for output in outputs if output]
    tensors = _tensors(outputs)
    state, sentence = _state(outputs)
    return File(
        path=path,
        state=state,
        sentence=sentence,
        cells=tuple(_cell(output) for output in outputs),
        unread="; ".join(dict.fromkeys(output.unread for output in there if output.unread)),
        tensors=tuple(tensors[:ROWS]),
        differing=sum(not tensor.same for tensor in tensors),
        left_out=max(len(tensors) - ROWS, 0),
    )


def _state(outputs: Sequence[Output | None]) -> tuple[State, str]:
    there = [(LETTERS[place], output) for place, output in enumerate(outputs) if output]
    if len(outputs) == 1:
        return "alone", there[0][1].change
    if len(there) < len(outputs):
        return "differs", f"only in {letters([letter for letter, _ in there])}"
    if len({output.sha256 for _, output in there}) == 1 and there[0][1].sha256:
        return "same", "equal bytes"
    first = there[0][1]
    if all((first.sha256 and output.sha256 == first.sha256) or equal_content(first, output) for _, output in there):
        return "content", "equal tensors, other bytes" if first.tensors else "equal content, other bytes"
    return "differs", "differs"


def _cell(output: Output | None) -> str:
    if output is None:
        return ABSENT
    return (
        f"{human_bytes(output.size)} · {output.sha256[:12]}…"
        if output.sha256
        else f"{human_bytes(output.size)} · unreadable"
    )


def _tensors(outputs: Sequence[Output | None]) -> list[TensorRow]:
    """Return the tensors of a file, in its order; if they are too many for the page those that differ first."""
    found = [output.tensors if output else {} for output in outputs]
    names = list(dict.fromkeys(name for each in found for name in each))
    rows = [_tensor(name, [each.get(name) for each in found]) for name in names]
    return sorted(rows, key=lambda row: row.same) if len(rows) > ROWS else rows


def _tensor(name: str, tensors: Sequence[Tensor | None]) -> TensorRow:
    first = next(tensor for tensor in tensors if tensor)
    kinds = dict.fromkeys(_kind(tensor) for tensor in tensors if tensor)
    return TensorRow(
        name=name,
        kind=" → ".join(kinds),
        figures="" if first.norm is None else f"norm {number(first.norm)}",
        digests=tuple(tensor.digest[:12] if tensor else ABSENT for tensor in tensors),
        same=len({(tensor.dtype, tensor.shape, tensor.digest) if tensor else None for tensor in tensors}) == 1,
    )


def _kind(tensor: Tensor) -> str:
    return f"{tensor.dtype} {' × '.join(map(str, tensor.shape)) or 'scalar'}"
