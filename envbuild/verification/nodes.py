"""Whether the bits of several runs depend on the machine that they ran on. Pure.

Runs are spread over nodes, and each has a result. If every node always gives the same result and nodes differ, either
the node decides or chance has dealt the results so; how likely the latter is can be counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import factorial, prod
from typing import Literal

from envbuild.difference.finding import Area, Finding
from envbuild.host.facts import HostFacts, HostGpu

Conclusion = Literal["one node", "equal", "depends", "perhaps", "within", "unknown"]
"""All runs were on one node; equal on all nodes; the node decides; it may, but chance explains it too; one node gave
different results by itself; no two runs agree and none shared a node, so that nothing is known."""
_CHANCE = Fraction(1, 20)
"""Probability above which a pattern is no evidence."""
_COUNTED = 8
"""Nodes up to which the ways to deal results are counted; of more a bound is enough."""
_CERTAIN, _PERHAPS, _UNEXPLAINED = 97, 39, 90
_DRIVER = "hardware: {gpu: {driver: exact}} in spec.yaml refuses other drivers"
_PORTABLE = "determinism: {level: portable} in spec.yaml, or nodes that are alike (--constraint)"
_ALIKE = "run on nodes that are alike: --constraint"
_NAMES: dict[str, tuple[Area, str, str]] = {
    "gpu.driver": ("gpu", "the GPU driver", _DRIVER),
    "gpu.model": ("gpu", "the GPU model", _ALIKE),
    "gpu.sms": ("gpu", "the number of SMs", _ALIKE),
    "machine": ("host", "the architecture", _ALIKE),
    "cpu": ("host", "the CPU level", _PORTABLE),
    "cpu.flags": ("host", "the CPU's instructions", _PORTABLE),
    "cpu.model": ("host", "the CPU model", _PORTABLE),
    "kernel": ("host", "the kernel", _ALIKE),
}
"""What may explain a difference between nodes, the most telling first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeRow:
    """What the runs on one node gave.

    Attributes:
        node: its name; of runs of several ranks the names of all their nodes.
        runs: indexes of the runs.
        results: number of each run's result, from 0 in the order in which results were first seen.
    """

    node: str
    runs: tuple[int, ...]
    results: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeTable:
    """Results by node.

    Attributes:
        kind: of place: nodes of a cluster, or CPUs of one machine.
        chance: probability that so many results dealt at random give each node one result; 1 where that is not so.
        cause: what goes with the results, if they depend on the node; None else.
    """

    rows: tuple[NodeRow, ...]
    conclusion: Conclusion
    kind: Literal["node", "CPU"] = "node"
    chance: Fraction = Fraction(1)
    cause: Finding | None = None


def node_table(groups: Sequence[Sequence[int]], nodes: Sequence[str], hosts: Sequence[HostFacts | None]) -> NodeTable:
    """Compare the results of runs by the node of each.

    Args:
        groups: indexes of runs with equal results, as a verdict has them.
        nodes: the node of each run; of runs of several ranks the names of all their nodes.
        hosts: facts of each run's node; None where they are not known.
    """
    result = {index: number for number, group in enumerate(groups) for index in group}
    places: dict[str, list[int]] = {}
    for index, node in enumerate(nodes):
        places.setdefault(node, []).append(index)
    rows = tuple(
        NodeRow(node=node, runs=tuple(runs), results=tuple(result[index] for index in runs))
        for node, runs in places.items()
    )
    conclusion, chance = _conclude(rows, [len(group) for group in groups])
    cause = _cause(groups, nodes, hosts, conclusion) if conclusion in ("depends", "perhaps") else None
    return NodeTable(rows=rows, conclusion=conclusion, chance=chance, cause=cause)


def _conclude(rows: Sequence[NodeRow], sizes: Sequence[int]) -> tuple[Conclusion, Fraction]:
    if len(rows) == 1:
        return "one node", Fraction(1)
    if len(sizes) == 1:
        return "equal", Fraction(1)
    if any(len(set(row.results)) > 1 for row in rows):
        return "within", Fraction(1)
    chance = chance_of([len(row.runs) for row in rows], sizes)
    if chance == 1:
        return "unknown", chance
    return ("depends" if chance <= _CHANCE else "perhaps"), chance


def chance_of(runs: Sequence[int], results: Sequence[int]) -> Fraction:
    """Return the probability that results dealt to runs at random give each node one result only.

    Args:
        runs: number of runs on each node.
        results: number of runs with each result; as many runs in all.
    """
    ways = prod(map(factorial, results))
    if len(runs) > _COUNTED:
        return min(Fraction(1), Fraction(len(results) ** len(runs) * ways, factorial(sum(runs))))

    @cache
    def maps(at: int, left: tuple[int, ...]) -> int:
        if at == len(runs):
            return 1
        return sum(
            maps(at + 1, (*left[:group], room - runs[at], *left[group + 1 :]))
            for group, room in enumerate(left)
            if room >= runs[at]
        )

    return Fraction(maps(0, tuple(results)) * ways, factorial(sum(runs)))


def _cause(
    groups: Sequence[Sequence[int]], nodes: Sequence[str], hosts: Sequence[HostFacts | None], conclusion: Conclusion
) -> Finding:
    """Name the first fact of the machines by which results part exactly as they are."""
    known = [None if host is None else _facts(host) for host in hosts]
    first, second = groups[0][0], groups[1][0]
    for name, (area, what, attempt) in _NAMES.items():
        values = [None if facts is None else facts[name] for facts in known]
        if _explains(values, groups):
            before, after = _short(name, values[first] or "none", values[second] or "none")
            return Finding(
                area=area,
                weight=_CERTAIN if conclusion == "depends" else _PERHAPS,
                what=f"the bits depend on {what}",
                before=before,
                after=after,
                change=f"{before} ({nodes[first]}) → {after} ({nodes[second]})",
                attempt=attempt,
            )
    return Finding(
        area="host",
        weight=_UNEXPLAINED if conclusion == "depends" else _PERHAPS,
        what="the bits depend on the node, and no recorded fact of the machines goes with the results",
        attempt=f"compare the nodes: envbuild probe on {nodes[first]} and on {nodes[second]}",
    )


def _explains(values: Sequence[str | None], groups: Sequence[Sequence[int]]) -> bool:
    """Whether each result has one value, and no two results have the same."""
    found = [{values[index] for index in group} for group in groups]
    return all(len(each) == 1 and None not in each for each in found) and len(set.union(*found)) == len(found)


def _facts(host: HostFacts) -> Mapping[str, str]:
    devices = host.gpu.devices
    return {
        "gpu.driver": host.gpu.driver,
        "gpu.model": _kinds([device.name for device in devices]),
        "gpu.sms": _kinds([_sms(device) for device in devices]),
        "machine": host.machine,
        "cpu": host.cpu.level,
        "cpu.flags": " ".join(host.cpu.flags),
        "cpu.model": host.cpu.model,
        "kernel": host.kernel,
    }


def _kinds(values: Sequence[str]) -> str:
    return ", ".join(sorted(set(values)))


def _sms(device: HostGpu) -> str:
    return str(device.sms or "")


def _short(name: str, before: str, after: str) -> tuple[str, str]:
    """Leave out of two lists of flags what both have."""
    if name != "cpu.flags":
        return before, after
    one, other = before.split(), after.split()
    kept = [[flag for flag in mine if flag not in theirs] for mine, theirs in ((one, other), (other, one))]
    return (" ".join(kept[0][:6]) or "without"), (" ".join(kept[1][:6]) or "without")
