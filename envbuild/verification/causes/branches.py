"""Lines of a source that did not run, as far as constants, the recorded parameters and the environment decide it.

A call in a branch that no run took is no cause. What decides is what both records have: the values of argument parsers
(``args.seed``), variables of the environment, whether there was a GPU; and names of the file that get one constant. A
condition that is not known for certain counts as one that may be true or false.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from envbuild.core.patterns import lazy
from envbuild.core.redact import MASK
from envbuild.record.model import Record
from envbuild.record.processes import effective
from envbuild.verification.causes.evidence import Evidence
from envbuild.verification.dataflow.targets import last_name

_PARSED = frozenset(("parse_args", "parse_known_args", "parse_intermixed_args"))
_EXPOSING = lazy(r"\b(?:globals|locals|eval|exec|vars|getattr)\s*\(|\bfire\b|\bimport_module\b|\bsys\.modules\b")
"""A program with one of these may call functions by names that it does not write."""
_FROM_OUTSIDE = lazy(
    r"PATH|HOME|HOST|USER|SHELL|LANG|LC_|TZ|PWD|TMP|TEMP|PYTHON|ENVBUILD|OMP|MKL|BLAS|CUDA|NVIDIA|XLA|TF_|RANK|SIZE|MASTER"
    r"|SLURM|OMPI|PMI|WORKER|TERM|LD_|KAGGLE|COLAB|CI\Z"
)
"""Variables that somebody else may set: the image, the hook, launchers of jobs, the frameworks themselves."""
_SETS = lazy(
    r"environ\s*(?:\[[^\]\n]*\]\s*\+?=(?!=)|\.(?:update|setdefault|pop|clear)\b|\s*\|?=(?!=))|\bputenv\b|\bload_dotenv\b"
)
"""How a program sets variables of its own environment."""
_ARGUMENTS_CHANGED = lazy(
    r"\bargv\s*(?:\[[^\]\n]*\]\s*)?\+?=(?!=)|\bargv\.(?:pop|remove|append|insert|extend|clear|reverse|sort)\b|\bdel\s.*\bargv\b"
)
_CALLED_FROM_OUTSIDE = lazy(r"__|test|setup|teardown|pytest_|main\Z|cli\Z|app\Z|run\Z")
"""Functions that test runners, entry points and ``python -c`` call."""
_UNKNOWN = object()


def unreached(evidence: Evidence) -> Mapping[str, frozenset[int]]:
    """Return for each source the numbers of the lines that did not run."""
    sources = evidence.sources or {}
    trees = {path: tree for path, text in sources.items() if (tree := _parsed(text)) is not None}
    exposed = any(_EXPOSING.search(text) is not None for text in sources.values())
    called = frozenset[str]() if exposed else frozenset(name for tree in trees.values() for name in _mentioned(tree))
    found = {}
    whole = _whole(evidence, trees.values())
    for path, tree in trees.items():
        facts = _facts(whole, path, tree)
        lines = {number for begin, end in _parts(tree, facts) for number in range(begin, end + 1)}
        for node in tree.body if not exposed else ():
            if _is_plain(node) and node.name not in called:
                lines |= {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}
        found[path] = frozenset(lines)
    return found


def _is_plain(node: ast.stmt) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Whether a statement defines a function that runs only if something in the sources mentions it."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return not node.decorator_list and _CALLED_FROM_OUTSIDE.match(node.name) is None


def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _mentioned(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a file uses, in texts too; those of functions inside of themselves left out."""
    for node in tree.body:
        own = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else ""
        for each in ast.walk(node):
            if isinstance(each, ast.Name) and each.id != own:
                yield each.id
            elif isinstance(each, ast.Attribute):
                yield each.attr
            elif isinstance(each, ast.Constant) and isinstance(each.value, str):
                yield from re.findall(r"\w+", each.value)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Facts:
    """What decides conditions of one file.

    Attributes:
        names: values of names that get one constant.
        parsed: names that hold what an argument parser returned.
        parameters: values of parameters that both runs had, and that no source changes.
        environment: variables of both runs; ``changed``: the program may have set others.
        main: the file is the script.
        arguments: ``sys.argv`` of the script; None if that is not known, or not alike in all processes.
        gpus: there may have been one.
    """

    names: Mapping[str, Any]
    parsed: frozenset[str]
    parameters: Mapping[str, Any]
    environment: Mapping[str, str]
    changed: bool
    main: bool
    arguments: tuple[str, ...] | None
    gpus: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class _Whole:
    """What decides conditions of all files.

    Attributes:
        stored: names of attributes that some source sets.
        parameters, environment, changed, arguments, gpus: as in ``_Facts``; arguments of whatever was run.
        scripts: the files that were run.
    """

    stored: frozenset[str]
    parameters: Mapping[str, Any]
    environment: Mapping[str, str]
    changed: bool
    arguments: tuple[str, ...] | None
    scripts: frozenset[str]
    gpus: bool


