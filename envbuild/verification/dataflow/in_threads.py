"""What threads of a program run, as far as one file shows it: functions that they are given, and what these call.

What a function draws from a generator that it has made itself is left out: nobody else draws from that.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from envbuild.verification.dataflow.targets import last_name

_TARGETS = {"Thread": 1, "Timer": 1, "run_in_executor": 1}
"""Which argument is the function that runs in a thread, by the last part of what is called; 0 for those of pools."""
_OF_POOLS = frozenset(("submit", "map", "starmap", "imap", "imap_unordered", "apply_async", "map_async", "to_thread"))
_MADE = frozenset(("Random", "RandomState", "Generator", "default_rng", "SystemRandom"))
"""What makes a generator."""
_NAMED = frozenset(("target", "function", "func", "fn"))


def run_by_threads(source: str) -> str | None:
    """Return the text of the functions that threads run; None if the file does not show all of them."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    functions: dict[str, list[ast.AST]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions.setdefault(node.name, []).append(node)
    left: list[ast.AST] = []
    for target in _targets(tree):
        if isinstance(target, ast.Lambda):
            left.append(target)
        elif (found := functions.get(last_name(target))) is not None:
            left += found
        else:
            return None
    left += _own_runs(tree)
    return _text(source, left, functions) if left else None


def given_to_others(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield the functions that threads, processes and pools are given, and that a file's own threads run."""
    yield from _targets(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and last_name(node.func) == "Process":
            yield from (word.value for word in node.keywords if word.arg == "target")
    yield from (ast.Name(each.name) for each in _own_runs(tree))


def _text(source: str, left: list[ast.AST], functions: dict[str, list[ast.AST]]) -> str:
    """Return the text of some functions and of those of the file that they call."""
    seen: dict[int, str] = {}
    while left:
        node = left.pop()
        if id(node) in seen:
            continue
        seen[id(node)] = _without_own_draws(ast.get_source_segment(source, node) or "", source, node)
        for each in ast.walk(node):
            if isinstance(each, ast.Call):
                left += functions.get(last_name(each.func), [])
    return "\n".join(seen.values())


def _without_own_draws(text: str, source: str, function: ast.AST) -> str:
    """Leave draws from generators out of the text of a function that it gives to names of its own, and nothing else."""
    given: dict[str, list[ast.expr | None]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                given.setdefault(ast.unparse(target), []).append(node.value)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            given.setdefault(node.id, [])
        elif isinstance(node, ast.Global | ast.Nonlocal):
            for name in node.names:
                given.setdefault(name, []).append(None)
    for name, values in given.items():
        made = [each for each in values if isinstance(each, ast.Call) and _makes_generator(each)]
        if not name.isidentifier() or not made or len(made) != len(values):
            continue
        for each in made:  # what it is given stays: that may be drawn from a generator of others
            whole, func = (ast.get_source_segment(source, part) or "" for part in (each, each.func))
            text = text.replace(whole, f"own{whole.removeprefix(func)}")
        text = re.sub(rf"(?<![\w.]){name}\.\w+\(", "own(", text)
    return text


def _makes_generator(call: ast.Call) -> bool:
    """Whether a call makes a generator that nothing else draws from; NumPy's may be given another one's bits."""
    name = last_name(call.func)
    return name in _MADE and (name != "Generator" or all(isinstance(each, ast.Call) for each in call.args))


def _targets(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield what is given to threads and to pools."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = last_name(node.func)
        at = _TARGETS.get(name, 0 if name in _OF_POOLS and isinstance(node.func, ast.Attribute) else None)
        if at is None:
            continue
        named = [word.value for word in node.keywords if word.arg in _NAMED]
        yield from (_unwrapped(each) for each in (named or node.args[at : at + 1]))


def _unwrapped(target: ast.expr) -> ast.expr:
    """Return the function that ``functools.partial`` is given."""
    while isinstance(target, ast.Call) and last_name(target.func) == "partial" and target.args:
        target = target.args[0]
    return target


def _own_runs(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """Yield the methods ``run`` of classes that are threads."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and any(last_name(base).endswith("Thread") for base in node.bases):
            yield from (each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "run")
