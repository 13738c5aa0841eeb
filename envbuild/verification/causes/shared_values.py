"""Values that processes share, and what is done to them in two steps."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from envbuild.verification.dataflow.targets import last_name

_VALUES, _ARRAYS = frozenset(("Value", "RawValue")), frozenset(("Array", "RawArray"))
"""Last names of what makes one."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def lost_updates(tree: ast.Module) -> Iterator[int]:
    """Yield the lines that read a shared value and write it again without its lock: what came in between is lost.

    It is a ``.value``, or an item of what a function is given, in a file that makes such values or arrays, and it is
    done within a function.
    """
    made = {last_name(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, _Function):
            given = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
            updates = _Updates(values=not made.isdisjoint(_VALUES), given=set() if made.isdisjoint(_ARRAYS) else given)
            yield from updates.unlocked(node)


class _Updates:
    def __init__(self, *, values: bool, given: set[str]) -> None:
        self._values, self._given = values, given

    def unlocked(self, node: ast.AST) -> Iterator[int]:
        """Yield the lines below a node, those of functions in it and those that have a lock left out."""
        for child in ast.iter_child_nodes(node):
            locked = isinstance(child, ast.With) and any("lock" in ast.unparse(each).lower() for each in child.items)
            if locked or isinstance(child, _Function | ast.ClassDef):
                continue
            if isinstance(child, ast.stmt) and self._is_update(child):
                yield child.lineno
            yield from self.unlocked(child)

    def _is_update(self, statement: ast.stmt) -> bool:
        if isinstance(statement, ast.AugAssign):
            return self._is_shared(statement.target)
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return False
        target = ast.unparse(statement.targets[0])
        read = (node for node in ast.walk(statement.value) if isinstance(node, ast.Attribute | ast.Subscript))
        return self._is_shared(statement.targets[0]) and any(ast.unparse(each) == target for each in read)

    def _is_shared(self, target: ast.expr) -> bool:
        if isinstance(target, ast.Subscript):
            return isinstance(target.value, ast.Name) and target.value.id in self._given
        return self._values and isinstance(target, ast.Attribute) and target.attr == "value"
