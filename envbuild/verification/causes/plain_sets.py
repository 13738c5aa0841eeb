"""Sets of texts and numbers, whose hashes are the same in each run (``PYTHONHASHSEED`` is locked)."""

from __future__ import annotations

import ast

from envbuild.verification.dataflow.targets import last_name

_PLAIN = frozenset(("bool", "bytes", "chr", "float", "hex", "int", "len", "ord", "range", "round", "str"))
"""Functions that return texts and numbers, or many of them."""
_OF_TEXTS = frozenset(("casefold", "hexdigest", "join", "lower", "replace", "split", "splitlines", "strip", "upper"))
"""Methods of texts that return such."""
_PICKING = frozenset(("choices", "sample"))
"""Methods that return some of what they are given first."""
_KEEPING = frozenset(("list", "map", "reversed", "sorted", "tuple"))
"""Functions that return the elements of what they are given, or of what its first argument returns."""


def has_plain_elements(node: ast.expr) -> bool:
    """Return whether an expression that makes a set shows that its elements are texts and numbers."""
    if isinstance(node, ast.Set):
        return all(map(_is_plain, node.elts))
    if isinstance(node, ast.SetComp):
        return _is_plain(node.elt)
    return isinstance(node, ast.Call) and bool(node.args) and _gives_plain(node.args[0])


def _gives_plain(node: ast.expr) -> bool:
    """Whether the elements of an expression are such."""
    if isinstance(node, ast.GeneratorExp | ast.ListComp | ast.SetComp):
        return _is_plain(node.elt)
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return all(map(_is_plain, node.elts))
    if not isinstance(node, ast.Call):
        return isinstance(node, ast.Constant | ast.JoinedStr)
    name = last_name(node.func)
    if name == "map" and node.args:
        return last_name(node.args[0]) in _PLAIN
    if name in _PICKING | _KEEPING and node.args:
        return _gives_plain(node.args[0])
    return name in _OF_TEXTS if isinstance(node.func, ast.Attribute) else name == "range"


def _is_plain(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return last_name(node.func) in (_OF_TEXTS if isinstance(node.func, ast.Attribute) else _PLAIN - {"range"})
    if isinstance(node, ast.Tuple):
        return all(map(_is_plain, node.elts))
    return isinstance(node, ast.Constant | ast.JoinedStr) and getattr(node, "value", "") is not None
