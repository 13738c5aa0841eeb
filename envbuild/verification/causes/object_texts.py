"""Where a text is made of an object whose class gives it none: it holds the object's address."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from envbuild.verification.dataflow.targets import elements, gone_through, last_name, written

_OF_TEXT = frozenset(("__repr__", "__str__", "__format__"))
"""Methods by which a class gives its objects a text."""
_STEPS = 3
"""Calls and names through which objects are followed."""
_KEYED = frozenset(("sorted", "min", "max", "map", "filter"))
"""Functions that call a function of one parameter with each element of what they are given besides."""
_MAKING_TEXT = frozenset(("str", "repr", "format"))


def texts_of_objects(tree: ast.Module) -> Iterator[int]:
    """Yield the lines that make a text of an object of one of the file's own classes, or of one of its functions."""
    nameless = _without_text(tree)
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    names: set[str] = set()
    for _ in range(_STEPS):
        before = len(names)
        names |= {name for node in ast.walk(tree) for name in _named_by(node, names, nameless, functions)}
        if len(names) == before:
            break
    shown = {*names, *functions}
    for node in ast.walk(tree):
        for value in _in_text(node):
            if written(value) in shown or _makes(value, nameless) or isinstance(value, ast.Lambda):
                yield value.lineno


def _without_text(tree: ast.Module) -> set[str]:
    """Return the classes that have no text of their own, and none by decorators or by classes of other files."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and not node.decorator_list and not node.keywords:
            own = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
            if own.isdisjoint(_OF_TEXT) and all(last_name(base) in {"object", *found} for base in node.bases):
                found.add(node.name)
    return found


def _makes(value: ast.AST, nameless: Collection[str]) -> bool:
    """Whether an expression makes an object of such a class, or many of them."""
    if isinstance(value, ast.expr) and (made := elements(value)):
        return any(_makes(each, nameless) for each in made)
    return isinstance(value, ast.Call) and last_name(value.func) in nameless


def _named_by(
    node: ast.AST,
    names: Collection[str],
    nameless: Collection[str],
    functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef],
) -> Iterator[str]:
    """Yield the names and attributes (``.model``) by which a node gets such objects."""
    if isinstance(node, ast.Assign | ast.AnnAssign):
        if node.value is not None and (_makes(node.value, nameless) or written(node.value) in names):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from filter(None, map(written, targets))
    elif isinstance(node, ast.For | ast.comprehension):
        for target, source in gone_through(node.target, node.iter):
            if (written(source) in names or _makes(source, nameless)) and isinstance(target, ast.Name):
                yield target.id
    elif isinstance(node, ast.Call):
        given = [*node.args, *(word.value for word in node.keywords)]
        if last_name(node.func) in _KEYED and any(written(each) in names for each in given):
            yield from (each.args.args[0].arg for each in given if isinstance(each, ast.Lambda) and each.args.args)
        if (called := functions.get(last_name(node.func))) is not None:
            own = [each.arg for each in called.args.args]
            own = own[1:] if own[:1] == ["self"] else own
            pairs = [*zip(own, node.args, strict=False), *((word.arg or "", word.value) for word in node.keywords)]
            yield from (name for name, value in pairs if name and (written(value) in names or _makes(value, nameless)))


def _in_text(node: ast.AST) -> Iterator[ast.expr]:
    """Yield what a node makes a text of."""
    if isinstance(node, ast.FormattedValue) and node.format_spec is None:
        yield node.value
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and _is_text(node.left):
        yield from node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
    elif isinstance(node, ast.Call):
        of_text = isinstance(node.func, ast.Attribute) and _is_text(node.func.value)
        name = last_name(node.func)
        if (name in _MAKING_TEXT and isinstance(node.func, ast.Name)) or (name == "format" and of_text):
            yield from node.args


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or isinstance(getattr(node, "value", None), str)
