"""Pools of threads and processes: the lines that give tasks to one that a line makes."""

from __future__ import annotations

import ast

from envbuild.verification.dataflow.targets import last_name, named_calls, parsed

POOLS = frozenset(("Pool", "ThreadPool", "ThreadPoolExecutor", "ProcessPoolExecutor"))
"""Last names of what makes one."""
_IN_ORDER = frozenset(("map", "imap", "starmap"))
"""Methods whose results have the order of the tasks."""
_ONE_BY_ONE = frozenset((("submit", "result"), ("apply_async", "get")))
"""Methods that give one task, and what waits for it if it is called at once."""
_GIVING = _IN_ORDER | {"submit", "apply", "apply_async", "map_async", "starmap_async", "imap_unordered"}


def tasks_of(source: str, line: int | None = None) -> tuple[tuple[int, bool], ...]:
    """Return the lines that give tasks to a pool, each with whether results come in the order of these.

    The pool is followed by its name, in the whole file if one pool alone has it; none of a pool without a name.

    Args:
        source: of Python.
        line: that makes the pool, 1-based; None for the only one of the file.
    """
    tree = parsed(source)
    if tree is None:
        return ()
    made = [(name, call.lineno) for name, call in named_calls(tree) if last_name(call.func) in POOLS]
    names = [name for name, at in made if line in (at, None)]
    if len(names) != 1 or sum(name == names[0] for name, _ in made) != 1:
        return ()
    found = dict[int, bool]()
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _GIVING
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == names[0]
        ):
            found[node.lineno] = found.get(node.lineno, True) and node.func.attr in _IN_ORDER
    return tuple(sorted(found.items()))


def waits_for_each(source: str) -> bool:
    """Return whether each task that a file gives to a pool is waited for right there, so that one runs at a time."""
    tree = parsed(source)
    if tree is None:
        return False
    given = {node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in _GIVING}
    waited = {
        node.value.func
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Attribute)
        and (node.value.func.attr, node.attr) in _ONE_BY_ONE
    }
    return bool(given) and given == waited
