"""Values of a clock that something drawn has moved: ``int(time.time()) - rng.randrange(2)``, a result.

In a short run a number of seconds since 1970, or a date, that is a moment of it leaves no doubt, as no result happens
to be one. A program makes one where it adds what it drew to what its clock shows.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from envbuild.verification.dataflow.targets import in_pairs, last_name, stored

_DRAWN = frozenset(("SystemRandom", "default_rng", "randbelow", "sample", "shuffle", "token_bytes", "token_hex"))
"""Calls of which something drawn comes, next to those that ``unmeasured`` knows."""
_ROUNDS = 30


class Shifted:
    """Which values may be moments that something drawn has moved.

    Args:
        nodes: all parts of the program's own sources.
        of_clock: whether an expression may be of a clock.
        drawing: names of calls that draw.
    """

    def __init__(self, nodes: Sequence[ast.AST], of_clock: Callable[[ast.AST], bool], drawing: frozenset[str]) -> None:
        self.nodes = nodes
        self._of_clock, self._drawing = of_clock, drawing | _DRAWN
        self._drawn = self._names(self._draws)
        self._any = any(map(self._draws, nodes))
        self._moved = self._names(self._moves) if self._any else frozenset()

    def may_measure(self, node: ast.AST | None) -> bool:
        """Whether an expression may be such a moment."""
        return node is not None and self._any and _reaches(node, self._moves, self._moved)

    def _draws(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and last_name(node.func) in self._drawing

    def _is_drawn(self, node: ast.AST) -> bool:
        return _reaches(node, self._draws, self._drawn) and not self._of_clock(node)

    def _moves(self, node: ast.AST) -> bool:
        if isinstance(node, ast.IfExp):
            return self._is_drawn(node.test) and (self._of_clock(node.body) or self._of_clock(node.orelse))
        if isinstance(node, ast.BinOp):
            one, other = node.left, node.right
        elif isinstance(node, ast.AugAssign):
            one, other = node.target, node.value
        else:
            return False
        if not isinstance(node.op, ast.Add | ast.Sub):
            return False
        return (self._of_clock(one) and self._is_drawn(other)) or (self._is_drawn(one) and self._of_clock(other))

    def _names(self, asks: Callable[[ast.AST], bool]) -> frozenset[str]:
        """Return the names of variables, attributes and functions that a value reaches."""
        found = {name for node in self.nodes if asks == self._moves for name in self._chosen(node)}
        for _ in range(_ROUNDS):
            before = len(found)
            for node in self.nodes:
                found.update(name for name, value in _given(node) if _reaches(value, asks, found))
                if isinstance(node, ast.AugAssign) and asks(node):
                    found.update(stored(node.target))
            if len(found) == before:
                break
        return frozenset(found)

    def _chosen(self, node: ast.AST) -> Iterator[str]:
        """Yield the names that get a value of a clock in a branch that something drawn decides."""
        if isinstance(node, ast.If) and self._is_drawn(node.test):
            for each in ast.walk(node):
                yield from (name for name, value in _given(each) if self._of_clock(value))


def _given(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield the names that a part of a source gives a value, each with it."""
    match node:
        case ast.Assign(targets=targets, value=value):
            pairs = (pair for target in targets for pair in in_pairs(target, value))
            yield from ((name, part) for target, part in pairs for name in stored(target))
        case ast.AugAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
            yield from ((name, value) for name in stored(target))
        case ast.AnnAssign(target=target, value=value) if value is not None:
            yield from ((name, value) for name in stored(target))
        case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
            yield from ((name, value) for name in stored(target))
        case ast.FunctionDef(name=name):
            yield from ((name, each.value) for each in ast.walk(node) if isinstance(each, ast.Return) and each.value)


def _reaches(node: ast.AST, asks: Callable[[ast.AST], bool], names: frozenset[str] | set[str]) -> bool:
    return any(asks(each) or (last_name(each) in names and not isinstance(each, ast.alias)) for each in ast.walk(node))
