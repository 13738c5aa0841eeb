"""What is read from a pipe or a socket piece by piece, and used as it comes: where a piece ends varies."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from envbuild.verification.dataflow.targets import last_name

_READS = frozenset(("recv", "read1"))
"""Methods that give what is there, up to so many bytes; without that number they are others'."""
_COLLECTS = frozenset(("append", "extend", "write", "join", "update", "feed", "feed_data", "put", "sendall", "send"))
"""Methods to which it is the same in how many pieces they get something, or that keep the pieces for later."""


_WHOLE = frozenset(("unpack", "from_bytes"))
"""Functions that need a number of bytes which was written at once: a pipe does not part what is that short."""
_SHORT, _CONNECTS = 1024, frozenset(("accept", "create_connection", "connect"))
"""Bytes of a message that is sent at once, and what begins another connection."""
_HARMLESS = (ast.If, ast.While, ast.UnaryOp, ast.BoolOp, ast.Starred, ast.Attribute, ast.Subscript)
"""Around lines: whether there are any, the last one alone."""


def used_in_pieces(tree: ast.Module) -> Iterator[int]:
    """Yield the lines that read a piece which is taken apart by itself, and added to nothing before."""
    above: Mapping[ast.AST, ast.AST] = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    datagrams = any(isinstance(node, ast.Attribute) and node.attr == "SOCK_DGRAM" for node in ast.walk(tree))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not _reads(node) or _is_collected(node, tree, above):
            continue
        if not (datagrams and ast.unparse(node.func) != "os.read"):
            yield node.lineno


def short_messages(tree: ast.Module) -> frozenset[int]:
    """Return the lines that read the one short message of a connection, which is sent at once and mostly comes so."""
    above: Mapping[ast.AST, ast.AST] = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    return frozenset(
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _reads(node) and _is_message(node, above)
    )


def _is_message(call: ast.Call, above: Mapping[ast.AST, ast.AST]) -> bool:
    size = getattr(call.args[-1], "value", 0)
    if not isinstance(size, int) or not 0 < size <= _SHORT:
        return False
    node: ast.AST | None = call
    while node is not None and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        if isinstance(node, ast.For | ast.While):
            return any(isinstance(each, ast.Call) and last_name(each.func) in _CONNECTS for each in ast.walk(node))
        node = above.get(node)
    return True


def _reads(call: ast.Call) -> bool:
    if ast.unparse(call.func) == "os.read":
        return len(call.args) == 2 and getattr(call.args[1], "value", 0) != 1
    of_method = isinstance(call.func, ast.Attribute) and last_name(call.func) in _READS
    return of_method and len(call.args) == 1 and getattr(call.args[0], "value", 0) != 1


def _is_collected(call: ast.Call, tree: ast.Module, above: Mapping[ast.AST, ast.AST]) -> bool:
    """Whether what a call reads, or a name that gets it alone, is put behind what came before, or not used at all."""
    parent = above.get(call)
    while isinstance(parent, ast.Await):
        parent = above.get(parent)
    targets: list[ast.expr] = []
    if isinstance(parent, ast.NamedExpr):
        targets = [parent.target]
    elif isinstance(parent, ast.Assign):
        targets = [each.elts[0] if isinstance(each, ast.Tuple) and each.elts else each for each in parent.targets]
    elif isinstance(parent, ast.AugAssign | ast.BinOp | ast.Expr):
        return True
    elif isinstance(parent, ast.Call):
        return last_name(parent.func) in _COLLECTS | _WHOLE
    names = {each.id for each in targets if isinstance(each, ast.Name)}
    if not names:
        return not targets and not isinstance(parent, ast.Attribute)
    uses = [
        above.get(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id in names and isinstance(node.ctx, ast.Load)
    ]
    taken = [each for each in uses if not isinstance(each, ast.UnaryOp | ast.If | ast.While | ast.Compare | ast.BoolOp)]
    if any(isinstance(each, ast.BinOp) and _is_block(each, tree, above) for each in taken):
        return False
    return not taken or any(
        isinstance(each, ast.AugAssign | ast.BinOp | ast.Yield | ast.Return)
        or (isinstance(each, ast.Call) and last_name(each.func) in _COLLECTS)
        for each in taken
    )


def _is_block(joined: ast.BinOp, tree: ast.Module, above: Mapping[ast.AST, ast.AST]) -> bool:
    """Whether the lines that a piece completes are used as a whole: how many they are varies, too.

    ``*lines, rest = (rest + piece).split(…)``, and then ``mean(lines)`` in place of ``for line in lines``; or
    ``lines = (rest + piece).split(…)`` and ``rest = lines.pop()``.
    """
    node: ast.AST | None = joined
    while node is not None and not isinstance(node, ast.stmt):
        node = above.get(node)
    if not isinstance(node, ast.Assign):
        return False
    target = node.targets[0]
    starred = [target]
    if isinstance(target, ast.Tuple | ast.List):
        starred = [each.value for each in target.elts if isinstance(each, ast.Starred)]
    elif not _is_split(node.value) or not _has_rest(target, tree):
        return False
    names = {each.id for each in starred if isinstance(each, ast.Name)}
    uses = (
        (each, above.get(each))
        for each in ast.walk(tree)
        if isinstance(each, ast.Name) and each.id in names and isinstance(each.ctx, ast.Load)
    )
    return any(
        not isinstance(parent, _HARMLESS)
        and not (isinstance(parent, ast.For) and parent.iter is each)
        and not (isinstance(parent, ast.comprehension) and _is_kept(above.get(parent), above))
        and not (isinstance(parent, ast.Call) and last_name(parent.func) in _COLLECTS)
        and not (isinstance(parent, ast.Call) and last_name(parent.func) == "map" and _is_kept(parent, above))
        for each, parent in uses
    )


def _is_split(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and last_name(value.func) in ("split", "splitlines")


def _has_rest(target: ast.expr, tree: ast.Module) -> bool:
    """Whether the last one of some lines is taken off: what is left is whole lines."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "pop"
        and not node.args
        and ast.unparse(node.func.value) == ast.unparse(target)
        for node in ast.walk(tree)
    )


def _is_kept(made: ast.AST | None, above: Mapping[ast.AST, ast.AST]) -> bool:
    """Whether what is made of lines is gone through, or put behind what came before."""
    parent = above.get(made) if made is not None else None
    return (
        isinstance(parent, ast.AugAssign | ast.Expr)
        or (isinstance(parent, ast.For) and parent.iter is made)
        or (isinstance(parent, ast.Call) and last_name(parent.func) in _COLLECTS)
    )