def _whole(evidence: Evidence, trees: Iterable[ast.Module]) -> _Whole:
    """Look through all sources once: there may be a thousand."""
    records = (evidence.a, evidence.b)
    texts = (evidence.sources or {}).values()
    stored = frozenset(
        node.attr for each in trees for node in ast.walk(each) if _is_store(node) and isinstance(node, ast.Attribute)
    )
    tables = [{name: each.value for name, each in _given(record).items()} for record in records]
    mine, theirs = (record.environment for record in records)
    changed = any(_ARGUMENTS_CHANGED.search(text) is not None for text in texts)
    given = {_arguments(record) for record in records}
    return _Whole(
        stored=stored,
        parameters={
            name: value
            for name, value in tables[0].items()
            if tables[1].get(name, _UNKNOWN) == value and name not in stored
        },
        environment={name: value for name, value in mine.items() if theirs.get(name) == value},
        changed=any(_SETS.search(text) is not None for text in texts),
        arguments=given.pop() if len(given) == 1 and not changed else None,
        scripts=frozenset(record.script.path for record in records if record.script is not None),
        gpus=any(record.gpus for record in records),
    )


def _facts(whole: _Whole, path: str, tree: ast.Module) -> _Facts:
    main = path in whole.scripts
    return _Facts(
        names={name: value for name, value in _constants(tree).items() if name not in whole.stored},
        parsed=frozenset(_holding_parsed(tree)),
        parameters=whole.parameters,
        environment=whole.environment,
        changed=whole.changed,
        main=main,
        arguments=whole.arguments if main else None,
        gpus=whole.gpus,
    )


def _arguments(record: Record) -> tuple[str, ...] | None:
    """Return ``sys.argv`` of a script that was run by its name, in processes that all have the same one."""
    python, script, *rest = (*record.command, "", "")[: max(2, len(record.command))]
    others = any(tuple(process.arguments) != tuple(record.command) for process in record.processes)
    if python != "python" or not script.endswith(".py") or others or MASK in " ".join(rest):
        return None
    return (script, *rest)


def _given(record: Record) -> dict[str, Any]:
    return {name: each for name, each in effective(record.parameters).items() if each.source != "program"}


def _is_store(node: ast.AST) -> bool:
    return isinstance(node, ast.Name | ast.Attribute) and not isinstance(node.ctx, ast.Load)


def _constants(tree: ast.Module) -> dict[str, Any]:
    """Return the values of names of the module that get one value in the file, a constant."""
    count = dict[str, int]()
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names = [node.id]
        elif isinstance(node, ast.Global | ast.Nonlocal):
            names = node.names * 2
        elif isinstance(node, ast.arg):
            names = [node.arg] * 2
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
        for name in names:
            count[name] = count.get(name, 0) + 1
    return {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and len(node.targets) == 1
        if isinstance(node.targets[0], ast.Name) and count.get(node.targets[0].id) == 1
    }


def _holding_parsed(tree: ast.Module) -> Iterator[str]:
    """Yield the names bound to what ``parse_args`` returned, and parameters of functions that are called so too."""
    names = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and last_name(node.value.func) in _PARSED:
            for target in node.targets:
                inner = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else target
                if isinstance(inner, ast.Name):
                    names.add(inner.id)
    yield from names
    if not names:  # the function that parses is elsewhere
        yield from ("args",)


def _parts(node: ast.AST, facts: _Facts) -> Iterator[tuple[int, int]]:
    """Yield the first and the last line of each part that did not run."""
    if isinstance(node, ast.If | ast.While):
        truth = _truth(node.test, facts)
        if truth is False:
            yield from _span(node.body)
        if truth is True and isinstance(node, ast.If):
            yield from _span(node.orelse)
    elif isinstance(node, ast.IfExp) and (truth := _truth(node.test, facts)) is not None:
        part, other = (node.orelse, node.body) if truth else (node.body, node.orelse)
        if part.lineno != other.lineno and part.lineno != node.test.lineno:
            yield part.lineno, part.end_lineno or part.lineno
    for child in ast.iter_child_nodes(node):
        yield from _parts(child, facts)


