"""Lines that threads print in any order: whose turn it was is luck, all else is a result."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from envbuild.verification.dataflow.pool_names import pool_names
from envbuild.verification.masking.thread_lines import OwnedLine, differ_by_turns_alone, owners

A, B = "/1", "/2"


def _owned(*lines: tuple[str, str]) -> list[OwnedLine]:
    return [OwnedLine(*each) for each in lines]


TWO = _owned((A, "a starts"), (A, "a ends"), (B, "b starts"), (B, "b ends"), ("", "done"))
TURNED = _owned((B, "b starts"), (A, "a starts"), (B, "b ends"), (A, "a ends"), ("", "done"))
AB = ["a starts", "b starts", "a ends", "b ends", "done"]
BA = ["b starts", "b ends", "a starts", "a ends", "done"]


def test_threads_take_turns() -> None:
    """Each has its own lines in its own order."""
    assert differ_by_turns_alone([AB, BA], [TWO, TURNED])


@pytest.mark.parametrize(
    ("runs", "owned", "why"),
    [
        ([AB, [*BA[:-1], "other"]], [TWO, TURNED], "another line"),
        ([AB, [*BA, "done"]], [TWO, TURNED], "a line more"),
        ([AB, ["a ends", "b starts", "a starts", "b ends", "done"]], [TWO, TURNED], "one thread's own order"),
        ([AB, BA], [TWO, [TURNED[2], *TURNED[:2], *TURNED[3:]]], "its order where it is known who printed"),
        ([AB, BA], [TWO, [*TURNED[:-1], OwnedLine("", "other")]], "another line where it is known"),
        ([["x", "y"], ["y", "x"]], [_owned(("", "x"), ("", "y"))] * 2, "no threads"),
        ([["x", "y"], ["y", "x"]], [_owned((A, "x"), ("", "y")), _owned((A, "y"), ("", "x"))], "the first thread's"),
        (
            [["x", "y", "x"], ["y", "x", "x"]],
            [_owned((A, "x"), ("", "y"), ("", "x"))] * 2,
            "which of two alike is the first thread's",
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_else_differs_is_a_result(
    runs: Sequence[Sequence[str]], owned: Sequence[list[OwnedLine]], why: str
) -> None:
    """Nothing but turns is luck."""
    assert not differ_by_turns_alone(runs, owned), why


def test_whoever_is_free_prints() -> None:
    """Of threads that take from one queue any prints a line: such lines have no order."""
    one = _owned((A, "item 1"), (B, "item 2"), (A, "item 3"), ("", "done"))
    other = _owned((B, "item 1"), (B, "item 2"), (A, "item 3"), ("", "done"))
    third = _owned((B, "item 1"), (A, "item 2"), (B, "item 3"), ("", "done"))
    runs = [["item 1", "item 3", "item 2", "done"], ["item 2", "item 1", "item 3", "done"]]
    assert differ_by_turns_alone(runs, [one, other, third])
    always = [OwnedLine(A, "item 3") if line.text == "item 3" else line for line in third]
    late = [["item 3", "item 1", "item 2", "done"], ["item 1", "item 3", "item 2", "done"]]
    assert differ_by_turns_alone(late, [one, other, always]), "one that A did each time is shared all the same"
    alone = [[*each[:-1], OwnedLine("/3", "x"), OwnedLine("/3", "y"), each[-1]] for each in (one, other, third)]
    turned = [[*runs[0][:-1], "x", "y", "done"], [*runs[1][:-1], "y", "x", "done"]]
    assert not differ_by_turns_alone(turned, alone), "a thread that shares none keeps its order"


def test_names_are_taken_out_of_a_stream() -> None:
    """What the first thread prints has none, and a mark within a line is the program's."""
    data = b"\x1f/1\x1fone\ntwo\n\x1f/1/2\x1f\nth\x1free\n\x1ffour"
    text, names = owners(data)
    assert text == b"one\ntwo\n\nth\x1free\n\x1ffour"
    assert names == ["/1", "", "/1/2", "", ""]


def test_names_of_a_pools_threads() -> None:
    """By what the sources give them; which of them did a part is luck."""
    found = pool_names(
        ["p = ThreadPoolExecutor(4, thread_name_prefix='sim')", "q = Pool(thread_name_prefix=name)", "("]
    )
    assert found is not None
    assert (
        found.sub("⟨worker⟩", "sim_3[7] ends; sim_x, sims_1, my_sim_2") == "⟨worker⟩[7] ends; sim_x, sims_1, my_sim_2"
    )
    assert pool_names(["p = ThreadPoolExecutor(4)"]) is None
