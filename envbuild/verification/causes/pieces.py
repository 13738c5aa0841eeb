"""What is read from a pipe or a socket piece by piece, and used as it comes: where a piece ends varies."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from envbuild.verification.dataflow.targets import last_name

_READS = frozenset(("recv", "read1"))
"""Methods that give what is there, up to so many bytes; without that number they are others'."""
_COLLECTS = frozenset(("append", "extend", "write", "join", "update", "feed", "feed_data", "put", "sendall", "send"))
"""Methods to which it is the same in how many pieces they get something, or that keep the pieces for later."""


def used_in_pieces(tree: ast.Module) -> Iterator[int]:
    """Yield the lines that read a piece which is taken apart by itself, and added to nothing before."""
    above: Mapping[ast.AST, ast.AST] = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _reads(node) and not _is_collected(node, tree, above):
            yield node.lineno


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
        return last_name(parent.func) in _COLLECTS
    names = {each.id for each in targets if isinstance(each, ast.Name)}
    if not names:
        return not targets and not isinstance(parent, ast.Attribute)
    uses = [
        above.get(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id in names and isinstance(node.ctx, ast.Load)
    ]
    taken = [each for each in uses if not isinstance(each, ast.UnaryOp | ast.If | ast.While | ast.Compare | ast.BoolOp)]
    return not taken or any(
        isinstance(each, ast.AugAssign | ast.BinOp | ast.Yield | ast.Return)
        or (isinstance(each, ast.Call) and last_name(each.func) in _COLLECTS)
        for each in taken
    )
