"""Lines whose results have the order of a hash with keys that a package draws in each process."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

_CALLS: Mapping[str, frozenset[str]] = {
    "polars": frozenset(("unique", "group_by", "value_counts", "partition_by", "mode", "drop_duplicates"))
}
"""Methods of a package's tables that return groups or unique values in such an order."""
_SETTLING = frozenset(("sort", "height", "is_in"))
"""What gives their results an order, or does not depend on one, later in the same chain of calls."""
_FUNCTIONS = frozenset(("sorted", "len", "set", "frozenset", "max", "min"))


def without_order(package: str, sources: Mapping[str, str]) -> list[str]:
    """Return the lines (``train.py:12``) of which that is so, unless they ask for an order or sort at once."""
    return [f"{path}:{line}" for path, source in sources.items() for line in _lines(source, _CALLS.get(package, ()))]


def _lines(source: str, methods: frozenset[str] | tuple[()]) -> Iterator[int]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    above = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    found = {
        node.func.end_lineno or node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in methods
        if not _keeps_order(node) and not _is_settled(node, above)
    }
    yield from sorted(found)


def _keeps_order(call: ast.Call) -> bool:
    """Whether a call asks for the order of what it is given: with anything but a plain no, it may."""
    return any(word.arg == "maintain_order" and getattr(word.value, "value", True) for word in call.keywords)


def _is_settled(call: ast.Call, above: Mapping[ast.AST, ast.AST]) -> bool:
    """Whether the chain of calls that a call is part of sorts its result, or counts it."""
    node: ast.AST = call
    while True:
        parent = above.get(node)
        if isinstance(parent, ast.Attribute):
            if parent.attr in _SETTLING:
                return True
        elif not (isinstance(parent, ast.Call) and parent.func is node):
            return isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id in _FUNCTIONS
        node = parent
