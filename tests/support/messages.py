"""All messages of errors, read from the code: class, exit code, sentence and hint of every ``raise``, by module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from envbuild import errors

__all__ = ["table"]

PACKAGE = Path(errors.__file__).parent
_ROOT = errors.EnvbuildError


@cache
def table() -> str:
    """Return the table: one part for each module, one entry for each error it makes; ``{…}`` stands for a value."""
    lines = []
    for path in sorted(PACKAGE.rglob("*.py")):
        entries = list(_entries(ast.parse(path.read_text(encoding="utf-8"))))
        if entries:
            lines += ["", path.relative_to(PACKAGE.parent).as_posix(), *(line for entry in entries for line in entry)]
    return "\n".join(lines[1:]) + "\n"


def _entries(tree: ast.AST) -> Iterator[list[str]]:
    """Yield the entry of each error and each problem of a spec that a module makes, in the order of the code."""
    own = {
        node.name: ast.unparse(node.bases[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.bases
    }
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        given = {word.arg: word.value for word in call.keywords}
        if name == "Problem":
            message = given.get("message", call.args[1] if len(call.args) > 1 else None)
            where = given.get("path", call.args[0] if call.args else None)
            yield [f"  Problem  {_text(where)}", f"      {_text(message)}"]
            continue
        kind = getattr(errors, own.get(name, name), None)
        if not (isinstance(kind, type) and issubclass(kind, _ROOT)) or name == "SpecError":
            continue
        arguments = [argument for argument in call.args if not isinstance(argument, ast.Starred)]
        entry = [f"  {name}  exit {kind.exit_code}"]
        entry += [
            f"      {line}" for line in _text(given.get("message", arguments[0] if arguments else None)).splitlines()
        ]
        hint = given.get("hint", arguments[1] if len(arguments) > 1 else None)
        yield entry + ([f"      → {_text(hint)}"] if hint is not None and _text(hint) else [])


def _text(node: ast.expr | None) -> str:
    """Return an expression as the text that it makes, values in braces."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(
            f"{{{ast.unparse(part.value)}}}" if isinstance(part, ast.FormattedValue) else _text(part)
            for part in node.values
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left) + _text(node.right)
    if isinstance(node, ast.IfExp):
        return f"{{{_text(node.body)} | {_text(node.orelse)}}}"
    return f"{{{ast.unparse(node)}}}" if node is not None else ""
