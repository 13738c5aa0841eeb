"""Whether bits depend on the node: what the results by node show, how likely chance is, and which fact goes with it."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import permutations

import pytest

from envbuild.host.facts import Cpu, GpuFacts, HostFacts
from envbuild.verification.nodes import chance_of, node_table


def host(level: str = "x86-64-v3", *, driver: str = "", flags: tuple[str, ...] = (), kernel: str = "6.1") -> HostFacts:
    return HostFacts(kernel=kernel, machine="x86_64", cpu=Cpu(level=level, flags=flags), gpu=GpuFacts(driver=driver))


def groups(results: str) -> list[list[int]]:
    """Indexes of the runs of each letter, in the order in which letters come."""
    return [[at for at, each in enumerate(results) if each == letter] for letter in dict.fromkeys(results)]


@pytest.mark.parametrize(
    ("results", "nodes", "conclusion"),
    [
        ("aaaa", "1111", "one node"),
        ("abab", "1111", "one node"),
        ("aaaa", "1212", "equal"),
        ("abababab", "12121212", "depends"),
        ("abab", "1212", "perhaps"),
        ("abaa", "1212", "within"),
        ("aabb", "1212", "within"),
        ("abcd", "1234", "unknown"),
        ("ab", "12", "unknown"),
        ("abc" * 4, "123" * 4, "depends"),
        ("abbabbabbabb", "123" * 4, "depends"),
    ],
)
def test_what_results_by_node_show(results: str, nodes: str, conclusion: str) -> None:
    """A node decides only if it always gives the same bits, others give others, and chance would hardly do that."""
    found = node_table(groups(results), list(nodes), [host()] * len(nodes))
    assert found.conclusion == conclusion
    assert {row.node: len(row.runs) for row in found.rows} == Counter(nodes)
    assert (found.cause is not None) == (conclusion in ("depends", "perhaps"))


@pytest.mark.parametrize(("results", "nodes"), [("aabb", "1122"), ("aaabb", "11122"), ("abcc", "1233"), ("aab", "123")])
def test_the_chance_is_that_of_dealing(results: str, nodes: str) -> None:
    """Counted over all ways to deal the results to the runs."""
    dealt = list(permutations(results))
    pure = sum(len({*zip(nodes, each, strict=True)}) == len(set(nodes)) for each in dealt)
    sizes = [list(Counter(each).values()) for each in (nodes, results)]
    assert chance_of(*sizes) == Fraction(pure, len(dealt))
    assert chance_of([1] * 12, [11, 1]) == 1
    assert chance_of([3] * 10, [15, 15]) < Fraction(1, 1000)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (host(), host("x86-64-v2"), "the CPU level: x86-64-v3 (1) → x86-64-v2 (2)"),
        (host(driver="580.1"), host(driver="570.2"), "the GPU driver: 580.1 (1) → 570.2 (2)"),
        (host(driver="580.1"), host("x86-64-v2", driver="570.2"), "the GPU driver: 580.1 (1) → 570.2 (2)"),
        (host(flags=("avx2", "fma")), host(flags=("avx2",)), "the CPU's instructions: fma (1) → without (2)"),
        (host(), host(kernel="6.2"), "the kernel: 6.1 (1) → 6.2 (2)"),
    ],
)
def test_the_cause_is_the_fact_that_goes_with_the_results(one: HostFacts, other: HostFacts, expected: str) -> None:
    """The most telling one of those that part the runs exactly as their results do; none if there is none."""
    found = node_table(groups("abababab"), list("12121212"), [one, other] * 4)
    assert found.cause is not None
    assert found.cause.sentence == f"the bits depend on {expected}"
    mixed = node_table(groups("abababab"), list("12121212"), [one, other, other, other] * 2)
    assert mixed.cause is not None
    assert "no recorded fact" in mixed.cause.sentence
