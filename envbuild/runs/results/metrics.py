"""A run's metrics: what Keras' History, event files of TensorBoard and the program's own lines contain."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from envbuild.core.foreign_json import parse_json
from envbuild.core.fs import read_foreign
from envbuild.record.model import Output, Point
from envbuild.runs.results import events
from envbuild.runs.results.lines import int_of
from envbuild.runs.results.series import Collected

KERAS, STANDARD_OUTPUT = "keras", "standard output"
_FILE = 1 << 26
"""Bytes of what the hook wrote that are read, of one process and of all together four times as many."""
_LINE = 1 << 20
"""Bytes of the longest line that is read; one has the values of an epoch."""

Found = list[tuple[str, str, tuple[Point, ...]]]
"""Name, source, points."""


def collect(folder: Path, project: Path, outputs: Iterable[Output], lines: Collected) -> dict[str, Any]:
    """Return the fields ``metrics`` and ``metric_sources`` of a record.

    A name that an earlier source has taken gets its own source in front: Keras, then event files, then lines.

    Args:
        folder: where the hook wrote.
        project: the folder that outputs are relative to.
        outputs: of the run.
        lines: from standard output.
    """
    metrics: dict[str, tuple[Point, ...]] = {}
    sources: dict[str, str] = {}
    printed = ((name, STANDARD_OUTPUT, points) for name, points in lines)
    for name, source, points in (*of_keras(folder), *of_events(project, outputs), *printed):
        name = f"{source}: {name}" if name in metrics else name
        metrics[name], sources[name] = points, source
    return {"metrics": metrics, "metric_sources": sources}


def of_keras(folder: Path) -> Found:
    """Read what the hook wrote at the end of each epoch; of other processes only what differs from the main one's."""
    found: dict[str, tuple[Point, ...]] = {}
    for process, metrics in sorted(_by_process(folder), key=lambda each: each[0]):
        for name, points in metrics:
            if found.setdefault(name, points) != points:
                found[f"{process}: {name}"] = points
    return [(name, KERAS, points) for name, points in found.items()]


def of_events(project: Path, outputs: Iterable[Output]) -> Found:
    """Read the event files among the outputs; names begin with the folder below the one that holds them all."""
    paths = [output.path for output in outputs if events.is_event_file(output.path) and output.sha256]
    folders = sorted({path.rpartition("/")[0] for path in paths})
    common = os.path.commonpath(folders) if folders and all(folders) else ""
    found: Found = []
    for folder in folders:
        metrics = Collected()
        for path in sorted(path for path in paths if path.rpartition("/")[0] == folder):
            if not (project / path).is_symlink():
                with suppress(OSError):
                    for tag, step, value in events.scalars(project / path):
                        metrics.add(tag, step, value)
        below = folder[len(common) :].strip("/")
        prefix = f"{below}/" if below else ""
        found += [(f"{prefix}{name}", folder or ".", points) for name, points in metrics]
    return found


def _by_process(folder: Path) -> Iterator[tuple[str, Collected]]:
    """Yield the metrics of each process with its path; lines that the program damaged are passed over."""
    left = 4 * _FILE
    names = os.listdir(folder)  # noqa: PTH208 - patterns take 0.5 ms of each run
    for path in sorted(folder / name for name in names if name.startswith("metrics-") and name.endswith(".jsonl")):
        process, metrics = "", Collected()
        data = read_foreign(path, min(_FILE, left), cut=True) or b""
        left -= len(data)
        for line in io.BytesIO(data):  # never all lines at once: a file of line ends has millions
            if not 1 < len(line) <= _LINE:
                continue
            with suppress(ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
                table = parse_json(line)
                process = str(table["process"])
                _add(metrics, int(table["fit"]), table["epoch"], table["values"])
        yield process, metrics


def _add(metrics: Collected, fit: int, epoch: float, values: dict[str, float | str]) -> None:
    """Add the values of one epoch; the second training of a program has its number in the names."""
    for name, value in values.items():
        metrics.add(f"{name} (fit {fit})" if fit > 1 else name, int_of(epoch), float(value))
