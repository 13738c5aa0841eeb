"""Words before values that no clock gave: ``tokens_per_second`` of a program that draws it and times something else.

Names are followed through the sources, wherever they are and whatever they mean there: one that may have got a value
from a clock, or that was changed for how long, or how often, something was done, may be a measurement everywhere. What
is missed on that way makes experiments for nothing; what is followed too far leaves a number out, as its name has it.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import TYPE_CHECKING, NamedTuple, Protocol

from envbuild.core.patterns import lazy
from envbuild.verification.dataflow.fields import named_by_place
from envbuild.verification.dataflow.glued import is_glued
from envbuild.verification.dataflow.shifted import Shifted
from envbuild.verification.dataflow.targets import base_name, in_pairs, last_name, stored

if TYPE_CHECKING:
    from envbuild.verification.dataflow.measuring_names import Table

_CONCURRENT = frozenset((
    "_thread", "asyncio", "concurrent", "multiprocessing", "queue", "sched", "select", "selectors", "signal", "socket",
    "threading",
))  # fmt: skip
"""Modules by which the time decides what is done, though nothing asks for it."""
_SEEDED = frozenset((
    "Generator", "MT19937", "PCG64", "PRNGKey", "Philox", "Random", "RandomState", "SeedSequence", "default_rng", "key",
    "manual_seed", "seed",
))  # fmt: skip
"""Calls that take a time as a seed: what they give, or what is drawn later, measures none."""
_DRAWING = frozenset((
    "betavariate", "bernoulli", "binomial", "choice", "choices", "expovariate", "exponential", "gammavariate", "gauss",
    "getrandbits", "integers", "laplace", "lognormal", "lognormvariate", "multinomial", "normal", "normalvariate",
    "paretovariate", "permutation", "poisson", "rand", "randbytes", "randint", "randn", "random", "random_sample",
    "randrange", "standard_normal", "triangular", "uniform", "urandom", "weibullvariate",
))  # fmt: skip
"""Calls that draw: what they give is no time, whatever the generator came from, unless they draw of times."""
_WRITING = frozenset((
    "append", "critical", "debug", "dump", "dumps", "echo", "error", "info", "log", "save", "savetxt", "warning",
    "write", "write_text", "writelines", "writerow", "writerows",
))  # fmt: skip
"""Calls by which a value comes out, with no word before it if there is none in the call."""
_NEEDED, _OF_OS = frozenset(("time",)), frozenset(("times", "getloadavg"))
_BUILTIN = frozenset(dir(builtins))
_WORD = lazy(r"[A-Za-z_]\w*")
_PAIR = lazy(r"([A-Za-z_]\w{0,99}) +([A-Za-z_]\w{0,99})[^A-Za-z_]{0,99}\Z")
_NEAR = 256
"""Characters in which the two words before a value are."""
_DAY = lazy(
    r"(?:(?<![A-Za-z])(?:mon|tue|wed|thu|fri|sat|sun|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}[.,]?"
    r" *|(?<!\d)\d{1,2},? +)+\Z",
    re.IGNORECASE,
)
"""What of a date is before its time of day, or its year: ``Sat Nov 28 18:01:22 2026``."""
_LONGEST_DAY = 40
"""Characters in which that is looked for: rows of small numbers look like it for as long as they are."""
_PAIRS = lazy(r"(?=\b([A-Za-z_]\w*) +([A-Za-z_]\w*))")
_PLACE = lazy(r"%(?:\([^)]*\))?[-+ #0]*[\d*]*(?:\.[\d*]+)?[a-zA-Z]|\{[^{}]*\}")
"""Where a value comes in a text, by ``%`` or ``format``."""
_ROUNDS = 30
_MOST = 50_000
"""Parts of sources that are followed."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def label_before(text: str) -> str:
    """Return the last word of a text, which names the value behind it; empty if it has none."""
    found = _WORD.findall(text)
    return found[-1] if found else ""


def labels_of_moment(text: str) -> frozenset[str]:
    """Return the last word of a text before a date or a time of day, and the last but for words of the date itself.

    Both may be the label: words begin as names of days and months do, such as ``monitor``.
    """
    near, date = text[-_NEAR:-_LONGEST_DAY], text[-_LONGEST_DAY:]
    return frozenset((label_before(text), label_before(near + _DAY.sub("", date))))


