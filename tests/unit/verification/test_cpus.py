"""Results by CPU: whether the CPU decides, and what to try then."""

from __future__ import annotations

import pytest

from envbuild.verification.cpus import OWN, cpu_table


@pytest.mark.parametrize(
    ("groups", "conclusion"),
    [
        ([[0, 1, 2, 3]], "equal"),
        ([[0, 1, 2], [3, 4, 5, 6]], "depends"),
        ([[0, 1, 2], [3]], "perhaps"),
        ([[0, 1, 2, 3], [4, 5, 6]], "within"),
    ],
)
def test_the_cpu_decides_or_it_does_not(groups: list[list[int]], conclusion: str) -> None:
    """Three runs here and four on another CPU are evidence; one there may be chance; a CPU that varies by itself."""
    runs = sum(map(len, groups))
    table = cpu_table(groups, ["", "", "", *["Nehalem"] * (runs - 3)], "ops")
    assert (table.kind, table.conclusion) == ("CPU", conclusion)
    assert [row.node for row in table.rows] == [OWN, "Nehalem (emulated)"]
    assert (table.cause is not None) == (conclusion in ("depends", "perhaps"))


def test_the_advice_follows_the_level() -> None:
    """Who has locked portable already is not advised to."""
    advice = [cpu_table([[0, 1, 2], [3, 4, 5, 6]], ["", "", "", *["EPYC"] * 4], each) for each in ("ops", "portable")]
    assert [("level: portable" in table.cause.attempt) for table in advice if table.cause] == [True, False]
