"""Further lines of a cause: what starts the thread that a line makes, the other reading of a clock, an argument."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from envbuild.verification.causes.foreign import STARTING
from envbuild.verification.causes.turns import loops_that_look
from envbuild.verification.dataflow.targets import in_pairs, last_name, parsed
from envbuild.verification.dataflow.uses import Uses

STARTED = frozenset(("Thread", "Process", "Timer"))
"""Last names of what makes something that ``start()`` begins."""
_START = "start"
CONCURRENT = STARTED | {"Popen", "fork"}
"""The same, with what begins at once."""
_ASKED = {
    **dict.fromkeys(("poll", "epoll"), frozenset(("poll",))),
    **dict.fromkeys(("DefaultSelector", "SelectSelector", "PollSelector", "EpollSelector"), frozenset(("select",))),
    "scheduler": frozenset(("enter", "enterabs")),
    **dict.fromkeys(("Queue", "SimpleQueue", "LifoQueue", "JoinableQueue"), frozenset(("get", "get_nowait", "empty"))),
}
"""Last names of what makes something that says who came first or is due, and the methods by which it does."""
OTHERS = STARTING | {"kill", "killpg", "pidfd_open", "Process"}
"""Last names of calls that give something to another process, or send it a signal."""
_INTERRUPTS = frozenset(("send_signal", "kill", "killpg", "terminate"))
"""Last names of calls that act on another process at once."""


def begun_at(source: str, line: int) -> tuple[int, ...]:
    """Return the lines that begin the threads or processes that a line makes, itself left out.

    They are followed by a name or an attribute, and through a list with a name that a loop goes through.

    Args:
        source: of Python.
        line: that makes them, 1-based.
    """
    tree = parsed(source)
    names = _holders(tree, line, started_in(tree)) if tree is not None else set()
    if tree is None or not names:
        return ()
    names |= {
        ast.unparse(node.target)
        for node in ast.walk(tree)
        if isinstance(node, ast.For | ast.comprehension) and ast.unparse(node.iter) in names
    }
    return tuple(
        sorted(
            {
                node.lineno
                for node in ast.walk(tree)
                if isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == _START
                and node.lineno != line
                and ast.unparse(node.func.value) in names
            }
        )
    )


def begins(source: str) -> tuple[int, ...]:
    """Return the lines that make threads and processes, and those that begin them."""
    tree = parsed(source)
    if tree is None:
        return ()
    kinds = started_in(tree)
    made = {node.lineno for node in ast.walk(tree) if isinstance(node, ast.Call) and last_name(node.func) in kinds}
    return tuple(sorted(made.union(*(begun_at(source, each) for each in made))))


def asked_at(source: str, line: int) -> tuple[int, ...]:
    """Return the lines that ask what a line makes for who came first, itself left out: ``select()``, ``get()``.

    It is followed by a name or an attribute.

    Args:
        source: of Python.
        line: that makes it, 1-based.
    """
    tree = parsed(source)
    asking = dict[str, frozenset[str]]()
    for node in ast.walk(tree) if tree is not None else ():
        pairs = [(target, node.value) for target in node.targets] if isinstance(node, ast.Assign) else []
        for target, value in (each for pair in pairs for each in in_pairs(*pair)):
            if isinstance(value, ast.Call) and value.lineno == line:
                asking[ast.unparse(target)] = _ASKED.get(last_name(value.func), frozenset())
    calls = (each for each in (ast.walk(tree) if tree is not None and asking else ()) if isinstance(each, ast.Call))
    return tuple(
        sorted(
            {
                call.lineno
                for call in calls
                if isinstance(call.func, ast.Attribute)
                and call.lineno != line
                and call.func.attr in asking.get(ast.unparse(call.func.value), ())
            }
        )
    )


def other_readings(source: str, line: int) -> tuple[int, ...]:
    """Return the lines that ask a clock for the other end of the time that a line measures.

    ``began = clock()`` at the line, and ``clock() - began`` elsewhere; or the other way round.

    Args:
        source: of Python.
        line: that asks the clock, 1-based.
    """
    tree = parsed(source)
    if tree is None:
        return ()
    began: dict[str, list[tuple[int, str]]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            for target in node.targets:
                if isinstance(target, ast.Name | ast.Attribute):
                    begun = node.lineno, last_name(node.value.func)
                    began.setdefault(_kept_as(target), []).append(begun)
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and isinstance(node.left, ast.Call):
            clock = last_name(node.left.func)
            lines = {at for at, called in began.get(_kept_as(node.right), ()) if called == clock}
            if line in lines:
                found.add(node.lineno)
            elif line == node.lineno:
                found |= lines
    return tuple(sorted(found - {line}))


def _kept_as(target: ast.expr) -> str:
    """Return the name of something, of an attribute of whatever object: another method may have it under ``other``."""
    return f".{target.attr}" if isinstance(target, ast.Attribute) else ast.unparse(target)


def argument_at(source: str, line: int, names: Collection[str]) -> tuple[int, ...]:
    """Return the line of an argument of the call that begins at a line, if it is another one.

    Args:
        source: of Python.
        line: at which the call begins, 1-based.
        names: of arguments.
    """
    tree = parsed(source)
    if tree is None:
        return ()
    words = (
        word
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and node.lineno == line
        for word in node.keywords
        if word.arg in names
    )
    return tuple(sorted({word.value.lineno for word in words} - {line}))


def attribute_lines(source: str, names: Collection[str]) -> tuple[int, ...]:
    """Return the lines that read attributes of such names."""
    tree = parsed(source)
    nodes = ast.walk(tree) if tree is not None else ()
    return tuple(
        sorted(
            {
                node.lineno
                for node in nodes
                if isinstance(node, ast.Attribute) and node.attr in names and isinstance(node.ctx, ast.Load)
            }
        )
    )


def waits_in_turns(source: str) -> tuple[int, ...]:
    """Return the lines of loops that look, again and again, whether somebody else has come so far."""
    tree = parsed(source)
    return tuple(sorted({line for line, _ in loops_that_look(tree)})) if tree is not None else ()


def interrupts(source: str) -> tuple[int, ...]:
    """Return the lines that end another process, or send it a signal, while it runs."""
    tree = parsed(source)
    nodes = ast.walk(tree) if tree is not None else ()
    return tuple(sorted({n.lineno for n in nodes if isinstance(n, ast.Call) and last_name(n.func) in _INTERRUPTS}))


def own_numbers(source: str) -> tuple[int, ...]:
    """Return the lines that give the number of the own process to others, which may signal it then."""
    tree = parsed(source)
    if tree is None:
        return ()
    uses = Uses(tree)
    asked = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and last_name(node.func) == "getpid")
    return tuple(sorted({each.lineno for each in asked if uses.is_given_to(each, OTHERS)}))


def taken_at(source: str, line: int) -> tuple[int, ...]:
    """Return the lines that take one of the figures of a file: ``table["MemAvailable"]``, ``if name == "MemFree"``.

    They come after the line that opens the file, in the function, or the module, that does.

    Args:
        source: of Python.
        line: that opens the file, 1-based.
    """
    tree = parsed(source)
    if tree is None:
        return ()
    scopes = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    around = [each for each in scopes if each.lineno <= line <= (each.end_lineno or 0)]
    inner = max(around, key=lambda each: each.lineno, default=tree)
    named: list[ast.AST] = []
    for node in ast.walk(inner):
        if isinstance(node, ast.Subscript):
            named.append(node.slice)
        elif isinstance(node, ast.Compare):
            named += [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and last_name(node.func) == "startswith":
            named += node.args
    texts = (each for each in named if isinstance(each, ast.Constant) and isinstance(each.value, str))
    return tuple(sorted({each.lineno for each in texts if each.lineno > line}))


def value_lines(source: str) -> tuple[int, ...]:
    """Return the lines of functions that read a ``.value``, as what processes share has it."""
    tree = parsed(source)
    functions = (
        node for node in (ast.walk(tree) if tree is not None else ()) if isinstance(node, ast.FunctionDef | ast.Lambda)
    )
    return tuple(
        sorted(
            {
                node.lineno
                for function in functions
                for node in ast.walk(function)
                if isinstance(node, ast.Attribute) and node.attr == "value" and isinstance(node.ctx, ast.Load)
            }
        )
    )


def _holders(tree: ast.Module, line: int, kinds: Collection[str]) -> set[str]:
    """Return the names under which the threads or processes are kept that a line makes, or lists of them."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(each.lineno == line for each in _made(node.value, kinds)):
            found |= {ast.unparse(target) for target in node.targets}
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "append"
            and any(each.lineno == line for given in node.args for each in _made(given, kinds))
        ):
            found.add(ast.unparse(node.func.value))
    return found


def _made(value: ast.expr, kinds: Collection[str]) -> Iterator[ast.Call]:
    """Yield the calls that make threads or processes whose value, or a list of them, an expression is."""
    if isinstance(value, ast.ListComp):
        yield from _made(value.elt, kinds)
    elif isinstance(value, ast.List | ast.Tuple):
        for each in value.elts:
            yield from _made(each, kinds)
    elif isinstance(value, ast.Call) and last_name(value.func) in kinds:
        yield value


def started_in(tree: ast.Module) -> frozenset[str]:
    """Return the last names of what makes something that ``start()`` begins: the file's own classes among them."""
    own = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return STARTED.union(node.name for node in own if any(last_name(base) in STARTED for base in node.bases))
