"""Sets whose elements are texts and numbers (envbuild/verification/causes/plain_sets.py)."""

from __future__ import annotations

import ast

import pytest

from envbuild.verification.causes.plain_sets import has_plain_elements


@pytest.mark.parametrize(
    ("source", "plain"),
    [
        ("set(range(9))", True),
        ("set(rng.sample(range(9), 3))", True),
        ("set(text.lower().split())", True),
        ("frozenset(map(int, words))", True),
        ("set(sorted(word.strip() for word in words))", True),
        ("{1, 'a', f'{b}'}", True),
        ("{(int(a), 'b') for a in words}", True),
        ("set('abc')", True),
        ("set()", False),
        ("set(nodes)", False),
        ("set(rng.sample(nodes, 3))", False),
        ("set(map(Node, words))", False),
        ("{None, 1}", False),
        ("{node for node in nodes}", False),
        ("{Node(1), 2}", False),
        ("set(node.split())", True),
        ("set(list(nodes))", False),
    ],
)
def test_elements_as_the_expression_shows_them(source: str, plain: bool) -> None:
    """``None`` has an address for a hash in some versions; what a name has nobody sees."""
    assert has_plain_elements(ast.parse(source, mode="eval").body) is plain
