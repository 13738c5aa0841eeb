"""What programs that execute notebooks note of it: when a kernel took and answered what a cell asked."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from envbuild.verification.content.canonical import Canonical
from envbuild.verification.content.json_texts import Number

_TIMES = (
    "iopub.execute_input", "iopub.status.busy", "iopub.status.idle",
    "shell.execute_reply", "shell.execute_reply.started",
)  # fmt: skip
"""``metadata.execution`` of a cell, by nbclient (``record_timing``) and JupyterLab."""
_OF_PAPERMILL, _ROUNDED = ("start_time", "end_time", "duration"), 2e-6
"""What papermill notes of each cell and of all (papermill/engines.py); the duration is of the other two, in seconds."""


def without_times_of_cells(out: Canonical, notebook: dict[str, Any]) -> None:
    """Take the times of a notebook's cells out of it, as far as they are moments of the run."""
    for owner in (notebook, *notebook["cells"]):
        _leave_out_papermills(out, owner)
    for cell in notebook["cells"]:
        metadata = cell.get("metadata") if isinstance(cell, dict) else None
        times = metadata.get("execution") if isinstance(metadata, dict) else None
        if not isinstance(times, dict):
            continue
        for key in _TIMES:
            if key in times and _is_during(out, times[key]):
                out.leave_out("time of cells", times.pop(key), "time", during=True)


def _leave_out_papermills(out: Canonical, owner: object) -> None:
    """Take out when papermill began and ended, and how long that was: exactly what is between the two."""
    metadata = owner.get("metadata") if isinstance(owner, dict) else None
    times = metadata.get("papermill") if isinstance(metadata, dict) else None
    if not isinstance(times, dict):
        return
    start, end, took = (times.get(key) for key in _OF_PAPERMILL)
    if not (_is_during(out, start) and _is_during(out, end) and isinstance(took, Number)):
        return
    between = datetime.fromisoformat(str(end)) - datetime.fromisoformat(str(start))
    if abs(between.total_seconds() - took) < _ROUNDED:
        for key in _OF_PAPERMILL:
            value = times.pop(key)
            out.leave_out("time of cells", value.text if isinstance(value, Number) else value, "time", during=True)


def _is_during(out: Canonical, value: object) -> bool:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return False
    if moment is None or moment.tzinfo is None:
        return False
    seconds = moment.timestamp()
    # With a fixed clock they are as that has them, which begins when the experiments do: others are results there too.
    return out.is_moment(seconds) if out.masks.has_fixed_clock else out.is_during(seconds)
