"""Metrics in MLflow's store of files: ``RUN/metrics/NAME``, a line for each value with its time and its step.

The name of the metric is that of the file, so that no reader of texts sees it. (mlflow/store/tracking/file_store.py)
"""

from __future__ import annotations

import math
import re
from pathlib import Path

from envbuild.verification.content import values
from envbuild.verification.content.canonical import Canonical, UnreadableError

_PLACE = re.compile(r"/(?:m-)?[0-9a-f]{32}/metrics/(.+)")
_LINE = re.compile(r"(\d{13}) (\S{1,40}) (-?\d{1,18})(?: (.{1,500}))?", re.ASCII)
"""Milliseconds since 1970, the value, the step; for a model also the run and the dataset."""


def metric_of(path: Path) -> str:
    """Return the name of the metric whose values a file has by its place; empty for other files."""
    found = _PLACE.search(path.as_posix())
    return found[1] if found is not None else ""


def read_metric(out: Canonical, name: str, data: bytes) -> None:
    """Read the values of a metric; raises ``UnreadableError`` if the file has anything else in it."""
    try:
        text = data.decode("ascii")
        lines = [_LINE.fullmatch(line) for line in text.removesuffix("\n").split("\n")]
        if not text.endswith("\n") or None in lines:
            raise UnreadableError("no values of a metric")
        for number, line in enumerate(lines, 1):
            if line is not None:
                _value(out, f"line {number}", name, line)
    except ValueError as error:
        raise UnreadableError(f"no values of a metric: {error}") from None


def _value(out: Canonical, path: str, name: str, line: re.Match[str]) -> None:
    seconds, value = int(line[1]) / 1000, float(line[2])
    out.add(path, f"step {line[3]}")
    if out.is_moment(seconds):
        out.leave_out(f"{path}, timestamp", line[1], "time", moment=True, during=out.is_during(seconds))
    else:
        out.add(f"{path}, timestamp", line[1])
    if math.isfinite(value):
        values.number(out, f"{path}, {name}", name, value, line[2])
    else:
        out.add(f"{path}, {name}", line[2])
    if line[4] is not None:
        out.text(f"{path}, of", line[4])
