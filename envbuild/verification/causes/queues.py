"""Queues into which one thread or process puts, and from which one takes: what they give has one order."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from envbuild.verification.dataflow.targets import last_name

_PUTS, _TAKES = frozenset(("put",)), frozenset(("get",))
_OTHERS = frozenset(("close", "join_thread", "join", "task_done"))
"""Further methods whose result does not depend on how far others are, as that of ``empty()`` does."""
_BEGINS = frozenset(("Thread", "Process"))
_REPEATS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def has_one_order(source: str, line: int) -> bool:
    """Return whether one thread or process alone puts something into the queue that a line makes, and one takes it.

    Only a queue with a name is followed, within the function that makes it, and into functions of the same file that
    get it as an argument. Whatever else becomes of it, somebody else may put something into it, as somebody does where
    the file shows nobody.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    above = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    made = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and node.lineno == line and isinstance(node.value, ast.Call)
    ]
    if len(made) != 1 or len(made[0].targets) != 1 or not isinstance(made[0].targets[0], ast.Name):
        return False
    if any(isinstance(node, _REPEATS) for node in _outwards(made[0], above)):
        return False
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, _Function)}
    users = _users(made[0].targets[0].id, _scope(made[0], above), tree, functions, above)
    return users is not None and users[0] == 1 and users[1] <= 1


def _users(
    name: str,
    scope: ast.AST,
    tree: ast.Module,
    functions: Mapping[str, _Function],
    above: Mapping[ast.AST, ast.AST],
) -> tuple[int, int] | None:
    """Return how many put something into a queue with a name in a scope, and how many take; None if nobody knows."""
    puts, takes, own = 0, 0, [0, 0]
    for node in ast.walk(scope):
        if not isinstance(node, ast.Name) or node.id != name or isinstance(node.ctx, ast.Store):
            continue
        inner = _scope(node, above)
        if inner is not scope and isinstance(inner, _Function) and name in {each.arg for each in _parameters(inner)}:
            continue  # another one of the same name
        if inner is not scope:  # a function within uses it, and who calls that is not known
            return None
        parent = above[node]
        if isinstance(parent, ast.Attribute):
            if parent.attr in _PUTS:
                own[0] = 1
            elif parent.attr in _TAKES:
                own[1] = 1
            elif parent.attr not in _OTHERS:
                return None
            continue
        found = _given(node, functions, above)
        if found is None:
            return None
        function, parameter, call = found
        names = [each for each in ast.walk(tree) if isinstance(each, ast.Name) and each.id == function.name]
        inside = _users(parameter, function, tree, {}, above)
        if len(names) != 1 or inside is None:  # somebody else may call it with the same queue
            return None
        if any(isinstance(each, _REPEATS) for each in _outwards(call, above)) or _scope(call, above) is not scope:
            return None
        puts, takes = puts + inside[0], takes + inside[1]
    return puts + own[0], takes + own[1]


def _given(
    node: ast.Name, functions: Mapping[str, _Function], above: Mapping[ast.AST, ast.AST]
) -> tuple[_Function, str, ast.Call] | None:
    """Return the function that a thread or process runs with a queue, and its parameter; None for any other use."""
    words = above[node]
    keyword = above.get(words)
    call = above.get(keyword) if keyword is not None else None
    if not isinstance(words, ast.Tuple | ast.List) or not isinstance(keyword, ast.keyword) or keyword.arg != "args":
        return None
    if not isinstance(call, ast.Call) or last_name(call.func) not in _BEGINS:
        return None
    target = next((word.value for word in call.keywords if word.arg == "target"), None)
    function = functions.get(target.id) if isinstance(target, ast.Name) else None
    if function is None or any(isinstance(each, ast.Starred) for each in words.elts):
        return None
    parameters = _parameters(function)
    at = words.elts.index(node)
    return (function, parameters[at].arg, call) if at < len(parameters) else None


def _parameters(function: _Function) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args]


def _scope(node: ast.AST, above: Mapping[ast.AST, ast.AST]) -> ast.AST:
    """Return the function, class or module that a node is in."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Module)
    return next(each for each in _outwards(node, above) if isinstance(each, kinds))


def _outwards(node: ast.AST, above: Mapping[ast.AST, ast.AST]) -> Iterator[ast.AST]:
    while node in above:
        node = above[node]
        yield node
