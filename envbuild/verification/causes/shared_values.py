"""Values that processes share, and what is done to them in two steps."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from envbuild.verification.dataflow.targets import last_name

_SHARING = frozenset(("Value", "RawValue"))
"""Last names of what makes one."""


def lost_updates(tree: ast.Module) -> Iterator[int]:
    """Yield the lines that read a ``.value`` and write it again without its lock: what came in between is lost.

    It is one that processes share if the file makes such values, and it is done within a function.
    """
    if any(isinstance(node, ast.Call) and last_name(node.func) in _SHARING for node in ast.walk(tree)):
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from _unlocked(node)


def _unlocked(node: ast.AST) -> Iterator[int]:
    for child in ast.iter_child_nodes(node):
        locked = isinstance(child, ast.With) and any("lock" in ast.unparse(each).lower() for each in child.items)
        if locked or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if isinstance(child, ast.stmt) and _is_update(child):
            yield child.lineno
        yield from _unlocked(child)


def _is_update(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.AugAssign):
        return isinstance(statement.target, ast.Attribute) and statement.target.attr == "value"
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    target = statement.targets[0]
    read = {ast.unparse(node) for node in ast.walk(statement.value) if isinstance(node, ast.Attribute)}
    return isinstance(target, ast.Attribute) and target.attr == "value" and ast.unparse(target) in read
