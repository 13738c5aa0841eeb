"""Values behind a time, with a comma or a point between them: ``f"{stamp},{best:03d}"`` looks like milliseconds."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from envbuild.core.patterns import lazy

_MARKS = (",", ".")
_PLACE = lazy(r"%(?:\([^)]*\))?[-+ #0]*(?:[1-9*][\d*]*)?(?:\.[\d*]+)?[a-zA-Z]|\{[^{}]*\}")
"""Where a value comes in a text, by ``%`` or ``format``."""
_OF_SECONDS = lazy(r"%[STXcrfs][,.]\Z")
"""The end of a text by which a time is formatted."""
_IN_LOG = frozenset(("msecs", "created"))
"""Attributes of a log's record of which its time is made."""

_OfClock = Callable[[ast.AST | None], bool]


def is_glued(node: ast.AST, of_clock: _OfClock) -> bool:
    """Whether a part of a source puts a value that no clock gave behind one of a clock, as if it were a part of it.

    Args:
        node: the part.
        of_clock: whether an expression may be of a clock.
    """
    match node:
        case ast.JoinedStr(values=parts):
            return _in_turn(parts, of_clock)
        case ast.BinOp(op=ast.Add()):
            return _in_turn([*_added(node)], of_clock)
        case ast.BinOp(left=ast.Constant(value=str(text)), op=ast.Mod(), right=right):
            return _in_text(text, right.elts if isinstance(right, ast.Tuple) else [right], of_clock)
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format"), args=args):
            return _in_text(text, args, of_clock)
        case ast.Call(
            func=ast.Attribute(value=ast.Constant(value=str(text)), attr="join"),
            args=[ast.List() | ast.Tuple() as given],
        ):
            return text in _MARKS and _behind(given.elts, of_clock)
        case ast.Call(args=args, keywords=keywords):
            marks = (
                each.value.value for each in keywords if each.arg == "sep" and isinstance(each.value, ast.Constant)
            )
            replaced = any(each.arg == "microsecond" and not of_clock(each.value) for each in keywords)
            return (any(mark in _MARKS for mark in marks) and _behind(args, of_clock)) or (
                replaced and isinstance(node.func, ast.Attribute) and of_clock(node.func.value)
            )
        case ast.Attribute(attr=name, ctx=ast.Store()):
            return name in _IN_LOG
    return False


def _added(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a sum of texts; those of f-strings in it one by one."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _added(node.left)
        yield from _added(node.right)
    elif isinstance(node, ast.JoinedStr):
        yield from node.values
    else:
        yield node


def _in_turn(parts: Sequence[ast.AST], of_clock: _OfClock) -> bool:
    """Whether of three parts in a row the first is of a clock, the second a mark, the third none of a clock."""
    for at, part in enumerate(parts[:-1]):
        following = parts[at + 1]
        if isinstance(part, ast.Constant) and at and part.value in _MARKS:
            if of_clock(parts[at - 1]) and _is_value(following) and not of_clock(following):
                return True
        elif of_clock(part) and _ends_in_mark(part) and _is_value(following) and not of_clock(following):
            return True
    return False


def _is_value(node: ast.AST) -> bool:
    return not isinstance(node, ast.Constant)


def _ends_in_mark(node: ast.AST) -> bool:
    """Whether a time is formatted by a text with a mark at its end: ``strftime("%H:%M:%S,")``."""
    texts = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str))
    return any(_OF_SECONDS.search(text) is not None for text in texts)


def _behind(values: Sequence[ast.AST], of_clock: _OfClock) -> bool:
    return any(of_clock(one) and not of_clock(other) for one, other in pairwise(values))


def _in_text(text: str, values: Sequence[ast.AST], of_clock: _OfClock) -> bool:
    between = _PLACE.split(text)[1:-1]
    return any(
        mark in _MARKS and of_clock(one) and not of_clock(other)
        for mark, one, other in zip(between, values, values[1:], strict=False)
    )