def pair_before(text: str) -> str:
    """Return the last two words of a text, as ``train time``, if nothing but blanks is between them; else nothing."""
    found = _PAIR.search(text[-_NEAR:])
    return " ".join(found.groups()) if found is not None else ""


class Words(NamedTuple):
    """Words, in texts and as keys, before values.

    Attributes:
        unmeasured: that no clock and no measure of memory gave.
        shifted: of a clock to which something drawn was added; empty for those with no word before them.
        glued: a value that no clock gave is put behind one of a clock, with a point or a comma between them.
    """

    unmeasured: frozenset[str] = frozenset()
    shifted: frozenset[str] = frozenset()
    glued: bool = False


def unmeasured_words(trees: Iterable[ast.Module], own: Set[str], table: Table) -> Words:
    """Return the words before values that no clock, and no measure of memory, gave.

    Args:
        trees: the program's own sources.
        own: names by which they are imported.
        table: what measures.
    """
    flow = _Flow([*trees], own, table)
    if len(flow.nodes) > _MOST or not flow.follow():
        return Words()
    words, moved = _Words(flow), _Words(Shifted(flow.nodes, flow.may_measure, _DRAWING))
    unmeasured = words.untouched - words.touched - words.elsewhere - flow.named() - {""}
    glued = any(is_glued(node, flow.may_measure) for node in flow.nodes)
    return Words(frozenset(unmeasured), frozenset(moved.touched), glued)


class Follows(Protocol):
    """Follows values of one kind through sources."""

    @property
    def nodes(self) -> Sequence[ast.AST]:
        """All parts of the sources."""

    def may_measure(self, node: ast.AST | None) -> bool:
        """Whether an expression may have one."""


def words_before(flow: Follows) -> _Words:
    """Return the words before values of one kind, before others, and those that are before none."""
    return _Words(flow)


class Followed(NamedTuple):
    """What may be of a clock: all parts of the sources, what asks that of an expression, and names of variables."""

    nodes: list[ast.AST]
    of_clock: Callable[[ast.AST | None], bool]
    names: Set[str]


def followed(trees: Iterable[ast.Module], own: Set[str], table: Table) -> Followed | None:
    """Follow values of a clock through sources; None if that takes too long. Arguments as of ``unmeasured_words``."""
    flow = _Flow([*trees], own, table)
    if len(flow.nodes) > _MOST or not flow.follow():
        return None
    return Followed(flow.nodes, flow.may_measure, flow.named())


