"""Lines that read what threads change while these run: how far they have come by then varies."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from envbuild.verification.causes.shared_values import run_by_several
from envbuild.verification.dataflow.targets import last_name, parsed

_CHANGING = frozenset((
    "append", "appendleft", "extend", "insert", "add", "update", "pop", "popleft", "remove", "clear", "setdefault",
))  # fmt: skip
"""Methods that change the list, set or dictionary that they are called for."""
_GIVING = frozenset(("put", "put_nowait", "send", "set", "notify", "notify_all"))
"""Methods by which others get something."""
_DRAWING = frozenset((
    "random", "randint", "randrange", "choice", "choices", "sample", "shuffle", "uniform", "gauss", "normalvariate",
    "getrandbits", "betavariate", "expovariate", "triangular", "seed", "rand", "randn", "normal", "integers",
    "standard_normal", "permutation",
))  # fmt: skip
"""Methods of generators, which take a number that another one would have got."""
_BEGINS, _ENDS = "start", frozenset(("join", "result", "shutdown", "wait"))
"""What begins a thread, and what waits for one, by last names."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def read_meanwhile(source: str) -> tuple[int, ...]:
    """Return the lines that read an attribute which a thread changes, between its start and what waits for it.

    Threads are known by what they are given to run (``in_threads``); the lines are in the function that starts one.
    """
    tree = parsed(source)
    if tree is None or "Thread" not in source:
        return ()
    threads = run_by_several(tree)
    names = {name for function in threads for name, _ in changes(function, attributes=True)}
    found = set[int]()
    for function in ast.walk(tree):
        if isinstance(function, _Function) and function not in threads and names:
            first, last = _span(function)
            found |= {line for line in _read(function, names) if first < line < last}
    return tuple(sorted(found))


def changes(function: _Function, *, attributes: bool = False) -> Iterator[tuple[str, int]]:
    """Yield what a function gives a value, or whose content it changes: its last name and the line.

    Args:
        function: of a syntax tree.
        attributes: nothing but attributes counts, and no queue; otherwise also names, those of its own among them.
    """
    for node in ast.walk(function):
        changed: ast.AST = node
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            changed = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr not in _CHANGING and (attributes or node.func.attr not in _GIVING | _DRAWING):
                continue
            changed = node.func.value
        elif not (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)):
            continue
        if isinstance(changed, ast.Attribute) or (isinstance(changed, ast.Name) and not attributes):
            yield last_name(changed), node.lineno


def _span(function: _Function) -> tuple[int, int]:
    """Return the lines of the first start of something in a function, and of the first wait after that."""
    ends = (function.end_lineno or function.lineno) + 1
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    begun = min((call.lineno for call in calls if last_name(call.func) == _BEGINS and not call.args), default=ends)
    waited = (call.lineno for call in calls if last_name(call.func) in _ENDS and call.lineno > begun)
    return begun, min(waited, default=ends)


def _read(function: _Function, names: set[str]) -> Iterator[int]:
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and node.attr in names and isinstance(node.ctx, ast.Load):
            yield node.lineno
