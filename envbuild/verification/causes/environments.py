"""Where a program goes through the environment, whose variables may come in any order."""

from __future__ import annotations

import ast

from envbuild.verification.dataflow.targets import last_name, parsed

_ENVIRONMENTS = frozenset(("environ", "environb"))
_WHOLE = frozenset(("copy", "items", "keys", "values"))
"""Methods that return all variables; others ask for one of them, or change it."""
_ORDERLESS = frozenset(("sorted", "len", "set", "frozenset", "bool"))


def lines_with_all_variables(source: str) -> tuple[int, ...]:
    """Return the lines that take all of ``os.environ``; not those that give it to a program, or sort it."""
    tree = parsed(source)
    if tree is None:
        return ()
    above = {id(child): node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    found = {
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute) and last_name(node) in _ENVIRONMENTS and _is_whole(node, above)
    }
    return tuple(sorted(found))


def _is_whole(node: ast.expr, above: dict[int, ast.AST]) -> bool:
    """Whether nothing picks a variable of it."""
    user = above.get(id(node))
    if isinstance(user, ast.Attribute):
        if user.attr not in _WHOLE:
            return False
        node, user = user, above.get(id(user))
        if isinstance(user, ast.Call) and user.func is node:
            node, user = user, above.get(id(user))
    if isinstance(user, ast.Subscript | ast.Compare | ast.alias):
        return False
    if isinstance(user, ast.Call) and last_name(user.func) in _ORDERLESS:
        return False
    while user is not None and not isinstance(user, ast.stmt):
        if isinstance(user, ast.keyword) and user.arg == "env":
            return False
        user = above.get(id(user))
    return True
