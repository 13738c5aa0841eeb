"""Whether the bits of several runs depend on the CPU that they were computed on. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from envbuild.difference.finding import Finding
from envbuild.verification.nodes import NodeTable, node_table

OWN = "this machine's CPU"
_CERTAIN, _PERHAPS = 97, 60


def cpu_table(groups: Sequence[Sequence[int]], models: Sequence[str], level: str) -> NodeTable:
    """Compare the results of runs by the CPU of each.

    Args:
        groups: indexes of runs with equal results, as a verdict has them.
        models: of the emulated CPU of each run; empty for the machine's own.
        level: of determinism, as locked.
    """
    names = [f"{model} (emulated)" if model else OWN for model in models]
    table = node_table(groups, names, [None] * len(names))
    if table.conclusion not in ("depends", "perhaps"):
        return replace(table, kind="CPU", cause=None)
    result = {index: number for number, group in enumerate(groups) for index in group}
    other = next(name for index, name in enumerate(names) if result[index] != result[0])
    attempt = "determinism: {level: portable} in spec.yaml"
    if level == "portable":
        attempt = "hardware: {cpu: x86-64-v3} in spec.yaml refuses CPUs without AVX2; or one kind of CPU for all runs"
    found = Finding(
        area="host",
        weight=_CERTAIN if table.conclusion == "depends" else _PERHAPS,
        what="the bits depend on the CPU: libraries choose code by its instructions",
        before=names[0],
        after=other,
        change=f"{names[0]} → {other}",
        attempt=attempt,
    )
    return replace(table, kind="CPU", cause=found)
