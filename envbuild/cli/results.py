"""What ``envbuild show`` says of a run's results: files, tensors, metrics, and agreement with earlier runs."""

from __future__ import annotations

from collections.abc import Iterator

from envbuild.core.text import human_bytes, plain, plural
from envbuild.record.model import Output, Record

_METRICS = 40
"""How many metrics are shown; the record has all of them."""


def described(record: Record) -> Iterator[tuple[str, ...]]:
    """Yield label and columns of each line."""
    yield from _metrics(record)
    width = max((len(plain(output.path)) for output in record.outputs), default=0)
    for output in record.outputs:
        digest = f"sha256:{output.sha256[:12]}…" if output.sha256 else "unreadable"
        size = f"{human_bytes(output.size):>7}"
        yield "output", f"{plain(output.path):<{width}}", output.change, size, digest, _tensors(output)
    for path in record.deleted:
        yield "deleted", plain(path)
    if record.same_bits_as:
        yield "bits", f"same as run {record.same_bits_as}"
    if record.same_tensors_in:
        yield "", f"same tensors in other bytes: {plain(', '.join(record.same_tensors_in))}"
    if record.differs_from:
        yield "bits", f"differ from run {record.differs_from} in: {plain(', '.join(record.differs_in))}"


def _tensors(output: Output) -> str:
    """Say how many tensors a saved model has, or why they are not known."""
    if output.unread:
        return f"tensors not read: {plain(output.unread)}"
    return plural(len(output.tensors), "tensor") if output.tensors else ""


def _metrics(record: Record) -> Iterator[tuple[str, ...]]:
    """Yield the last value of each metric."""
    shown = [(plain(name), points) for name, points in record.metrics.items() if points][:_METRICS]
    width = max((len(name) for name, _ in shown), default=0)
    values = [str(points[-1][1]) for _, points in shown]
    wide = max(map(len, values), default=0)
    for (name, points), value in zip(shown, values, strict=True):
        yield "metric", f"{name:<{width}}", f"{value:<{wide}}", f"step {points[-1][0]}", plural(len(points), "value")
    if len(record.metrics) > len(shown):
        yield "", f"{len(record.metrics) - len(shown)} more: envbuild show RUN --json"
