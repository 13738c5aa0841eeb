"""Calls in Python sources by the full name of what is called, read without running anything."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from envbuild.verification.uses import Use, Uses

SET = "set.__iter__"
_IN_ORDER = frozenset(("list", "tuple", "enumerate", "iter", "zip", "map"))
"""What takes the elements of its arguments in their order and keeps it."""
_ORDERLESS = frozenset(("sorted", "set", "frozenset", "any", "all", "min", "max", "len"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One call.

    Attributes:
        name: as imported (``numpy.random.seed`` for ``np.random.seed``); ``.seed`` for a method of a value; a plain
            name for what the file does not import; ``SET`` where the elements of a set are taken one by one.
        line: 1-based.
        bare: it has no arguments, or ``None`` alone.
        ordered: it is inside ``sorted(…)``, or called with ``maintain_order=True``.
        use: what becomes of its value.
    """

    name: str
    line: int
    bare: bool = False
    ordered: bool = False
    use: Use = ""


def calls(source: str) -> tuple[Call, ...]:
    """Return all calls of a source in the order of their lines; none if it is no Python of this version."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    names = _imported(tree)
    try:
        found = [*_calls(tree, names, Uses(tree), ordered=False), *_sets_in_order(tree)]
        return tuple(sorted(found, key=lambda call: call.line))
    except RecursionError:
        return ()


def _imported(tree: ast.Module) -> dict[str, str]:
    """Return what each imported name represents."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                found[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
    return found


def _calls(node: ast.AST, names: dict[str, str], uses: Uses, *, ordered: bool) -> Iterator[Call]:
    if isinstance(node, ast.Call):
        name = _name(node.func, names)
        if name:
            in_order = ordered or _maintains_order(node)
            yield Call(name=name, line=node.lineno, bare=_bare(node), ordered=in_order, use=uses.of(node))
        ordered = ordered or name == "sorted"
    for child in ast.iter_child_nodes(node):
        yield from _calls(child, names, uses, ordered=ordered)


def _maintains_order(call: ast.Call) -> bool:
    return any(
        word.arg == "maintain_order" and isinstance(word.value, ast.Constant) and word.value.value is True
        for word in call.keywords
    )


def _sets_in_order(tree: ast.Module) -> Iterator[Call]:
    """Yield where a program goes through a set, as far as one file shows that it is one."""
    named = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and _is_set(node.value, set())
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    unordered = {id(generator) for node in ast.walk(tree) for generator in _without_order(node)}
    for node in ast.walk(tree):
        sources: list[ast.expr] = []
        if isinstance(node, ast.For | ast.comprehension) and id(node) not in unordered:
            sources = [node.iter]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _IN_ORDER:
            sources = node.args
        yield from (Call(name=SET, line=source.lineno) for source in sources if _is_set(source, named))


def _without_order(node: ast.AST) -> Iterator[ast.comprehension]:
    """Yield the loops of a comprehension whose order is lost again: a set, or the argument of such as ``sorted``."""
    if isinstance(node, ast.SetComp):
        yield from node.generators
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _ORDERLESS:
        for given in node.args:
            if isinstance(given, ast.GeneratorExp | ast.ListComp):
                yield from given.generators


def _is_set(node: ast.expr, named: set[str]) -> bool:
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    if isinstance(node, ast.Name):
        return node.id in named
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("set", "frozenset")


def _name(node: ast.expr, names: dict[str, str]) -> str:
    """Return the full name of what is called; empty for what has none."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name) and (node.id in names or not parts):
        return ".".join([names.get(node.id, node.id), *reversed(parts)])
    return f".{parts[0]}" if parts else ""


def _bare(node: ast.Call) -> bool:
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    return all(isinstance(value, ast.Constant) and value.value is None for value in given)
