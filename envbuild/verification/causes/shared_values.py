"""Values that processes share, and what is done to them in two steps."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Set

from envbuild.core.patterns import lazy
from envbuild.verification.dataflow.in_threads import given_to_others
from envbuild.verification.dataflow.targets import base_name, last_name, parsed, stored

_MANAGERS = frozenset(("Manager", "SyncManager"))
_VALUES, _ARRAYS = frozenset(("Value", "RawValue")), frozenset(("Array", "RawArray"))
"""Last names of what makes one."""

_SETTING = frozenset(("setcontext", "setlocale", "chdir", "umask", "seterr", "set_printoptions", "setrecursionlimit"))
"""Last names of what sets something of the whole thread or process."""
_SQL = lazy(r"\bupdate\s+\w+\s+set\b", re.IGNORECASE)
_FORK, _THREADS = "fork", lazy(r"Thread|\bto_thread\b|\brun_in_executor\b")

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def lost_updates(tree: ast.Module) -> Iterator[int]:
    """Yield the lines that read a shared value and write it again without its lock: what came in between is lost.

    It is a ``.value``, or an item of what a function is given, in a file that makes such values or arrays, and it is
    done within a function.
    """
    made = {last_name(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, _Function):
            given = set() if made.isdisjoint(_ARRAYS) else _given(node)
            yield from _Updates(values=not made.isdisjoint(_VALUES), given=given).unlocked(node)


def updated_by_several(source: str) -> tuple[int, ...]:
    """Return the lines, in what threads and processes run, that read what others have as well and write it again.

    That are items and attributes of what a function has not made itself, if threads run it, memory (``pack_into``) and
    rows of databases (``UPDATE``), where it has no lock. And, with one too, what gets the next number: ``len(ids)``;
    and what sets something of the thread or process that later tasks find.
    """
    tree = parsed(source)
    if tree is None:
        return ()
    threads = _THREADS.search(source) is not None
    made = {last_name(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    found = set[int]()
    for function in run_by_several(tree):
        given = set() if made.isdisjoint(_ARRAYS | _MANAGERS) else _given(function)
        own = {name for node in ast.walk(function) for name in _stored(node)} - _given(function)
        updates = _Updates(values=True, given=given, own=own if threads else None, rows=True)
        found |= {*updates.unlocked(function), *(_numbered(function, own) if threads else ())}
        found |= {*_of_others(function, given), *_left_behind(function)}
    return tuple(sorted(found))


def _left_behind(function: _Function) -> Iterator[int]:
    """Yield the lines that set what the thread or process has for later tasks, too: ``getcontext().prec = 7``."""
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute):
            sets = isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Call)
        else:
            sets = isinstance(node, ast.Call) and last_name(node.func) in _SETTING and bool(node.args)
        if sets and isinstance(node, ast.expr):
            yield node.lineno


def _of_others(function: _Function, given: Set[str]) -> Iterator[int]:
    """Yield the lines that read other items of what a function is given and writes into: those of others."""
    items = [node for node in ast.walk(function) if isinstance(node, ast.Subscript) and last_name(node.value) in given]
    written = {(last_name(each.value), ast.unparse(each.slice)) for each in items if isinstance(each.ctx, ast.Store)}
    tables = {name for name, _ in written}
    for each in items:
        key = last_name(each.value), ast.unparse(each.slice)
        if isinstance(each.ctx, ast.Load) and key[0] in tables and key not in written:
            yield each.lineno


def _numbered(function: _Function, own: Set[str]) -> Iterator[int]:
    """Yield the lines that give something the next number, by how many there are: who comes first has the first one.

    Or what comes next of an iterator that others have, too.
    """
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and last_name(node.func) == "next" and isinstance(node.func, ast.Name):
            shared = node.args[0] if node.args else node
            if isinstance(shared, ast.Name | ast.Attribute) and base_name(shared) not in own:
                yield node.lineno
            continue
        if isinstance(node, ast.Call) and last_name(node.func) == "setdefault" and isinstance(node.func, ast.Attribute):
            table, values, line = node.func.value, node.args[1:], node.lineno
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            table, values, line = node.targets[0].value, [node.value], node.lineno
        else:
            continue
        parts = (each for value in values for each in ast.walk(value) if isinstance(each, ast.Call))
        if base_name(table) not in own and f"len({ast.unparse(table)})" in map(ast.unparse, parts):
            yield line


def run_by_several(tree: ast.Module) -> list[_Function]:
    """Return the functions of a file that threads and processes run, and those that these call; all if it forks."""
    functions = [node for node in ast.walk(tree) if isinstance(node, _Function)]
    if any(isinstance(node, ast.Call) and last_name(node.func) == _FORK for node in ast.walk(tree)):
        return functions
    given = [*given_to_others(tree)]
    names = {last_name(each) for each in given}
    if any(isinstance(each, ast.Call) for each in given):  # an object: ``pool.map(Augmenter(), pictures)``
        names.add("__call__")
    known = set[str]()
    while names - known:
        known |= names
        within = (node for each in functions if each.name in known for node in ast.walk(each))
        names = {last_name(node.func) for node in within if isinstance(node, ast.Call)}
    return [each for each in functions if each.name in known]


def _given(function: _Function) -> set[str]:
    return {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}


def _stored(node: ast.AST) -> Iterator[str]:
    """Yield the plain names to which a statement or a loop gives a value."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    yield from (name for each in targets if isinstance(each, ast.Name | ast.Tuple) for name in stored(each))


