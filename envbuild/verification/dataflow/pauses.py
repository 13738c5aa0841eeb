"""Pauses that a program makes and prints: ``retrying in 0.37 s`` before ``time.sleep(delay)``.

How long a pause is may be drawn, so that it is no measurement, and no experiment distinguishes it from a result. The
sources show it: the number is slept and printed, nothing else is done with it, and it is computed of nothing but
constants, counters and what is drawn for it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence, Set

from envbuild.core.patterns import lazy
from envbuild.verification.dataflow.targets import in_pairs, last_name, stored
from envbuild.verification.dataflow.unmeasured import words_before

_SLEEP = "sleep"
_MODULES = frozenset(("time", "asyncio", "anyio", "trio", "gevent", "eventlet"))
"""Where it comes from."""
_DRAWS = frozenset((
    "betavariate", "choice", "expovariate", "exponential", "gauss", "integers", "lognormvariate", "normalvariate",
    "randbelow", "randint", "random", "randrange", "triangular", "uniform",
))  # fmt: skip
"""Calls that draw a number."""
_COMPUTES = frozenset(("abs", "float", "int", "max", "min", "pow", "round"))
_COUNTS = frozenset(("count", "range"))
_PRINTS = frozenset((
    "critical", "debug", "echo", "error", "exception", "info", "log", "print", "secho", "warn", "warning",
))  # fmt: skip
_SAYS = lazy(
    r"\b(?:retry|retries|retrying|again|wait|waits|waiting|sleep|sleeps|sleeping|slept|pause|pauses|pausing|backoff|backing"
    r"|delay|delaying|cooldown|throttled|throttling|in)\b",
    re.IGNORECASE,
)
"""Words of a line that speaks of a pause."""
_ROUNDS = 10
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def paused_words(trees: Iterable[ast.Module]) -> frozenset[str]:
    """Return words, and pairs of words, that are in texts before pauses, and before nothing else.

    Args:
        trees: all of the program's own sources.
    """
    pauses = _Pauses([*trees])
    if not pauses.names:
        return frozenset()
    words = words_before(pauses)
    others = {
        name
        for node in pauses.nodes
        if (name := node.arg if isinstance(node, ast.arg | ast.keyword) else last_name(node))
        and name not in pauses.names
    }
    found = words.touched - words.untouched - words.elsewhere - others
    return frozenset(each for each in found if each and _SAYS.search(each) is not None)


class _Pauses:
    """Which variables have nothing but pauses that are slept and printed.

    Attributes:
        nodes: all parts of the sources.
        names: of the variables.
    """

    def __init__(self, trees: Sequence[ast.Module]) -> None:
        self.nodes = [node for tree in trees for node in ast.walk(tree)]
        self._above = {id(child): node for node in self.nodes for child in ast.iter_child_nodes(node)}
        self._sleeps = {name for node in self.nodes for name in _imported(node)}
        self._functions: dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]] = {}
        for node in self.nodes:
            if isinstance(node, _FUNCTIONS):
                self._functions.setdefault(node.name, []).append(node)
        self._given: dict[str, list[ast.AST | None]] = {}
        for node in self.nodes:
            for name, value in self._gives(node):
                self._given.setdefault(name, []).append(value)
        self.names: Set[str] = frozenset()
        slept = {
            node.args[0].id
            for node in self.nodes
            if isinstance(node, ast.Call) and self._is_sleep(node) and isinstance(node.args[0], ast.Name)
        }
        if slept:
            self._plain = self._find_plain()
            self.names = frozenset(name for name in slept & self._plain if all(self._uses(name)))
        self._kept = {id(value) for name in self.names for value in self._given[name]}

    def may_measure(self, node: ast.AST | None) -> bool:
        """Whether an expression is such a pause, in another unit perhaps, or what one is computed of."""
        if node is None or id(node) in self._kept:
            return node is not None
        names = [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]
        calls = [each for each in ast.walk(node) if isinstance(each, ast.Call)]
        own = [name for name in names if name in self.names]
        return (
            bool(own)
            and {*names} <= self.names | _COMPUTES
            and all(last_name(each.func) in _COMPUTES for each in calls)
        )

    def _uses(self, name: str) -> Iterator[bool]:
        """Yield of each use of a variable whether it is slept, printed, or made longer there."""
        for node in self.nodes:
            if isinstance(node, ast.Attribute | ast.Global | ast.Nonlocal | ast.arg | ast.keyword):
                names = (
                    node.names
                    if isinstance(node, ast.Global | ast.Nonlocal)
                    else [getattr(node, "attr", "") or getattr(node, "arg", "")]
                )
                if name in names:
                    yield False
            elif isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
                yield self._is_used_up(node)

    def _is_used_up(self, node: ast.Name) -> bool:
        inner: ast.AST = node
        above = self._above[id(node)]
        if isinstance(above, ast.Call) and self._is_sleep(above):
            return True
        while isinstance(above, ast.BinOp | ast.UnaryOp | ast.FormattedValue | ast.JoinedStr | ast.Tuple) or (
            isinstance(above, ast.Call) and above.func is not inner and self._passes(above)
        ):
            inner, above = above, self._above[id(above)]
        if isinstance(above, ast.Assign):
            return [last_name(each) for each in above.targets] == [node.id] and inner is above.value
        return (
            isinstance(above, ast.Call)
            and above.func is not inner
            and last_name(above.func) in _PRINTS
            and isinstance(self._above[id(above)], ast.Expr)
        )

    def _passes(self, call: ast.Call) -> bool:
        """Whether a call gives a number as it is, or a text with it."""
        if isinstance(call.func, ast.Name):
            return call.func.id in _COMPUTES and call.func.id not in self._functions
        return isinstance(call.func, ast.Attribute) and call.func.attr == "format" and _is_text(call.func.value)

    def _is_sleep(self, call: ast.Call) -> bool:
        if len(call.args) != 1 or call.keywords:
            return False
        if isinstance(call.func, ast.Name):
            return call.func.id in self._sleeps
        return (
            isinstance(call.func, ast.Attribute) and call.func.attr == _SLEEP and last_name(call.func.value) in _MODULES
        )

    def _find_plain(self) -> Set[str]:
        """Return the names of variables that have nothing but constants, counters and what was drawn for them."""
        plain = {*self._given}
        for _ in range(_ROUNDS):
            bad = {name for name in plain if not all(self._is_plain(value, plain) for value in self._given[name])}
            if not bad:
                return frozenset(plain)
            plain -= bad
        return frozenset()

    def _is_plain(self, node: ast.AST | None, plain: Set[str]) -> bool:
        """Whether an expression is computed of nothing else; ``plain``: variables that are, as far as is known."""
        match node:
            case ast.Constant(value=value):
                return isinstance(value, int | float)
            case ast.Name() | ast.Attribute():
                return last_name(node) in plain
            case ast.BinOp(left=left, right=right):
                return self._is_plain(left, plain) and self._is_plain(right, plain)
            case ast.UnaryOp(operand=operand):
                return self._is_plain(operand, plain)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return all(self._is_plain(each, plain) for each in parts)
            case ast.Call(func=func, args=args, keywords=keywords):
                given = [*args, *(each.value for each in keywords)]
                name = last_name(func)
                own = self._functions.get(name, [])
                if own:
                    return isinstance(func, ast.Name) and all(
                        self._is_plain(each, plain) for function in own for each in _returned(function)
                    )
                return name in _DRAWS | _COMPUTES | _COUNTS and all(self._is_plain(each, plain) for each in given)
        return False

    def _gives(self, node: ast.AST) -> Iterator[tuple[str, ast.AST | None]]:
        """Yield the names to which a part of the sources gives a value, each with it; None for an unknown one."""
        match node:
            case ast.Assign(targets=targets, value=value):
                for whole in targets:
                    for target, part in in_pairs(whole, value):
                        one = isinstance(target, ast.Name | ast.Attribute)
                        yield from ((name, part if one else None) for name in stored(target))
            case ast.AnnAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
                yield from ((name, value) for name in stored(target) if value is not None)
            case ast.AugAssign(target=target, value=value):
                yield from ((name, value) for name in stored(target))
            case ast.For(target=target, iter=value) | ast.AsyncFor(target=target, iter=value):
                yield from _counted(target, value)
            case ast.comprehension(target=target, iter=value):
                yield from _counted(target, value)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name, None
                yield from self._passed(node)
            case ast.Lambda(args=arguments):
                yield from ((each.arg, None) for each in ast.walk(arguments) if isinstance(each, ast.arg))
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                yield from ((alias.asname or alias.name, None) for alias in names)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.ClassDef(name=name):
                yield name, None
            case ast.withitem(optional_vars=ast.AST() as target):
                yield from ((name, None) for name in stored(target))

    def _passed(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, ast.AST | None]]:
        """Yield the parameters of a function, with what it is called with and its defaults."""
        given = function.args
        names = [each.arg for each in (*given.posonlyargs, *given.args)]
        others = [each.arg for each in (*given.kwonlyargs, given.vararg, given.kwarg) if each is not None]
        yield from ((name, None) for name in others)
        defaults = [None] * (len(names) - len(given.defaults)) + [*given.defaults]
        calls = [node for node in self.nodes if isinstance(node, ast.Call) and last_name(node.func) == function.name]
        called = {id(call.func) for call in calls if isinstance(call.func, ast.Name)}
        known = (
            not function.decorator_list
            and len(self._functions[function.name]) == 1
            and all(
                id(node) in called
                for node in self.nodes
                if isinstance(node, ast.Name | ast.Attribute) and last_name(node) == function.name
            )
        )
        for call in calls:
            known = (
                known
                and not any(isinstance(each, ast.Starred) for each in call.args)
                and all(each.arg for each in call.keywords)
            )
        for at, (name, default) in enumerate(zip(names, defaults, strict=True)):
            if not known or not calls:
                yield name, None
            if default is not None:
                yield name, default
            for call in calls if known else ():
                value = (
                    call.args[at]
                    if at < len(call.args)
                    else next((each.value for each in call.keywords if each.arg == name), None)
                )
                if value is not None:
                    yield name, value


def _counted(target: ast.AST, value: ast.AST) -> Iterator[tuple[str, ast.AST | None]]:
    """Yield the variables of a loop, with what is counted if one is a number that is counted upwards."""
    if isinstance(target, ast.Name) and isinstance(value, ast.Call) and last_name(value.func) in _COUNTS:
        yield target.id, value
        return
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    counts = isinstance(value, ast.Call) and last_name(value.func) == "enumerate" and len(parts) > 1
    for at, part in enumerate(parts):
        yield from ((name, ast.Constant(value=0) if counts and not at else None) for name in stored(part))


def _returned(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST | None]:
    """Yield what a function returns; None where that is not one value, or it does more than to compute it."""
    found = [each for each in ast.walk(function) if isinstance(each, ast.Return | ast.Yield | ast.YieldFrom)]
    if not found:
        yield None
    yield from (each.value if isinstance(each, ast.Return) else None for each in found)


def _imported(node: ast.AST) -> Iterator[str]:
    """Yield the names under which a part of the sources imports ``sleep``."""
    if isinstance(node, ast.ImportFrom) and node.module in _MODULES:
        yield from (alias.asname or alias.name for alias in node.names if alias.name == _SLEEP)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def are_of_pauses(labels: Iterable[str], paused: Set[str]) -> bool:
    """Whether all words that name numbers are of pauses; a pair of words counts as its last one.

    Args:
        labels: the last words before numbers, and the last two, as ``label_before`` and ``pair_before`` return them.
        paused: what ``paused_words`` returned.
    """
    found = {*labels} - {""}
    pairs = {each for each in found if " " in each}
    ends = {each.rpartition(" ")[2] for each in pairs}
    return bool(found) and all(each in paused for each in pairs | (found - pairs - ends))