def _span(statements: Sequence[ast.stmt]) -> Iterator[tuple[int, int]]:
    if statements:
        yield statements[0].lineno, statements[-1].end_lineno or statements[-1].lineno


def _truth(node: ast.expr, facts: _Facts) -> bool | None:
    """Return whether a condition was true; None if that is not known."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = _truth(node.operand, facts)
        return None if inner is None else not inner
    if isinstance(node, ast.BoolOp):
        parts = [_truth(each, facts) for each in node.values]
        decides = isinstance(node.op, ast.Or)
        if decides in parts:
            return decides
        return None if None in parts else not decides
    if isinstance(node, ast.Compare):
        return _compared(node, facts)
    value = _value(node, facts)
    return None if value is _UNKNOWN else bool(value)


def _compared(node: ast.Compare, facts: _Facts) -> bool | None:
    if len(node.ops) != 1:
        return None
    one, other = _value(node.left, facts), _value(node.comparators[0], facts)
    if one is _UNKNOWN or other is _UNKNOWN:
        return None
    try:
        match node.ops[0]:
            case ast.Eq():
                return bool(one == other)
            case ast.NotEq():
                return bool(one != other)
            case ast.Lt():
                return bool(one < other)
            case ast.LtE():
                return bool(one <= other)
            case ast.Gt():
                return bool(one > other)
            case ast.GtE():
                return bool(one >= other)
            case ast.Is():
                return one is other if None in (one, other) else None
            case ast.IsNot():
                return one is not other if None in (one, other) else None
            case ast.In():
                return one in other
            case ast.NotIn():
                return one not in other
            case _:
                return None
    except TypeError:
        return None


def _value(node: ast.expr, facts: _Facts) -> Any:
    """Return the value of an expression; ``_UNKNOWN`` if that is not known."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        return -node.operand.value if isinstance(node.operand.value, int | float) else _UNKNOWN
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        values = [_value(each, facts) for each in node.elts]
        return _UNKNOWN if any(each is _UNKNOWN for each in values) else values
    if isinstance(node, ast.Name):
        if node.id == "__name__":
            return "__main__" if facts.main else _UNKNOWN
        return False if node.id == "TYPE_CHECKING" else facts.names.get(node.id, _UNKNOWN)
    if isinstance(node, ast.Subscript):
        return _part_of_arguments(node, facts)
    if isinstance(node, ast.Attribute):
        if _is_argv(node) and facts.arguments is not None:
            return [*facts.arguments]
        if node.attr == "TYPE_CHECKING":
            return False
        held = isinstance(node.value, ast.Name) and node.value.id in facts.parsed
        return facts.parameters.get(node.attr, _UNKNOWN) if held else _UNKNOWN
    if isinstance(node, ast.Call):
        return _returned(node, facts)
    return _UNKNOWN


def _is_argv(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "argv" and last_name(node.value) == "sys"


def _part_of_arguments(node: ast.Subscript, facts: _Facts) -> Any:
    """Return ``sys.argv[1:]``, ``sys.argv[2]`` and the like."""
    if not _is_argv(node.value) or facts.arguments is None:
        return _UNKNOWN
    try:
        if isinstance(node.slice, ast.Slice):
            bounds = (node.slice.lower, node.slice.upper, node.slice.step)
            known = [None if each is None else _value(each, facts) for each in bounds]
            return _UNKNOWN if _UNKNOWN in known else [*facts.arguments[slice(*known)]]
        place = _value(node.slice, facts)
        return _UNKNOWN if place is _UNKNOWN else facts.arguments[place]
    except (IndexError, TypeError, ValueError):
        return _UNKNOWN


def _returned(node: ast.Call, facts: _Facts) -> Any:
    """Return what a call returned: whether there is a GPU, a variable of the environment, the number of arguments."""
    name = ast.unparse(node.func)
    if name == "len" and len(node.args) == 1 and _is_argv(node.args[0]) and facts.arguments is not None:
        return len(facts.arguments)
    if name.endswith(("cuda.is_available", "mps.is_available")) and not facts.gpus:
        return False
    if name not in ("os.environ.get", "environ.get", "os.getenv", "getenv") or not node.args or facts.changed:
        return _UNKNOWN
    key = _value(node.args[0], facts)
    if not isinstance(key, str):
        return _UNKNOWN
    if key in facts.environment:
        return facts.environment[key]
    if _FROM_OUTSIDE.search(key) is not None:
        return _UNKNOWN
    return _value(node.args[1], facts) if len(node.args) > 1 else None
