"""Where a program goes through the elements of a set, whose order follows the addresses of objects."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from envbuild.verification.causes.plain_sets import has_plain_elements
from envbuild.verification.dataflow.targets import elements, gone_through, is_none, last_name, written

_IN_ORDER = frozenset(("list", "tuple", "enumerate", "iter", "zip", "map"))
"""What takes the elements of its arguments in their order and keeps it."""
_AS_THEY_ARE = frozenset(("list", "tuple", "iter"))
"""Of these, what does nothing else: ``zip`` puts together what has the same place."""
_SPELT = frozenset(("str", "repr"))
"""Keys that are other ones for other values, as a rule."""
FOR_READERS = frozenset(("__repr__", "__str__"))
"""Methods in which ``str()`` makes a text that somebody reads; what it is made of has a text of its own mostly."""
_OF_GRAPHS = frozenset((
    "ancestors", "biconnected_components", "connected_components", "descendants", "dominating_set",
    "greedy_modularity_communities", "k_components", "kernighan_lin_bisection", "label_propagation_communities",
    "louvain_communities", "node_connected_component", "strongly_connected_components", "weakly_connected_components",
))  # fmt: skip
"""Functions of NetworkX that return sets of nodes, or go through several."""
_PICK = frozenset(("sorted", "min", "max"))
_ORDERLESS = frozenset(("sorted", "set", "frozenset", "any", "all", "min", "max", "len"))


def sets_in_order(tree: ast.Module) -> Iterator[tuple[int, int]]:
    """Yield where a program goes through a set, as far as one file shows that it is one.

    Yields:
        The line, and that which made the set; 0 if that is the same one.
    """
    named = _named_sets(tree)
    unordered = {id(generator) for node in ast.walk(tree) for generator in _without_order(node)}
    readers = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name in FOR_READERS)
    unordered |= {id(node) for method in readers for node in ast.walk(method)}
    for node in ast.walk(tree):
        sources: list[ast.expr] = []
        if isinstance(node, ast.For | ast.comprehension) and id(node) not in unordered:
            sources = [node.iter]
        elif isinstance(node, ast.Call) and _keeps_order(node) and id(node) not in unordered:
            sources = node.args
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "pop":
            sources = [] if node.args else [node.func.value]  # of a set it takes any element
        for source in sources:
            if _is_set(source, named):
                yield source.lineno, named.get(written(source), 0)


def _named_sets(tree: ast.Module) -> dict[str, int]:
    """Return the names and attributes (``.children``) that hold sets, with the line that made each.

    An attribute that another line gives something else than a set, or nothing, may be that of another class: it is left
    out.
    """
    found: dict[str, int] = {}
    others: set[str] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        if isinstance(node, ast.Assign) and _gives_two_sets(node.value):
            pairs = (each for each in node.targets if isinstance(each, ast.Tuple))
            found.update({written(each): node.lineno for pair in pairs for each in pair.elts})
        annotated = isinstance(node, ast.AnnAssign) and _says_set(node.annotation)
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            name = written(target)
            if isinstance(node, ast.AnnAssign) and _of_plain_values(node.annotation):
                others |= {name, f".{name}"}
            elif annotated or (node.value is not None and _is_set(node.value, ())):
                found.setdefault(name, node.lineno)
            elif name.startswith(".") and node.value is not None and not is_none(node.value):
                others.add(name)
    found.update(_sets_of_loops(tree, found))
    for node in ast.walk(tree):  # fields of a class are attributes of its objects
        for field_ in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(field_, ast.Assign | ast.AnnAssign):
                names = map(written, field_.targets if isinstance(field_, ast.Assign) else [field_.target])
                found.update({f".{name}": found[name] for name in names if name in found})
    return {name: line for name, line in found.items() if name and name not in others}


def _sets_of_loops(tree: ast.Module, named: Collection[str]) -> dict[str, int]:
    """Return the names by which loops go through lists and dicts of sets, with the line that made these."""
    kept: dict[str, int] = {}
    found: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.comprehension) and _of_graphs(node.iter):
            found[written(node.target)] = node.iter.lineno
        elif isinstance(node, ast.Assign) and _of_graphs(node.value):
            found.update({written(target): node.lineno for target in node.targets})
            kept.update({written(target): node.lineno for target in node.targets})
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(_is_set(each, named) for each in elements(node.value)):
            kept.update({written(target): node.lineno for target in node.targets})
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.comprehension):
            for target, source in gone_through(node.target, node.iter):
                if (name := written(source)) in kept and isinstance(target, ast.Name):
                    found[target.id] = kept[name]
    return found


def _of_graphs(node: ast.expr) -> bool:
    """Whether an expression is what such a function of NetworkX returns, sorted or as a list, too."""
    if not isinstance(node, ast.Call):
        return False
    if last_name(node.func) in _OF_GRAPHS:
        return True
    kept = last_name(node.func) in (*_AS_THEY_ARE, *_PICK, "next", "enumerate")
    return kept and bool(node.args) and _of_graphs(node.args[0])


def _gives_two_sets(value: ast.expr) -> bool:
    """Whether a value is the tasks or futures that are done, and those that are not: ``await asyncio.wait(…)``."""
    call = value.value if isinstance(value, ast.Await) else value
    if not isinstance(call, ast.Call) or last_name(call.func) != "wait" or not call.args:
        return False
    return ast.unparse(call.func) != "ray.wait"  # which gives lists


def _of_plain_values(annotation: ast.expr) -> bool:
    """Whether an annotation is that of a set of texts or numbers, whose hashes are the same in each run."""
    plain = isinstance(annotation, ast.Subscript) and last_name(annotation.slice) in (
        "str",
        "bytes",
        "int",
        "float",
        "bool",
    )
    return plain and _says_set(annotation)


def _says_set(annotation: ast.expr) -> bool:
    """Whether an annotation is that of a set: ``set[Node]``, ``typing.Set``."""
    node = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    return last_name(node) in ("set", "frozenset", "Set", "FrozenSet", "AbstractSet", "MutableSet", "WeakSet")


def _is_by_name(call: ast.Call, names: Collection[str]) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id in names


def _without_order(node: ast.AST) -> Iterator[ast.comprehension | ast.Call]:
    """Yield what goes through something whose order is lost again.

    That are loops of a set comprehension, and what such as ``sorted`` is given: loops, and ``sorted(list(set(text)))``.
    With a key of its own it is not lost: what has the same key stays in the order in which it came.
    """
    if isinstance(node, ast.SetComp):
        yield from node.generators
    elif isinstance(node, ast.Call) and _is_by_name(node, _ORDERLESS) and not _has_ties(node):
        for given in node.args:
            if isinstance(given, ast.GeneratorExp | ast.ListComp):
                yield from given.generators
            elif isinstance(given, ast.Call) and _is_by_name(given, _AS_THEY_ARE):
                yield given


def _keeps_order(call: ast.Call) -> bool:
    """Whether what a call gives depends on the order in which its arguments have their elements."""
    return _is_by_name(call, _IN_ORDER) or (_is_by_name(call, _PICK) and _has_ties(call))


def _has_ties(call: ast.Call) -> bool:
    """Whether a call has a key that may be the same for other values."""
    key = next((word.value for word in call.keywords if word.arg == "key"), None)
    return not (key is None or is_none(key) or (isinstance(key, ast.Name) and key.id in _SPELT))


def _is_set(node: ast.expr, named: Collection[str]) -> bool:
    if isinstance(node, ast.Name | ast.Attribute):
        return written(node) in named
    made = isinstance(node, ast.Call) and last_name(node.func) in ("set", "frozenset", "WeakSet")
    return (made or isinstance(node, ast.Set | ast.SetComp)) and not has_plain_elements(node)
