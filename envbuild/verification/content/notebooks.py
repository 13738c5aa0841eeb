"""What programs that execute notebooks note of it: when a kernel took and answered what a cell asked."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from envbuild.verification.content.canonical import Canonical

_TIMES = (
    "iopub.execute_input", "iopub.status.busy", "iopub.status.idle",
    "shell.execute_reply", "shell.execute_reply.started",
)  # fmt: skip
"""``metadata.execution`` of a cell, by nbclient (``record_timing``) and JupyterLab."""


def without_times_of_cells(out: Canonical, notebook: dict[str, Any]) -> None:
    """Take the times of a notebook's cells out of it, as far as they are moments of the run."""
    for cell in notebook["cells"]:
        metadata = cell.get("metadata") if isinstance(cell, dict) else None
        times = metadata.get("execution") if isinstance(metadata, dict) else None
        if not isinstance(times, dict):
            continue
        for key in _TIMES:
            if key in times and _is_during(out, times[key]):
                out.leave_out("times of cells", times.pop(key), "time", during=True)


def _is_during(out: Canonical, value: object) -> bool:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return False
    return moment is not None and moment.tzinfo is not None and out.is_during(moment.timestamp())
