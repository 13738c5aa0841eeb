"""Lines whose results have the order of a hash with keys that a package draws in each process."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

_CALLS: Mapping[str, frozenset[str]] = {
    "polars": frozenset(("unique", "group_by", "value_counts", "partition_by", "mode", "drop_duplicates", "join")),
    "tokenizers": frozenset(("train", "train_from_iterator", "get_vocab")),
}
"""Methods of a package that return groups, unique values or words in such an order, or decide by it."""
_NATIVE = "tokenizers"
_BOTH = frozenset(("full", "outer", "outer_coalesce"))
"""Joins that add the rows which one table alone has: in that order. Rows of others are in the order of a table."""
_SETTLING = frozenset(("sort", "height", "is_in"))
"""What gives their results an order, or does not depend on one, later in the same chain of calls."""
_DRAWING = frozenset(("sample", "shuffle"))
"""Methods for which a package draws too, without a seed: its entropy may be for these."""
_FUNCTIONS = frozenset(("sorted", "len", "set", "frozenset", "max", "min"))


def in_machine_code(sources: Mapping[str, str]) -> str:
    """Return the package that sources import and that draws such keys in machine code, with no Python of its own."""
    trees = [_parsed(source) for source in sources.values()]
    names = {name.partition(".")[0] for tree in trees for name in _imported(tree)}
    return _NATIVE if _NATIVE in names else ""


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def without_order(package: str, sources: Mapping[str, str]) -> list[str]:
    """Return the lines (``train.py:12``) of which that is so, unless they ask for an order or sort at once.

    None if the program may draw by the package.
    """
    methods = _CALLS.get(package)
    trees = {path: _parsed(source) for path, source in sources.items()} if methods else {}
    if not methods or any(_draws(tree) for tree in trees.values()):
        return []
    return [f"{path}:{line}" for path, tree in trees.items() for line in _lines(tree, methods)]


def _parsed(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def _methods(tree: ast.Module, names: frozenset[str]) -> Iterator[tuple[ast.Call, ast.Attribute]]:
    """Yield calls of methods with some names; functions of modules, such as ``np.unique``, are none."""
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.Import))
    modules = {each.asname or each.name.partition(".")[0] for node in imports for each in node.names}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in names:
            continue
        if not (isinstance(node.func.value, ast.Name) and node.func.value.id in modules):
            yield node, node.func


def _draws(tree: ast.Module) -> bool:
    """Whether a program shuffles a table, or takes a sample of it, without a seed; generators are given more."""
    return any(
        len(call.args) <= (func.attr == "sample") and all(word.arg != "seed" for word in call.keywords)
        for call, func in _methods(tree, _DRAWING)
    )


def _lines(tree: ast.Module, methods: frozenset[str]) -> Iterator[int]:
    above = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    found = {
        func.end_lineno or node.lineno
        for node, func in _methods(tree, methods)
        if not _keeps_order(node) and not _is_settled(node, above) and (func.attr != "join" or _has_all(node))
    }
    yield from sorted(found)


def _has_all(call: ast.Call) -> bool:
    return any(word.arg == "how" and getattr(word.value, "value", None) in _BOTH for word in call.keywords)


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
                return parent.attr != "sort" or not _leaves_ties(call, above.get(parent))
        elif not (isinstance(parent, ast.Call) and parent.func is node):
            return isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id in _FUNCTIONS
        node = parent


def _leaves_ties(call: ast.Call, sort: ast.AST | None) -> bool:
    """Whether rows are sorted by something that several groups have: their counts, or else than what they are by."""
    by = _texts(sort)
    if not by or not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr == "value_counts":
        return by == {"count"}
    groups = _texts(call)
    return call.func.attr == "group_by" and bool(groups) and not groups <= by


def _texts(call: ast.AST | None) -> set[str]:
    """Return the names of columns that a call is given; none if it is given anything else as well."""
    if not isinstance(call, ast.Call):
        return set()
    given = [*call.args, *(word.value for word in call.keywords if word.arg == "by")]
    parts = [part for each in given for part in (each.elts if isinstance(each, ast.List | ast.Tuple) else [each])]
    names = {str(part.value) for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)}
    return names if all(isinstance(getattr(part, "value", None), str) for part in parts) else set()
