"""Names in Python's sources: what is called, and what an assignment gives a value to."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache


@lru_cache(maxsize=8)
def parsed(source: str) -> ast.Module | None:
    """Return the tree of a source, which is asked for once for each of its calls; nobody changes it.

    None of what is no Python of this version, or too deep for it.
    """
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def last_name(node: ast.AST) -> str:
    """Return the name of a variable, or that of an attribute without its object; empty for anything else."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def base_name(node: ast.AST) -> str:
    """Return the name that an object is kept under, or one that it is an item of; empty if it has none."""
    while isinstance(node, ast.Subscript | ast.Starred):
        node = node.value
    return last_name(node)


def stored(target: ast.AST) -> Iterator[str]:
    """Yield the names that an assignment to a target changes."""
    if isinstance(target, ast.Tuple | ast.List):
        for each in target.elts:
            yield from stored(each)
    elif name := base_name(target):
        yield name


def in_pairs(target: ast.AST, value: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Yield what an assignment gives a value to, with it; of ``a, b = c, d`` each by itself."""
    ones, others = (each.elts if isinstance(each, ast.Tuple | ast.List) else [] for each in (target, value))
    if not ones or len(ones) != len(others) or any(isinstance(each, ast.Starred) for each in (*ones, *others)):
        yield target, value
        return
    for one, other in zip(ones, others, strict=True):
        yield from in_pairs(one, other)


def numbers(tree: ast.AST) -> dict[str, float]:
    """Return the names that a file gives a value once, which is a number, with these."""
    times: dict[str, int] = {}
    found: dict[str, float] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.arg) and not isinstance(getattr(node, "ctx", None), ast.Load):
            name = node.id if isinstance(node, ast.Name) else node.arg
            times[name] = times.get(name, 0) + 1
        pairs = [(target, node.value) for target in node.targets] if isinstance(node, ast.Assign) else []
        for target, value in (each for pair in pairs for each in in_pairs(*pair)):
            if isinstance(target, ast.Name) and (number := number_of(value)) is not None:
                found[target.id] = number
    return {name: number for name, number in found.items() if times[name] == 1}


def number_of(node: ast.AST) -> float | None:
    """Return a number that a constant is; None for anything else."""
    value = node.value if isinstance(node, ast.Constant) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def named_calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Yield the names that a file gives to what calls return, by ``name = f()`` or ``with f() as name``."""
    pairs: list[tuple[ast.expr | None, ast.expr]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            pairs += [(target, node.value) for target in node.targets]
        elif isinstance(node, ast.withitem):
            pairs.append((node.optional_vars, node.context_expr))
    for target, value in pairs:
        if isinstance(target, ast.Name) and isinstance(value, ast.Call):
            yield target.id, value


def written(node: ast.AST) -> str:
    """Return a name, an attribute with a point before it, or nothing."""
    return node.id if isinstance(node, ast.Name) else f".{node.attr}" if isinstance(node, ast.Attribute) else ""


def is_none(value: ast.expr) -> bool:
    """Return whether an expression is ``None`` itself."""
    return isinstance(value, ast.Constant) and value.value is None


def elements(value: ast.expr) -> list[ast.expr]:
    """Return the elements of a list, or the values of a dict, that an expression makes, as far as it shows them."""
    if isinstance(value, ast.ListComp):
        return [value.elt]
    if isinstance(value, ast.DictComp):
        return [value.value]
    if isinstance(value, ast.List | ast.Tuple):
        return value.elts
    if isinstance(value, ast.Dict):
        return value.values
    if isinstance(value, ast.Call) and last_name(value.func) == "defaultdict" and value.args:
        return [ast.Call(func=value.args[0], args=[], keywords=[])]
    return []


def gone_through(target: ast.expr, source: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield what a loop binds to the elements of what, also through ``enumerate``, ``zip``, ``values``, ``items``."""
    if not isinstance(source, ast.Call):
        yield target, source
        return
    parts = target.elts if isinstance(target, ast.Tuple) else []
    match last_name(source.func):
        case "enumerate" if len(parts) == 2 and source.args:
            yield from gone_through(parts[1], source.args[0])
        case "zip" if len(parts) == len(source.args):
            for part, given in zip(parts, source.args, strict=True):
                yield from gone_through(part, given)
        case "items" if len(parts) == 2 and isinstance(source.func, ast.Attribute):
            yield parts[1], source.func.value
        case "values" if isinstance(source.func, ast.Attribute):
            yield target, source.func.value
        case "sorted" | "reversed" | "list" | "tuple" | "tqdm" if source.args:
            yield from gone_through(target, source.args[0])
