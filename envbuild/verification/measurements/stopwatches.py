"""Durations that a program puts into lists and tuples without a name: ``(epoch, loss, time() - began)``.

No experiment distinguishes a weight that is a duration from a duration, so that one without a name is a result, unless
the sources show what it is. They do if one reading of a clock less another one is such an item, if no other item is
computed of a clock, and if all variables that may have a value of a clock have names that allow for a time.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set

from envbuild.verification.dataflow.measuring import of_clock
from envbuild.verification.dataflow.targets import in_pairs, last_name
from envbuild.verification.measurements.labels import names_time, says_nothing

_READING = frozenset((
    "default_timer", "monotonic", "monotonic_ns", "now", "perf_counter", "perf_counter_ns", "process_time",
    "process_time_ns", "thread_time", "time", "time_ns", "utcnow",
))  # fmt: skip
"""Calls that read a clock."""
_SAME = frozenset(("float", "round"))
"""Functions that give what they got."""
_ITEMS = frozenset(("append", "appendleft"))
"""Functions to which an item is given without a name."""
_SIMPLE = (
    ast.Tuple, ast.List, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.DictComp, ast.JoinedStr, ast.Constant,
    ast.Name, ast.Attribute, ast.Starred, ast.Subscript,
)  # fmt: skip
_ROUNDS = 10


def shows_durations(sources: Mapping[str, str]) -> bool:
    """Whether durations are items without a name, and nothing else that a clock gave can be taken for one.

    Args:
        sources: all Python files of the program, by path.
    """
    flow = of_clock(sources)
    if flow is None:
        return False
    readings = _Readings(flow.nodes)
    if not all(name in readings.names or readings.may_keep(name) for name in flow.names):
        return False
    items = [item for node in flow.nodes for item in _items(node) if flow.of_clock(item)]
    durations = [item for item in items if readings.are_subtracted(item)]
    return bool(durations) and all(
        readings.are_subtracted(item) or readings.is_one(item) or not readings.is_computed(item) for item in items
    )


class _Readings:
    """Which variables have readings of a clock, and which what is between two of them.

    Attributes:
        names: of those with readings alone.
    """

    def __init__(self, nodes: Sequence[ast.AST]) -> None:
        self._given: dict[str, list[ast.AST | None]] = {}
        for node in nodes:
            for name, value in _stores(node):
                self._given.setdefault(name, []).append(value)
        self._functions = {each.name for each in nodes if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
        self.names: Set[str] = frozenset()
        self.names = self._all(self.is_one, lambda found: setattr(self, "names", found))
        self._durations: Set[str] = frozenset()
        self._all(self.are_subtracted, lambda found: setattr(self, "_durations", found))

    def is_one(self, node: ast.AST | None) -> bool:
        """Whether an expression is a reading of a clock."""
        if isinstance(node, ast.Call):
            return last_name(node.func) in _READING and not node.args
        return node is not None and last_name(node) in self.names

    def are_subtracted(self, node: ast.AST | None) -> bool:
        """Whether an expression is one reading less another one, rounded perhaps."""
        match node:
            case ast.BinOp(left=left, op=ast.Sub(), right=right):
                return self.is_one(left) and self.is_one(right)
            case ast.Call(func=ast.Name(id=name), args=[first, *_]) if name in _SAME:
                return self.are_subtracted(first)
            case ast.Call(func=ast.Attribute(value=value, attr="total_seconds")):
                return self.are_subtracted(value)
            case ast.Name() | ast.Attribute():
                return last_name(node) in self._durations
        return False

    def is_computed(self, node: ast.AST) -> bool:
        """Whether an expression is no container, text, name or own function: these are looked at elsewhere."""
        if isinstance(node, ast.Call):
            return last_name(node.func) not in self._functions
        return not isinstance(node, _SIMPLE)

    def may_keep(self, name: str) -> bool:
        """Whether a name allows for a time: that of a list of several things need not say so."""
        if names_time(name):
            return True
        given = self._given.get(name, ())
        kept = all(isinstance(each, ast.List | ast.Dict | ast.Tuple | ast.ListComp | None) for each in given)
        return kept and says_nothing(name)

    def _all(self, asks: Callable[[ast.AST | None], bool], keep: Callable[[Set[str]], None]) -> Set[str]:
        """Return the names all of whose values are such; ``keep`` gets what is known so far."""
        found: Set[str] = frozenset()
        for _ in range(_ROUNDS):
            known = frozenset(name for name, values in self._given.items() if values and all(map(asks, values)))
            keep(known)
            if known == found:
                break
            found = known
        return found


def _stores(node: ast.AST) -> Iterator[tuple[str, ast.AST | None]]:
    """Yield the names to which a part of a source gives a value, each with it; None for one that is not known."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for whole in targets:
                for target, part in in_pairs(whole, value):
                    if isinstance(target, ast.Tuple | ast.List | ast.Starred):
                        yield from ((name, None) for name in _names(target))
                    elif name := last_name(target):
                        yield name, part
        case ast.AnnAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
            if value is not None:
                yield from ((name, value) for name in _names(target))
        case ast.AugAssign(target=target) | ast.For(target=target) | ast.AsyncFor(target=target):
            yield from ((name, None) for name in _names(target))
        case ast.comprehension(target=target) | ast.withitem(optional_vars=ast.AST() as target):
            yield from ((name, None) for name in _names(target))
        case ast.arg(arg=name) | ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            yield name, None
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name, None


def _names(target: ast.AST) -> Iterable[str]:
    return [
        name for each in ast.walk(target) if isinstance(each, ast.Name | ast.Attribute) and (name := last_name(each))
    ]


def _items(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what a part of a source puts into a list or a tuple, or returns, by itself."""
    match node:
        case ast.Tuple(elts=found, ctx=ast.Load()) | ast.List(elts=found, ctx=ast.Load()) | ast.Set(elts=found):
            yield from found
        case ast.ListComp(elt=item) | ast.GeneratorExp(elt=item) | ast.SetComp(elt=item):
            yield item
        case ast.Call(func=func, args=found) if last_name(func) in _ITEMS:
            yield from found
        case ast.Return(value=ast.AST() as item) | ast.Yield(value=ast.AST() as item):
            yield item
