"""Queues and who uses them: whether what they give has one order, and who does not wait for them or for the end."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from envbuild.verification.dataflow.targets import last_name, parsed

_PUTS, _TAKES = frozenset(("put",)), frozenset(("get",))
_OTHERS = frozenset(("close", "join_thread", "join", "task_done"))
"""Further methods whose result does not depend on how far others are, as that of ``empty()`` does."""
_BEGINS = frozenset(("Thread", "Process"))
_REPEATS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

_GIVE_UP = {"Full": frozenset(("put", "put_nowait")), "Empty": frozenset(("get", "get_nowait"))}
"""What is raised by queues that do not wait, or not for long, and by what."""
_WAITS = frozenset(("sleep",))

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def has_one_order(source: str, line: int) -> bool:
    """Return whether one thread or process alone puts something into the queue that a line makes, and one takes it.

    Only a queue with a name is followed, within the function that makes it, and into functions of the same file that
    get it as an argument, or use it by its name and are run once. Whatever else becomes of it, somebody else may put
    something into it, as somebody does where the file shows nobody.
    """
    tree = parsed(source)
    if tree is None:
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
    within: dict[ast.AST, list[int]] = {}
    for node in ast.walk(scope):
        if not isinstance(node, ast.Name) or node.id != name or isinstance(node.ctx, ast.Store):
            continue
        inner = _scope(node, above)
        if inner is not scope and isinstance(inner, _Function) and name in {each.arg for each in _parameters(inner)}:
            continue  # another one of the same name
        if inner is not scope and not _runs_once(inner, scope, tree, functions, above):
            return None
        parent = above[node]
        if isinstance(parent, ast.Attribute):
            mine = own if inner is scope else within.setdefault(inner, [0, 0])
            if parent.attr in _PUTS:
                mine[0] = 1
            elif parent.attr in _TAKES:
                mine[1] = 1
            elif parent.attr not in _OTHERS:
                return None
            continue
        found = _given(node, functions, above)
        if found is None or inner is not scope:
            return None
        function, parameter, call = found
        names = [each for each in ast.walk(tree) if isinstance(each, ast.Name) and each.id == function.name]
        inside = _users(parameter, function, tree, {}, above)
        if len(names) != 1 or inside is None:  # somebody else may call it with the same queue
            return None
        if any(isinstance(each, _REPEATS) for each in _outwards(call, above)) or _scope(call, above) is not scope:
            return None
        puts, takes = puts + inside[0], takes + inside[1]
    return puts + sum(each[0] for each in (own, *within.values())), takes + sum(
        each[1] for each in (own, *within.values())
    )


def _runs_once(
    function: ast.AST,
    scope: ast.AST,
    tree: ast.Module,
    functions: Mapping[str, _Function],
    above: Mapping[ast.AST, ast.AST],
) -> bool:
    """Whether a function is run once, by a thread or process that the same scope begins, and by nobody else."""
    if not isinstance(function, _Function) or functions.get(function.name) is not function:
        return False
    uses = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == function.name]
    if len(uses) != 1:
        return False
    word = above[uses[0]]
    call = above.get(word)
    return (
        isinstance(word, ast.keyword)
        and word.arg == "target"
        and isinstance(call, ast.Call)
        and last_name(call.func) in _BEGINS
        and _scope(call, above) is scope
        and not any(isinstance(each, _REPEATS) for each in _outwards(call, above))
    )


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


def given_up(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the lines that put or take without waiting, where the program goes on if there is no room or value.

    Not those that are tried until they succeed, nor those that empty a queue.

    Yields:
        The exception that is handled, ``Full`` or ``Empty``, and the line of the call that raises it.
    """
    for loop, block in _blocks(tree):
        for at, node in enumerate(block):
            if not isinstance(node, ast.Try):
                continue
            last = at == len(block) - 1
            for handler in node.handlers:
                raised = _raised(handler)
                if raised is not None and not _tries_again(node, handler, loop=loop, last=last):
                    yield from ((raised, line) for line in _called(node.body, _GIVE_UP[raised]))


def _blocks(tree: ast.AST) -> Iterator[tuple[bool, list[ast.stmt]]]:
    """Yield all lists of statements, and whether they are those of a loop."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                yield name == "body" and isinstance(node, ast.While | ast.For | ast.AsyncFor), block


def _raised(handler: ast.ExceptHandler) -> str | None:
    """Return which of the two exceptions a handler is for."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type] if handler.type else []
    names = [each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "") for each in kinds]
    return next((name for name in names if name in _GIVE_UP), None)


def _tries_again(node: ast.Try, handler: ast.ExceptHandler, *, loop: bool, last: bool) -> bool:
    """Whether a loop tries once more, having done nothing else, or ends because a queue is empty."""
    if any(isinstance(each, ast.Break | ast.Return) for each in handler.body):
        return _raised(handler) == "Empty"
    if any(isinstance(each, ast.Break | ast.Return) for part in (node.body, node.orelse) for each in part):
        return True  # it goes on behind the loop once it succeeded
    idle = all(
        isinstance(each, ast.Pass | ast.Continue)
        or (isinstance(each, ast.Expr) and isinstance(each.value, ast.Call) and last_name(each.value.func) in _WAITS)
        for each in handler.body
    )
    goes_on = not last and not any(isinstance(each, ast.Continue) for each in handler.body)
    return idle and loop and not goes_on and _raised(handler) == "Empty"


def _called(body: list[ast.stmt], methods: frozenset[str]) -> Iterator[int]:
    """Yield the lines that call one of the methods of something."""
    for part in body:
        for node in ast.walk(part):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in methods:
                yield node.lineno


def left_behind(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that make threads or processes which end with the program, where the file waits for none."""
    called = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    if not any(isinstance(node.func, ast.Attribute) and node.func.attr == "join" and not node.args for node in called):
        for node in called:
            given = {word.arg: getattr(word.value, "value", None) for word in node.keywords}
            if last_name(node.func) in _BEGINS and given.get("daemon") is True:
                yield node.lineno
