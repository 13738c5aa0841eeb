"""What a program does with a value that it got by a call, as far as one file shows it: seeds with it, or prints it.

A time that is only printed makes no number another one, and a time that becomes a seed makes all of them others.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Literal

from envbuild.core.patterns import lazy
from envbuild.verification.dataflow.targets import last_name, number_of, numbers

Use = Literal["", "printed", "seed", "waited", "unused", "decides"]

_SEEDING = frozenset(
    [
        *("seed", "manual_seed", "manual_seed_all", "set_seed", "set_random_seed", "from_seed", "seed_everything"),
        *("default_rng", "RandomState", "SeedSequence", "Random", "Generator", "PCG64", "Philox", "MT19937", "SFC64"),
        *("PRNGKey", "key", "fold_in", "SeedGenerator"),
    ]
)
"""Functions, by the last part of their name, whose argument is a seed."""
_PRINTING = frozenset(
    ["print", "debug", "info", "warning", "error", "log", "write", "set_postfix", "set_description", "strftime"]
)
"""Functions, by the last part of their name, whose arguments are shown to somebody."""
_WAITING = frozenset(("sleep",))
"""Functions, by the last part of their name, that wait as long as their argument says."""
_THROUGH = frozenset(("round", "int", "float", "str", "abs", "max", "min", "format", "repr", "timedelta", "from_bytes"))
"""Functions that give what they got in another form."""
_MATHS = _THROUGH | {
    "exp",
    "log",
    "sqrt",
    "cos",
    "sin",
    "pow",
    "power",
    "tanh",
    "floor",
    "ceil",
    "clip",
    "total_seconds",
}
"""And those that compute another number of it."""
_SETTING = lazy(
    r"(?:\w+_)?(?:lrs?|learning_?rate|step_?size|decay|momentum|temperature|dropout|noise|batch_?size|clip|beta)(?:_\w+)?",
    re.IGNORECASE,
)
"""Names of what training depends on."""
_SCHEDULE = lazy(r"schedul|decay|anneal|warm_?up", re.IGNORECASE)
"""In names of classes that give such a setting when they are called."""
_LEAVES = (ast.Break, ast.Return, ast.Raise)
_SAME = (
    ast.BinOp, ast.UnaryOp, ast.FormattedValue, ast.Tuple, ast.List, ast.Dict, ast.keyword, ast.Attribute,
    ast.Subscript, ast.Starred, ast.IfExp,
)  # fmt: skip


class Uses:
    """Where the values of a file go, and which numbers its names have."""

    def __init__(self, tree: ast.Module) -> None:
        self._parents: Mapping[ast.AST, ast.AST] = {
            child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)
        }
        self._numbers = numbers(tree)
        self._loads: dict[str, list[ast.Name]] = {}
        self._attributes: dict[str, list[ast.Attribute]] = {}
        for node in self._parents:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self._loads.setdefault(node.id, []).append(node)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                self._attributes.setdefault(node.attr, []).append(node)

    def of(self, value: ast.expr) -> Use:
        """Return what becomes of a value: empty for anything that is not one of these alone."""
        if self._seeds(value):
            return "seed"
        if self._goes_to(_PRINTING, value, {}, texts=True):
            return "printed"
        if self._goes_to(_WAITING, value, {}, texts=False):
            return "waited"
        if self._decides(value):
            return "decides"
        return "unused" if self._unused(value) else ""

    def number(self, value: ast.expr) -> float | None:
        """Return the number that a constant is, or a name that has one and nothing else; None for anything else."""
        return self._numbers.get(value.id) if isinstance(value, ast.Name) else number_of(value)

    def is_dropped(self, value: ast.expr) -> bool:
        """Whether nothing takes a value: it is a statement by itself."""
        return isinstance(self._parents.get(value), ast.Expr)

    def is_given_to(self, value: ast.expr, functions: Collection[str]) -> bool:
        """Whether a value is in an argument of a call of a function, by its last name."""
        child, parent = value, self._parents.get(value)
        while parent is not None and not isinstance(parent, ast.stmt):
            if isinstance(parent, ast.Call) and child is not parent.func and last_name(parent.func) in functions:
                return True
            child, parent = parent, self._parents.get(parent)  # type: ignore[assignment] # an expression within one
        return False

    def is_tried_again(self, call: ast.Call) -> bool:
        """Whether a call is made again if it takes too long: what is done then begins a loop anew, and no more."""
        child: ast.AST = call
        parent = self._parents.get(call)
        while parent is not None and not isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            if isinstance(parent, ast.Try) and child in parent.body:
                return bool(parent.handlers) and all(
                    isinstance(each.body[0], ast.Continue) and len(each.body) == 1 for each in parent.handlers
                )
            child, parent = parent, self._parents.get(parent)
        return False

    def _unused(self, value: ast.expr) -> bool:
        """Whether a value is bound to a local name that nothing reads, and made by calls on the way."""
        parent: ast.AST | None = value
        while parent is not None and not isinstance(parent, ast.stmt):
            if isinstance(parent, ast.NamedExpr | ast.Lambda | ast.comprehension):
                return False
            parent = self._parents.get(parent)
        names = _bound(parent) if isinstance(parent, ast.Assign) else []
        return bool(names) and not any(self._loads_of(name) for name in names)

    def _seeds(self, value: ast.AST) -> bool:
        """Whether a value reaches a seed, through names of the file too."""
        left, seen = [value], set[str]()
        while left:
            child = left.pop()
            parent = self._parents.get(child)
            while parent is not None and not isinstance(parent, ast.stmt):
                if isinstance(parent, ast.Call) and child is not parent.func and _last(parent) in _SEEDING:
                    return True
                child, parent = parent, self._parents.get(parent)
            names = {*_bound(parent)} - seen
            seen |= names
            left += (load for name in names for load in self._loads_of(name))
        return False

    def _goes_to(self, functions: frozenset[str], node: ast.AST, known: dict[str, bool], *, texts: bool) -> bool:
        """Whether a value is given to functions, or becomes part of a text where ``texts`` says so, and no more.

        ``known``: the same of names that were followed before; not of one that gets its value of itself.
        """
        child, parent = node, self._parents.get(node)
        while parent is not None and not isinstance(parent, ast.stmt):
            if isinstance(parent, ast.JoinedStr):
                return texts
            if isinstance(parent, ast.Call):
                if child is parent.func:
                    pass  # a method of it: (a - b).total_seconds()
                elif _last(parent) in functions:
                    return True
                elif _last(parent) not in _THROUGH:
                    return False
            elif not isinstance(parent, _SAME) or (isinstance(parent, ast.IfExp) and child is parent.test):
                return False
            child, parent = parent, self._parents.get(parent)
        names = _bound(parent)
        for name in names:
            if name not in known:
                known[name] = False
                loads = self._loads_of(name)
                known[name] = all(self._goes_to(functions, load, known, texts=texts) for load in loads)
        return any(self._loads_of(name) for name in names) and all(known[name] for name in names)

    def _decides(self, value: ast.AST) -> bool:
        """Whether a value, or a number computed of it, ends a loop or becomes a setting of a training."""
        left, seen = [value], set[str]()
        while left:
            onward = self._goes_on(left.pop(), seen)
            if onward is None:
                return True
            left += onward
        return False

    def _goes_on(self, node: ast.AST, seen: set[str]) -> list[ast.AST] | None:
        """Return where a value is used next; None if it decides something.

        ``seen``: names, attributes and functions that were followed before, to which others are added.
        """
        child, parent, place = node, self._parents.get(node), None
        while parent is not None and not isinstance(parent, ast.stmt):
            if isinstance(parent, ast.Tuple):
                place = parent.elts.index(child) if child in parent.elts else None
            if isinstance(parent, ast.keyword) and _SETTING.fullmatch(parent.arg or ""):
                return None
            if isinstance(parent, ast.Call) and child is not parent.func and _last(parent) not in _MATHS:
                return []
            if isinstance(parent, ast.JoinedStr | ast.Lambda | ast.Dict | ast.List):
                return []
            child, parent = parent, self._parents.get(parent)
        if isinstance(parent, ast.While) and child is parent.test:
            return [] if _waits(parent) else None
        if isinstance(parent, ast.If) and child is parent.test:
            return None if any(isinstance(each, _LEAVES) for each in parent.body) else []
        if isinstance(parent, ast.Return):
            return self._returned(parent, seen)
        return self._named(parent, seen, place)

    def _named(self, statement: ast.AST | None, seen: set[str], place: int | None) -> list[ast.AST] | None:
        """Return the uses of what a statement gives a value to, as ``_goes_on``; ``place``: in a tuple of values."""
        onward: list[ast.AST] = []
        for target in _targets(statement, place):
            name = _name_of(target)
            if _SETTING.fullmatch(name):
                return None
            own = isinstance(target, ast.Name)
            key = name if own else f".{name}"
            if not name or key in seen or isinstance(target, ast.Subscript):
                continue
            seen.add(key)
            onward += self._loads_of(name) if own else self._attributes.get(name, [])
        return onward

    def _returned(self, statement: ast.Return, seen: set[str]) -> list[ast.AST] | None:
        """Return the calls of a function, as ``_goes_on``; None if its name or that of its class is of a setting."""
        above = self._parents.get(statement)
        while above is not None and not isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            above = self._parents.get(above)
        if not isinstance(above, ast.FunctionDef) or f"{above.name}()" in seen:
            return []
        seen.add(f"{above.name}()")
        owner = self._parents.get(above)
        if isinstance(owner, ast.ClassDef) and above.name in ("__call__", "step") and _SCHEDULE.search(owner.name):
            return None
        if _SETTING.fullmatch(above.name):
            return None
        called = [*self._loads_of(above.name), *self._attributes.get(above.name, [])]
        calls = [(load, self._parents.get(load)) for load in called]
        return [call for load, call in calls if isinstance(call, ast.Call) and call.func is load]

    def _loads_of(self, name: str) -> list[ast.Name]:
        return self._loads.get(name, [])


def _bound(statement: ast.AST | None) -> list[str]:
    """Return the names that an assignment gives its value to; none for other statements, and other targets."""
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign | ast.AugAssign):
        targets = [statement.target]
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return names if len(names) == len(targets) else []


def _targets(statement: ast.AST | None, place: int | None) -> Iterator[ast.expr]:
    """Yield what a statement gives its value to, or the value at a place of a tuple."""
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Tuple) and place is not None:
                yield from target.elts[place : place + 1]
            else:
                yield target
    elif isinstance(statement, ast.AnnAssign | ast.AugAssign):
        yield statement.target


def _name_of(target: ast.expr) -> str:
    """Return the name, the attribute or the key of a target; empty for another one."""
    if isinstance(target, ast.Subscript):
        return str(getattr(target.slice, "value", ""))
    return target.id if isinstance(target, ast.Name) else target.attr if isinstance(target, ast.Attribute) else ""


def _waits(loop: ast.While) -> bool:
    """Whether a loop does nothing but wait for something, at most for some time."""
    return any(isinstance(node, ast.Call) and _last(node) in _WAITING for node in ast.walk(loop))


def _last(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""
