"""Elements that are taken out of a set, whichever (envbuild/verification/causes/set_orders.py)."""

from __future__ import annotations

import ast

import pytest

from envbuild.verification.causes.set_orders import sets_in_order


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("pending = set(blocks)\nwhile pending:\n    block = pending.pop()\n", [3]),
        ("pending = list(blocks)\nwhile pending:\n    block = pending.pop()\n", []),
        ("pending = set(blocks)\npending.pop(0)\n", []),
    ],
)
def test_any_element(source: str, lines: list[int]) -> None:
    assert [line for line, _ in sets_in_order(ast.parse(source))] == lines
