"""What is equal but for colours, for the order of optimisers, or for which names are one file, is quoted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envbuild.record.model import Output
from envbuild.verification.masking.controls import other_controls
from envbuild.verification.masking.masks import Masks
from envbuild.verification.ran import Ran
from envbuild.verification.structure import other_links, other_order
from tests.support.records import record

GREEN, RED, OFF = "\x1b[32m", "\x1b[31m", "\x1b[0m"
NOW = 1_795_000_000.0


@pytest.mark.parametrize(
    ("before", "after", "quoted"),
    [
        (f"a\n{GREEN}trained{OFF}\n", f"a\n{RED}trained{OFF}\n", ("ESC[32m ESC[0m", "ESC[31m ESC[0m")),
        ("a\ntrained\n", f"a\n{RED}trained{OFF}\n", ("", "ESC[31m ESC[0m")),
        (f"\n{GREEN}took 1.5 s{OFF}\n", f"\n{RED}took 1.7 s{OFF}\n", ("ESC[32m ESC[0m", "ESC[31m ESC[0m")),
        (f"\n{GREEN}trained{OFF}\n", f"\n{GREEN}trained{OFF}\n", None),
        (f"\n{GREEN}loss 0.5{OFF}\n", f"\n{RED}loss 0.7{OFF}\n", None),  # which differs anyway
        (f"\n{GREEN}10%{OFF}\r{GREEN}20%{OFF}\n", f"\n{RED}10%{OFF}\r{GREEN}20%{OFF}\n", None),
        (f"\n{GREEN}trained{OFF}\n", f"{RED}trained{OFF}\n", None),
        ("\ntrained  \n", "\ntrained\n", ("2 blanks at its end", "0 blanks at its end")),
        ("took 1.5 s\ntrained  \n", "took 1.75 s\ntrained   \n", None),  # as wide as the line above
        ("\n10%\rtrained \n", "\n20%\rtrained\n", None),
    ],
)
def test_colours_and_blanks_that_differ_are_quoted(before: str, after: str, quoted: tuple[str, str] | None) -> None:
    """Not those of bars, which the time decides, nor where lines differ."""
    masks = Masks(NOW), Masks(NOW)
    found = [*other_controls("standard output", before.encode(), after.encode(), masks)]
    assert [(each.line, each.before, each.after) for each in found] == ([(2, *quoted)] if quoted else [])


def test_another_order_of_optimisers_is_quoted() -> None:
    """If what all of them went through is the same."""
    first = Ran(record=record(), trace="t", order=("a", "b"))
    assert not [*other_order([first, first])]
    assert not [*other_order([first, replace(first, trace="u", order=("b", "a"))])]
    assert [*other_order([first, replace(first, order=("b", "a"))])] == [
        "the step trace: which of several optimisers was first, or trained what"
    ]


def test_other_hard_links_are_quoted() -> None:
    """Of names that both runs have; others are drawn."""
    outputs = tuple(Output(path=name, change="created", size=1, sha256="0" * 64) for name in "abc")
    first = Ran(record=record(outputs=outputs), links=frozenset([("a", "b")]))
    assert not [*other_links([first, first])]
    assert not [*other_links([first, replace(first, record=record(outputs=outputs[1:]), links=frozenset())])]
    found = [*other_links([first, replace(first, links=frozenset([("a", "c")]))])]
    assert found == ["which names are hard links of one file: a and b are in some runs only"]