class _Updates:
    """What is an update of something shared.

    Args:
        values: a ``.value`` is shared.
        given: names of which items are.
        own: names of what is not, where all others are; None where nothing else is.
        rows: memory and rows of databases are.
    """

    def __init__(self, *, values: bool, given: Set[str], own: Set[str] | None = None, rows: bool = False) -> None:
        self._values, self._given, self._own, self._rows = values, given, own, rows

    def unlocked(self, node: ast.AST) -> Iterator[int]:
        """Yield the lines below a node, those of functions in it and those that have a lock left out."""
        for child in ast.iter_child_nodes(node):
            locked = isinstance(child, ast.With) and any("lock" in ast.unparse(each).lower() for each in child.items)
            if locked or isinstance(child, _Function | ast.ClassDef):
                continue
            if isinstance(child, ast.stmt) and self._is_update(child):
                yield child.lineno
            elif self._rows:
                yield from _of_memory_and_rows(child)
            yield from self.unlocked(child)

    def _is_update(self, statement: ast.stmt) -> bool:
        if isinstance(statement, ast.AugAssign):
            return self._is_shared(statement.target)
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return False
        (target,) = statement.targets
        read = {
            ast.unparse(node) for node in ast.walk(statement.value) if isinstance(node, ast.Attribute | ast.Subscript)
        }
        looked_up = isinstance(target, ast.Subscript) and f"{ast.unparse(target.value)}.get" in read
        return self._is_shared(target) and (looked_up or ast.unparse(target) in read)

    def _is_shared(self, target: ast.expr) -> bool:
        if self._own is not None:
            whole = target.value if isinstance(target, ast.Subscript) else target
            root = whole.value if isinstance(whole, ast.Attribute) else whole
            return isinstance(target, ast.Subscript | ast.Attribute) and base_name(root) not in self._own
        if isinstance(target, ast.Subscript):
            return isinstance(target.value, ast.Name) and target.value.id in self._given
        return self._values and isinstance(target, ast.Attribute) and target.attr == "value"


def _of_memory_and_rows(node: ast.AST) -> Iterator[int]:
    """Yield the line of a call that writes what it reads into memory, and that of an update in SQL."""
    if isinstance(node, ast.Call) and last_name(node.func) == "pack_into":
        if any(isinstance(each, ast.Call) and last_name(each.func) == "unpack_from" for each in ast.walk(node)):
            yield node.lineno
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and (at := _SQL.search(node.value)) is not None:
        yield node.lineno + node.value.count("\n", 0, at.start())
