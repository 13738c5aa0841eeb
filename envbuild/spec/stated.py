"""What a project states that it needs where it has neither requirements file nor project table: read, never run.

``setup.cfg``, the literal list in ``setup.py``, and Poetry's own table.
"""

from __future__ import annotations

import ast
import configparser
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_EXACT = re.compile(r"\d+(?:\.\d+)*(?:\.\*)?")


def of_setup(script: str, config: str) -> tuple[str, list[str]]:
    """Return which file lists requirements, and the list; both empty if neither does.

    Args:
        script: text of ``setup.py``; a list that it computes, or reads from a file, is not known.
        config: text of ``setup.cfg``.
    """
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(config)
        if lines := [line.strip() for line in parser.get("options", "install_requires", fallback="").splitlines()]:
            return "setup.cfg", [line for line in lines if line and not line.startswith("#")]
    except configparser.Error:
        pass
    try:
        lines = list(_literal(ast.parse(script)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "", []
    return ("setup.py", lines) if lines else ("", [])


def of_poetry(table: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return the requirement of Python, as PEP 440 writes it, and those of packages that are no folder and no address.

    Args:
        table: ``tool.poetry`` of ``pyproject.toml``.
    """
    dependencies = table.get("dependencies")
    lines, python = [], ""
    for name, value in _each(dependencies) if isinstance(dependencies, dict) else ():
        wanted = value.get("version") if isinstance(value, dict) else value
        if not isinstance(wanted, str) or (isinstance(value, dict) and value.get("optional")):
            continue
        if name == "python":
            python = _specifier(wanted)
            continue
        extras = value.get("extras") if isinstance(value, dict) else None
        names = f"[{','.join(map(str, extras))}]" if isinstance(extras, list) and extras else ""
        markers = f"; {value['markers']}" if isinstance(value, dict) and isinstance(value.get("markers"), str) else ""
        lines.append(f"{name}{names}{_specifier(wanted)}{markers}")
    return python, lines


def _each(dependencies: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each constraint of each package, of which one may have several, with markers."""
    for name, value in dependencies.items():
        for each in value if isinstance(value, list) else (value,):
            yield name, each


def asserted(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield modules and the versions that a program refuses to run without, as examples of Pyro and NumPyro do.

    That is ``assert numpyro.__version__.startswith("0.21.0")``, or ``==``.
    """
    for node in ast.walk(tree):
        match node:
            case ast.Assert(
                test=ast.Call(
                    func=ast.Attribute(
                        value=ast.Attribute(value=ast.Name(id=module), attr="__version__"), attr="startswith"
                    ),
                    args=[ast.Constant(value=str(version))],
                )
            ):
                version = version.rstrip(".") + ".*"
            case ast.Assert(
                test=ast.Compare(
                    left=ast.Attribute(value=ast.Name(id=module), attr="__version__"),
                    ops=[ast.Eq()],
                    comparators=[ast.Constant(value=str(version))],
                )
            ):
                pass
            case _:
                continue
        if _EXACT.fullmatch(version) is not None:
            yield module, version


def _literal(tree: ast.Module) -> Iterator[str]:
    """Yield the texts of ``install_requires``: a list in the call of ``setup``, or one under a name."""
    named = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "setup":
            for keyword in node.keywords:
                if keyword.arg == "install_requires":
                    value = keyword.value
                    yield from _texts(named.get(value.id) if isinstance(value, ast.Name) else value)


def _texts(node: ast.expr | None) -> Sequence[str]:
    if not isinstance(node, ast.List | ast.Tuple):
        return ()
    return [each.value for each in node.elts if isinstance(each, ast.Constant) and isinstance(each.value, str)]


def _specifier(wanted: str) -> str:
    """Write Poetry's constraint as PEP 440 has it; of alternatives (``||``) nothing."""
    parts = []
    for part in wanted.replace(" ", "").split(","):
        if part in {"", "*"}:
            continue
        if part[0] in "^~" and _EXACT.fullmatch(part[1:]) and "*" not in part:
            parts.append(f">={part[1:]},<{_above(part[0], part[1:])}")
        else:
            parts.append(f"=={part}" if _EXACT.fullmatch(part) else part)
    return "" if "|" in wanted else ",".join(parts)


def _above(sign: str, version: str) -> str:
    """Return the first version that ``^`` or ``~`` excludes (https://python-poetry.org/docs/dependency-specification)."""
    numbers = [int(each) for each in version.split(".")]
    if sign == "~":
        kept = min(len(numbers), 2)
    else:
        kept = next((place for place, number in enumerate(numbers, 1) if number), len(numbers))
    return ".".join(map(str, [*numbers[: kept - 1], numbers[kept - 1] + 1]))
