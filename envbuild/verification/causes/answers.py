"""What a program takes of others as far as these have come, and what an answer says of the time: beyond plain calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from envbuild.verification.dataflow.targets import last_name, written

CLIENT = ".client_address"
NO_NAME = "bind to no name"
POLLED = "poll() and recv()"
POLLED_PROGRAM = "poll() of a program"
DATED_ANSWER = "headers Date"
SLOW_CALLBACKS = "slow_callback_duration ="
_TAKES = frozenset(("recv", "recv_bytes"))
_HEADERS = frozenset(("headers", "getheaders", "info"))


def polled(tree: ast.Module) -> Iterator[int]:
    """Yield the lines that take from a pipe what has come by then, and go on if nothing has (``if pipe.poll():``)."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.If | ast.IfExp | ast.While):
            continue
        asked = {
            written(each.func.value): each.lineno
            for each in ast.walk(node.test)
            if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr == "poll"
            if not each.args or getattr(each.args[0], "value", None) in (0, 0.0)
        }
        taken = {
            written(each.func.value)
            for each in ast.walk(node)
            if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr in _TAKES
        }
        yield from (line for name, line in asked.items() if name and name in taken)


def polled_programs(tree: ast.Module) -> Iterator[int]:
    """Yield the lines that do one thing or another by whether a program has ended; waiting loops are no such lines."""
    above = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "poll"):
            continue
        test, parent = node, above.get(node)
        while isinstance(parent, ast.Compare | ast.BoolOp | ast.UnaryOp):
            test, parent = parent, above.get(parent)  # type: ignore[assignment] # each of them is an expression
        if isinstance(parent, ast.If) and parent.test is test:
            if not isinstance(parent.body[0], ast.Raise) and isinstance(above.get(node), ast.Compare):
                yield node.lineno
        elif isinstance(parent, ast.comprehension) and test in parent.ifs:
            yield node.lineno


def dates_of_answers(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield what takes the moment at which a server answered: ``answer.headers["Date"]``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and last_name(node.value) in _HEADERS and _is_date(node.slice):
            yield node
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            of_headers = node.func.attr == "get" and last_name(_called(node.func.value)) in _HEADERS
            if (of_headers or node.func.attr == "getheader") and _is_date(node.args[0]):
                yield node


def addresses_of_clients(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield what uses the address of a client with its port; ``self.client_address[0]`` is the host alone."""
    hosts = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript) and getattr(node.slice, "value", None) == 0
    }
    for node in ast.walk(tree):
        named = isinstance(node, ast.Attribute) and node.attr == "client_address" and id(node) not in hosts
        if named and isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield node


def bound_to_no_name(tree: ast.Module) -> Iterator[int]:
    """Yield the lines that bind a local socket to an empty name."""
    for node in ast.walk(tree):
        given = node.args if isinstance(node, ast.Call) and last_name(node.func) == "bind" else []
        if len(given) == 1 and getattr(given[0], "value", None) in ("", b""):
            yield given[0].lineno


def limits_of_callbacks(tree: ast.Module) -> Iterator[int]:
    """Yield the lines that say from which duration an event loop complains of a callback."""
    for node in ast.walk(tree):
        limit = isinstance(node, ast.Attribute) and node.attr == "slow_callback_duration"
        if limit and isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno


def _called(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


def _is_date(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and str(node.value).lower() == "date"
