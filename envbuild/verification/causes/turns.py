"""Loops that look, again and again, whether somebody else has come so far: how often they do varies."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from envbuild.verification.dataflow.targets import last_name

_RUNNING = frozenset(("poll", "is_alive", "is_set", "done", "running"))
"""Last names of calls that say whether somebody else still runs, or has said something; ``wait`` with a limit too."""
_THERE = frozenset(("exists", "isfile", "is_file"))
"""The same of files: one looks for what is not there yet; for what is there, a name is sought that is free."""
_NOTHING = frozenset((
    "sleep", "wait", "print", "write", "flush", "join", "debug", "info", "warning", "time", "monotonic", "perf_counter",
    "append", "exit", "format", "len", "RuntimeError", "TimeoutError", "SystemExit",
))  # fmt: skip
"""Last names of calls that a loop may make as often as it likes, and results are the same."""


def loops_that_look(tree: ast.Module) -> Iterator[tuple[int, bool]]:
    """Yield the lines of such loops, each with whether it does something meanwhile but wait and say so."""
    for node in ast.walk(tree):
        if isinstance(node, ast.While) and _looks(node.test):
            yield node.lineno, any(_works(each) for statement in node.body for each in ast.walk(statement))


def _looks(test: ast.expr) -> bool:
    waits = (node for node in ast.walk(test) if isinstance(node, ast.Call) and last_name(node.func) == "wait")
    if any(isinstance(node.func, ast.Attribute) and (node.args or node.keywords) for node in waits):
        return True
    missed = (node.operand for node in ast.walk(test) if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))
    return any(isinstance(node, ast.Call) and last_name(node.func) in _RUNNING for node in ast.walk(test)) or any(
        isinstance(node, ast.Call) and last_name(node.func) in _THERE for node in missed
    )


def _works(node: ast.AST) -> bool:
    return isinstance(node, ast.AugAssign) or (isinstance(node, ast.Call) and last_name(node.func) not in _NOTHING)
