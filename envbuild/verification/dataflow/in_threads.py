"""What threads of a program run, as far as one file shows it: functions that they are given, and what these call."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from envbuild.verification.dataflow.targets import last_name

_TARGETS = {"Thread": 1, "Timer": 1, "run_in_executor": 1}
"""Which argument is the function that runs in a thread, by the last part of what is called; 0 for those of pools."""
_OF_POOLS = frozenset(("submit", "map", "starmap", "imap", "imap_unordered", "apply_async", "map_async", "to_thread"))
_NAMED = frozenset(("target", "function", "func", "fn"))


def run_by_threads(source: str) -> str | None:
    """Return the text of the functions that threads run; None if the file does not show all of them."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    functions: dict[str, list[ast.AST]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions.setdefault(node.name, []).append(node)
    left: list[ast.AST] = []
    for target in _targets(tree):
        if isinstance(target, ast.Lambda):
            left.append(target)
        elif (found := functions.get(last_name(target))) is not None:
            left += found
        else:
            return None
    left += _own_runs(tree)
    return _text(source, left, functions) if left else None


def _text(source: str, left: list[ast.AST], functions: dict[str, list[ast.AST]]) -> str:
    """Return the text of some functions and of those of the file that they call."""
    seen: dict[int, str] = {}
    while left:
        node = left.pop()
        if id(node) in seen:
            continue
        seen[id(node)] = ast.get_source_segment(source, node) or ""
        for each in ast.walk(node):
            if isinstance(each, ast.Call):
                left += functions.get(last_name(each.func), [])
    return "\n".join(seen.values())


def _targets(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield what is given to threads and to pools."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = last_name(node.func)
        at = _TARGETS.get(name, 0 if name in _OF_POOLS and isinstance(node.func, ast.Attribute) else None)
        if at is None:
            continue
        named = [word.value for word in node.keywords if word.arg in _NAMED]
        yield from (_unwrapped(each) for each in (named or node.args[at : at + 1]))


def _unwrapped(target: ast.expr) -> ast.expr:
    """Return the function that ``functools.partial`` is given."""
    while isinstance(target, ast.Call) and last_name(target.func) == "partial" and target.args:
        target = target.args[0]
    return target


def _own_runs(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the methods ``run`` of classes that are threads."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and any(last_name(base).endswith("Thread") for base in node.bases):
            yield from (each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "run")
