"""What one more run shows that was made to diagnose: memory that nothing wrote is filled, draws of entropy are watched.

Of all draws only those are told that happened first in the very step in which the runs part, or in a package that is no
framework before the first step: frameworks draw names and keys that no result depends on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isnan
from typing import Any

from envbuild.record.model import Record
from envbuild.trace.file import Trace
from envbuild.verification.causes import Cause, Clues, places
from envbuild.verification.first import First

SURE = 75
"""Causes from this weight on need no further run."""
_UNWRITTEN = "a tensor that nothing was written to"
"""The operation's name in ``data/nondeterministic.toml``."""
_FRAMEWORKS = frozenset(
    ["tensorflow", "keras", "tf_keras", "torch", "jax", "jaxlib", "numpy", "scipy", "absl", "google", "h5py", "optree"]
)


def worthwhile(clues: Clues, causes: Sequence[Cause]) -> bool:
    """Tell whether a diagnosing run may say more than what was found already."""
    likely = causes[0].weight if causes else 0
    return likely < SURE or bool(_unwritten(clues) and _torch(clues))


def diagnosed(
    clues: Clues, record: Record, traces: Sequence[Trace] = (), plain: Sequence[Trace] = ()
) -> tuple[Cause, ...]:
    """Return what a diagnosing run adds to the causes.

    Args:
        clues: what is known of the runs that differ.
        record: of the diagnosing run.
        traces: of its processes; ``plain``: those of a run that differs.
    """
    return (*_of_memory(clues, record, traces, plain), *_of_draws(clues, record))


def _of_memory(clues: Clues, record: Record, traces: Sequence[Trace], plain: Sequence[Trace]) -> Iterator[Cause]:
    """Yield that values come from memory that nothing wrote, if filling it with NaN brings NaN where there was none."""
    if _nan_in_traces(plain) or not _torch(clues):
        return
    shown = _nan_in_traces(traces)
    if not shown and _nan_in_metrics(record) and not _nan_in_metrics(clues.a):
        shown = "what it measured"
    if shown:
        yield Cause(
            weight=94,
            what=f"memory that nothing wrote is read: filled with NaN, it shows in {shown}",
            where=_unwritten(clues),
            attempt="torch.zeros in place of torch.empty, or write all of it before it is read",
        )


def _nan_in_traces(traces: Sequence[Trace]) -> str:
    """Name the first tensor that is no number, and its step; empty if all are."""
    for trace in traces:
        for step in trace.steps:
            for place, tensor in enumerate(step.group.tensors):
                figures = step.figures(place)
                if figures is not None and isnan(figures.norm):
                    return f"{tensor.name} after step {step.step:,}" if step.step else f"{tensor.name} from the start"
    return ""


def _nan_in_metrics(record: Record) -> bool:
    return any(isinstance(v, float) and isnan(v) for points in record.metrics.values() for _, v in points)


def _of_draws(clues: Clues, record: Record) -> Iterator[Cause]:
    for process in record.processes:
        for draw in process.get("entropy") or ():
            weight = _weight(draw, clues.first)
            name = str(draw.get("module") or "").partition(".")[0]
            if not weight or name == "__main__" or _of_project(str(draw.get("file") or "")):
                continue
            call = f"{draw.get('call')}(){' without a seed' if draw.get('call') == 'random.seed' else ''}"
            when = "before the first step" if not _steps(clues.first) else f"at step {_steps(clues.first):,}"
            yield Cause(
                weight=weight,
                what=f"{call} is reached by no seed, and the package {name} draws from it {when}",
                where=f"{_inside(str(draw.get('file')))}:{draw.get('line')}",
                attempt=f"look for a seed among the options of {name}, or report it there",
            )


def _weight(draw: Mapping[str, Any], first: First | None) -> int:
    """Judge a draw by when its line drew first; 0 for one that is not told."""
    step, name = draw.get("step"), str(draw.get("module") or "").partition(".")[0]
    if first is None or first.kind not in ("step", "start"):
        return 45 if name not in _FRAMEWORKS else 0
    if first.kind == "step" and first.step > 1:
        return 82 if step == first.step - 1 else 0
    return 55 if not step and name not in _FRAMEWORKS else 0


def _steps(first: First | None) -> int:
    return first.step if first is not None and first.kind == "step" and first.step > 1 else 0


def _of_project(file: str) -> bool:
    """Whether the line stands in the project, whose sources are looked at anyway."""
    return file.startswith("/workspace/")


def _inside(file: str) -> str:
    """Return a path from the folder of packages on."""
    for mark in ("/site-packages/", "/dist-packages/"):
        if mark in file:
            return file.rpartition(mark)[2]
    return file


def _torch(clues: Clues) -> bool:
    return any("torch" in (process.get("frameworks") or ()) for process in clues.a.processes)


def _unwritten(clues: Clues) -> str:
    """Name the lines that make tensors of memory that nothing wrote."""
    calls = [call for row in clues.operations if row.name == _UNWRITTEN for call in row.calls]
    return places(calls, clues.sources or {})