class _Flow:
    """What may have come from a clock, by name.

    Attributes:
        nodes: all parts of the sources.
        touched: names of variables, attributes and functions.
    """

    def __init__(self, trees: list[ast.Module], own: Set[str], table: Table) -> None:
        self._own, self._table = own, table
        self._asked = {name for asks in table.asks.values() for name in asks.names} - _drawing(table)
        self._called = {name for asks in table.asks.values() for name in asks.called}
        self.nodes = [node for tree in trees for node in ast.walk(tree)]
        self._defined: dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]] = {}
        self._modules: set[str] = set()
        self._of_class = {
            id(part): node.name for node in self.nodes if isinstance(node, ast.ClassDef) for part in node.body
        }
        for node in self.nodes:
            if isinstance(node, _FUNCTIONS):
                name = self._of_class.get(id(node), node.name) if node.name == "__init__" else node.name
                self._defined.setdefault(name, []).append(node)
        self.touched: set[str] = {name for node in self.nodes for name in self._imported(node)}
        self._calls = [node for node in self.nodes if isinstance(node, ast.Call)]
        self._alone = {id(node.value) for node in self.nodes if isinstance(node, ast.Expr)}
        self.touched |= {name for each in self._unknown_calls() for name in each}
        self._regions: set[int] = set()

    def follow(self) -> bool:
        """Follow values until nothing more is found; False if that takes too long."""
        for _ in range(_ROUNDS):
            before = len(self.touched), len(self._regions)
            for node in self.nodes:
                self._visit(node)
            if before == (len(self.touched), len(self._regions)):
                return True
        return False

    def named(self) -> set[str]:
        """Return the names of what may be of a clock, but for those that modules and imported functions alone have.

        A value may come out under the name of its variable, attribute or parameter. ``time`` is none of these after
        ``import time``, nor after ``from time import time``, where it is only called.
        """
        bases = {id(node.value) for node in self.nodes if isinstance(node, ast.Attribute)}
        bases |= {id(call.func) for call in self._calls}
        imported, others = {*self._modules}, {*self._defined}
        for node in self.nodes:
            match node:
                case ast.Name(id=name) if id(node) not in bases or not isinstance(node.ctx, ast.Load):
                    others.add(name)
                case ast.Attribute(value=value, attr=name) if last_name(value) not in self._modules:
                    others.add(name)
                case ast.arg(arg=str(name)) | ast.keyword(arg=str(name)):
                    others.add(name)
                case ast.ImportFrom(names=names, level=0):
                    imported.update(alias.asname or alias.name for alias in names)
        return self.touched - (imported - others)

    def may_measure(self, node: ast.AST | None) -> bool:
        """Whether an expression may be of a clock."""
        if node is None:
            return False
        left = [node]
        while left:
            each = left.pop()
            if self._asks(each):
                return True
            left += self._parts(each)
        return False

    def _parts(self, node: ast.AST) -> Iterable[ast.AST]:
        """Return the parts of an expression that its value is computed of."""
        name = last_name(node.func) if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Call) and name in _SEEDED:
            return [node.func]
        if isinstance(node, ast.Call) and name in _DRAWING and name not in self._defined:
            return [*node.args, *(each.value for each in node.keywords)]
        return ast.iter_child_nodes(node)

    def _asks(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Call):
            return last_name(node.func) in self._called
        if isinstance(node, ast.Constant):
            return isinstance(node.value, str) and node.value.startswith(self._table.paths)
        if isinstance(node, ast.Attribute):
            of_system = node.attr in _OF_OS and last_name(node.value) == "os"
            return of_system or node.attr in self.touched or node.attr in self._asked or node.attr in self._table.runs
        return isinstance(node, ast.Name) and (
            node.id in self.touched or node.id in self._asked or node.id in self._table.builtins
        )

    def _imported(self, node: ast.AST) -> Iterator[str]:
        """Yield the names that an import binds to what measures, or to what nothing is known of."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.partition(".")[0]
                self._modules.add(bound)
                yield from [bound] if self._measures(alias.name) else ()
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            every = self._measures(node.module)
            for alias in node.names:
                if every or alias.name in self._asked or self._measures(f"{node.module}.{alias.name}", alone=True):
                    yield alias.asname or alias.name

    def _measures(self, module: str, *, alone: bool = False) -> bool:
        table, first = self._table, module.partition(".")[0]
        if first in self._own:
            return False
        if alone:
            return module in table.running
        asked = any(first in asks.modules for kind, asks in table.asks.items() if kind != "names")
        known = first in sys.stdlib_module_names or first in table.libraries
        return not known or asked or first in _CONCURRENT | _NEEDED or bool({first, module} & table.running)

    def _unknown_calls(self) -> Iterator[list[str]]:
        """Yield the parameters of functions that something else may call, with what nothing shows."""
        called = {id(call.func) for call in self._calls}
        used, passed = set[str](), set[str]()
        for node in self.nodes:
            if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                (used if id(node) in called else passed).add(last_name(node))
        for name, functions in self._defined.items():
            for each in functions:
                if name in passed or name not in used or each.decorator_list:
                    yield _parameters(each)

    def _visit(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                self._store(targets, value)
            case ast.AugAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
                self._store([target], value)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                self._store([target], value)
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                self._store([node.target], node.iter)
            case ast.withitem(context_expr=value, optional_vars=target) if target is not None:
                self._store([target], value)
            case ast.Call():
                self._visit_call(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._visit_function(node)
        if isinstance(node, (*_LOOPS, ast.If, ast.Try)):
            self._visit_branch(node)

    def _store(self, targets: Iterable[ast.AST], value: ast.AST) -> None:
        for whole in targets:
            for target, part in in_pairs(whole, value):
                if self.may_measure(part):
                    self.touched.update(stored(target))

    def _visit_call(self, call: ast.Call) -> None:
        """A call with a time may keep it: in its object, in what its function gets, and under its keywords."""
        name = last_name(call.func)
        given = [*call.args, *(each.value for each in call.keywords)]
        own = self._defined.get(name, ())
        by_time = any(map(self.may_measure, given))
        if own and (by_time or self.may_measure(call.func)):
            self.touched.update(word for each in own for word in _parameters(each))
        if not by_time or name in _SEEDED:
            return
        self.touched.update(each.arg for each in call.keywords if each.arg and self.may_measure(each.value))
        if isinstance(call.func, ast.Attribute) and (base := base_name(call.func.value)) not in self._modules:
            self.touched.update([base] if base else [])
        if own and name not in _BUILTIN:
            self.touched.update(base for each in given if (base := base_name(each)) and base not in self._modules)
        elif not own:
            self.touched.update(self._put(call, name))

    def _put(self, call: ast.Call, name: str) -> Iterator[str]:
        """Yield what a function that is not the program's puts a time into: ``setattr`` and ``heapq.heappush``."""
        if name == "setattr" and len(call.args) > 1:
            yield from [str(call.args[1].value)] if isinstance(call.args[1], ast.Constant) else ()
        elif id(call) in self._alone and call.args and name not in _BUILTIN:
            kept = call.func.value if isinstance(call.func, ast.Attribute) else None
            base = base_name(call.args[0]) if kept is None or base_name(kept) in self._modules else ""
            yield from [base] if base and base not in self._modules else []

    def _visit_function(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """A function gives a time if it returns one, or is made by what measures."""
        returned = (each for each in _inside(function) if isinstance(each, ast.Return | ast.Yield | ast.YieldFrom))
        if any(map(self.may_measure, function.decorator_list)) or any(
            id(each) in self._regions or self.may_measure(each.value) for each in returned
        ):
            self.touched.add(function.name)
            if function.name.startswith("__") and id(function) in self._of_class:
                self.touched.add(self._of_class[id(function)])
        if id(function) in self._regions:
            self._mark(function)

    def _visit_branch(self, node: ast.AST) -> None:
        """What is done as long as, or if, a clock says so counts times."""
        tests = [each.test for each in ast.walk(node) if isinstance(each, ast.If | ast.While | ast.IfExp)]
        own = [node.test] if isinstance(node, ast.If | ast.While) else []
        own += [node.iter] if isinstance(node, ast.For | ast.AsyncFor) else []
        if id(node) in self._regions or any(map(self.may_measure, tests if isinstance(node, _LOOPS) else own)):
            self._mark(node)

    def _mark(self, region: ast.AST) -> None:
        """Take all that is assigned and changed in a part of the sources for measured."""
        for each in ast.walk(region):
            self._regions.add(id(each))
            if isinstance(each, ast.Name | ast.Attribute | ast.Subscript) and isinstance(each.ctx, ast.Store):
                self.touched.update(stored(each))
            elif isinstance(each, ast.Call):
                self._regions |= {id(function) for function in self._defined.get(last_name(each.func), ())}
                base = base_name(each.func.value) if isinstance(each.func, ast.Attribute) else ""
                self.touched.update([base] if base and base not in self._modules else [])


class _Words:
    """Words before values.

    Attributes:
        touched: before some that may be of a clock; ``untouched``: before others; ``elsewhere``: not before a value.
    """

    def __init__(self, flow: Follows) -> None:
        self._flow = flow
        self.touched: set[str] = set()
        self.untouched: set[str] = set()
        self.elsewhere: set[str] = set()
        self._seen: set[int] = set()
        for text, name, value in named_by_place(flow.nodes):
            self._seen |= {id(text)} if text is not None else set()
            self._take(label_before(name), value)
        for node in flow.nodes:
            self._look(node)
        for node in flow.nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in self._seen:
                self.elsewhere.update(_said(node.value))

    def _look(self, node: ast.AST) -> None:
        match node:
            case ast.JoinedStr(values=parts):
                self._in_turn(parts)
            case ast.Call(func=func, args=[ast.Constant(value=str(text)) as first, *others]):
                if _PLACE.search(text) is not None and others:
                    self._seen.add(id(first))
                    self._in_text(text, others)
                elif last_name(func) == "print":
                    self._in_turn(node.args)
                elif others:  # log_metric("train_time", value)
                    self._seen.add(id(first))
                    self._take(label_before(text), others[0])
                    self.elsewhere.update({*_WORD.findall(text)} - {label_before(text)})
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)) as first, attr="format")):
                self._seen.add(id(first))
                self._in_text(text, [*node.args, *(each.value for each in node.keywords)], ordered=False)
            case ast.Call(func=ast.Name(id="print"), args=args):
                self._in_turn(args)
            case ast.BinOp(left=ast.Constant(value=str(text)) as first, op=ast.Mod(), right=right):
                self._seen.add(id(first))
                self._in_text(text, right.elts if isinstance(right, ast.Tuple) else [right])
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    self._key(key, value)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._into(target, value)
            case ast.AugAssign(target=target, value=value):
                self._into(target, value)
            case ast.Call(func=ast.Attribute(value=ast.Subscript() as target), args=values):
                for value in values:
                    self._into(target, value)
            case ast.keyword(arg=str(name), value=value):
                self._take(name, value)
            case ast.Call(func=func, args=args) if last_name(func) in _WRITING:
                for value in args:
                    if not any(isinstance(each, ast.Dict | ast.JoinedStr) for each in ast.walk(value)):
                        self._take("", value)
            case ast.Subscript(slice=ast.Constant() as key, ctx=ast.Load()):
                self._seen.add(id(key))
            case ast.Expr(value=ast.Constant() as text):
                self._seen.add(id(text))

    def _key(self, key: ast.AST | None, value: ast.AST) -> None:
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            self._seen.add(id(key))
            self._take(label_before(key.value), value)

    def _into(self, target: ast.AST, value: ast.AST) -> None:
        """Take what is put into a variable, or under keys."""
        if name := last_name(target):
            self._take(name, value)
        while isinstance(target, ast.Subscript):
            self._key(target.slice, value)
            target = target.value

    def _in_turn(self, parts: Iterable[ast.AST]) -> None:
        """Take texts and the values behind them."""
        label = pair = ""
        for each in parts:
            if isinstance(each, ast.Constant):
                text = str(each.value)
                self._seen.add(id(each))
                self.elsewhere.update((label, pair))  # no value is behind it, but another text
                label, pair = label_before(text), pair_before(text)
                self.elsewhere.update(_said(text) - {label, pair})
            else:
                if label or not isinstance(each, ast.JoinedStr):
                    self._take(label, each, pair)
                label = pair = ""
        self.elsewhere.update((label, pair))

    def _in_text(self, text: str, values: list[ast.expr], *, ordered: bool = True) -> None:
        """Take the values that come in a text at its places."""
        parts = _PLACE.split(text)[: len(_PLACE.findall(text))]
        labels = [(label_before(part), pair_before(part)) for part in parts]
        self.elsewhere.update(_said(_PLACE.sub(". ", text)) - {word for label in labels for word in label})
        together = not ordered or len(labels) != len(values) or any(isinstance(each, ast.Starred) for each in values)
        for at, (label, pair) in enumerate(labels):
            for value in values if together else values[at : at + 1]:
                self._take(label, value, pair)

    def _take(self, label: str, value: ast.AST, pair: str = "") -> None:
        if isinstance(value, ast.Constant) or not any(isinstance(each, ast.Name) for each in ast.walk(value)):
            return  # it is the same in each run, or is filled later
        found = self.touched if self._flow.may_measure(value) else self.untouched
        found.update((label, pair) if pair else (label,))


def _said(text: str) -> set[str]:
    """Return the words of a text, and those that are next to each other."""
    return {*_WORD.findall(text), *(" ".join(found.groups()) for found in _PAIRS.finditer(text))}


def _drawing(table: Table) -> Set[str]:
    """Return the names that draw: what they give measures nothing."""
    return table.asks["names"].names if "names" in table.asks else frozenset()


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return [each.arg for each in every if each is not None and each.arg != "self"]


def _inside(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    """Yield the parts of a function, without those of functions in it."""
    left: list[ast.AST] = [*function.body]
    while left:
        each = left.pop()
        yield each
        if not isinstance(each, (*_FUNCTIONS, ast.ClassDef, ast.Lambda)):
            left += ast.iter_child_nodes(each)
