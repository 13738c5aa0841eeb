"""Values that get their names by their place: fields of a class, columns of a table, keys that are zipped with them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from envbuild.verification.dataflow.targets import base_name, last_name

Named = tuple[ast.Constant | None, str, ast.AST]
"""The text in which a name is, if it is one; the name, and a value of it."""


def named_by_place(nodes: Sequence[ast.AST]) -> Iterator[Named]:
    """Yield the names that values get by their place.

    Args:
        nodes: all parts of the program's own sources.
    """
    fields = dict(_classes(nodes))
    heads = dict(_heads(nodes))
    for node in nodes:
        match node:
            case ast.Assign(targets=targets, value=ast.expr() as value) if not isinstance(value, ast.Tuple | ast.List):
                yield from ((None, name, value) for target in targets for name in _parts(target))
            case ast.Call(func=func, args=args) if last_name(func) in fields:
                for (text, name), value in zip(fields[last_name(func)], args, strict=False):
                    yield text, name, value
            case ast.Call(func=ast.Name(id="zip"), args=[ast.Tuple() | ast.List() as keys, values]):
                yield from _paired(keys, values)
            case ast.Call(func=ast.Attribute(value=writer, attr="writerow" | "writerows"), args=[row]):
                head = heads.get(base_name(writer))
                if head is not None and head is not row:
                    yield from _paired(head, row)
            case ast.Call(args=[rows, *_], keywords=keywords):
                for each in keywords:
                    yield from _paired(each.value, rows) if each.arg == "columns" else ()


def _parts(target: ast.AST) -> Iterator[str]:
    """Yield the names that one value is taken apart into."""
    for each in target.elts if isinstance(target, ast.Tuple | ast.List) else ():
        yield from [name] if (name := last_name(each)) else ()


def _paired(keys: ast.AST, values: ast.AST) -> Iterator[Named]:
    """Yield the texts of a list, each with its value, or with all of them if they are not known one by one."""
    texts = keys.elts if isinstance(keys, ast.Tuple | ast.List) else []
    rows = values.elts if isinstance(values, ast.Tuple | ast.List) else []
    for at, each in enumerate(texts):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each, each.value, rows[at] if len(rows) == len(texts) else values


def _heads(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    """Yield what writes rows, with the first row if that has nothing but texts: the names of columns."""
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=writer, attr="writerow"), args=[ast.Tuple() | ast.List() as row]):
                if row.elts and all(
                    isinstance(each, ast.Constant) and isinstance(each.value, str) for each in row.elts
                ):
                    yield base_name(writer), row


def _classes(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, list[tuple[ast.Constant | None, str]]]]:
    """Yield the names of classes without a method that makes their objects, and of named tuples, with their fields."""
    for node in nodes:
        match node:
            case ast.ClassDef(name=name, body=body):
                own = {each.name for each in body if isinstance(each, ast.FunctionDef)}
                fields = [last_name(each.target) for each in body if isinstance(each, ast.AnnAssign)]
                if fields and own.isdisjoint(("__init__", "__new__")):
                    yield name, [(None, field) for field in fields]
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=func, args=[_, fields])):
                if last_name(func) == "namedtuple":
                    yield name, [*_fields_of(fields)]


def _fields_of(fields: ast.AST) -> Iterator[tuple[ast.Constant | None, str]]:
    if isinstance(fields, ast.Constant) and isinstance(fields.value, str):
        yield from ((fields, name) for name in fields.value.replace(",", " ").split())
    elif isinstance(fields, ast.Tuple | ast.List):
        yield from ((each, str(each.value)) for each in fields.elts if isinstance(each, ast.Constant))
