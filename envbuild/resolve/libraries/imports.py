"""Which extension modules importing a wheel loads: read from its sources, of which nothing is run.

Followed is what Python certainly executes: import statements of modules at their top level, starting at the wheel's
packages. A statement in a function, under a condition, or whose failure the code handles without raising again is not
followed, nor is what compiled code or ``importlib`` imports. So what is found here is needed; what is not found may be.
"""

from __future__ import annotations

import ast
import re
import warnings
import zipfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

_EXTENSION = re.compile(r"(?P<stem>[A-Za-z0-9_]+)(?P<abi>\.cpython-[A-Za-z0-9_-]+|\.abi3)?\.so")
_DATA = re.compile(r"[^/]+\.data/(?:pure|plat)lib/")
_HANDLED = frozenset({"ImportError", "ModuleNotFoundError", "OSError", "Exception", "BaseException"})
_LARGEST = 4 << 20
"""Bytes of a module; a larger one holds tables, not imports."""


def is_extension(file: str) -> bool:
    """Return whether a file's name says that it is an extension module: it names the interface it was built for."""
    match = _EXTENSION.fullmatch(file.rsplit("/", 1)[-1])
    return match is not None and bool(match["abi"])


def loaded_on_import(path: Path, objects: Collection[str]) -> frozenset[str]:
    """Return the objects that importing the wheel's top-level modules and packages certainly loads.

    Args:
        path: the wheel.
        objects: paths in it of its ELF objects.
    """
    with zipfile.ZipFile(path) as archive:
        return _Wheel(archive, objects).loaded()


class _Wheel:
    """The modules of a wheel by dotted name."""

    def __init__(self, archive: zipfile.ZipFile, objects: Collection[str]) -> None:
        self._archive = archive
        self._sources: dict[str, str] = {}
        self._packages: set[str] = set()
        self._objects: dict[str, str] = {}
        for file in archive.namelist():
            parts = _DATA.sub("", file, count=1).split("/")
            if file.endswith(".py"):
                self._add_source(file, parts)
            elif file in objects and (match := _EXTENSION.fullmatch(parts[-1])):
                name = ".".join([*parts[:-1], match["stem"]])
                if match["abi"] or "." in name or not name.startswith("lib"):
                    self._objects.setdefault(name, file)

    def _add_source(self, file: str, parts: Sequence[str]) -> None:
        stem = parts[-1].removesuffix(".py")
        if stem == "__init__":
            self._packages.add(".".join(parts[:-1]))
        self._sources[".".join(parts[:-1] if stem == "__init__" else [*parts[:-1], stem])] = file

    def loaded(self) -> frozenset[str]:
        """Follow imports from every module that no package of the wheel contains."""
        found: set[str] = set()
        pending = [name for name in (*self._packages, *self._sources, *self._objects) if self._is_root(name)]
        seen = set(pending)
        while pending:
            name = pending.pop()
            if name in self._objects and name not in self._sources:
                found.add(self._objects[name])
            for other in self._imports(name) if name in self._sources else ():
                if other not in seen and (other in self._sources or other in self._objects):
                    seen.add(other)
                    pending.append(other)
        return frozenset(found)

    def _is_root(self, name: str) -> bool:
        """Return whether a module is imported by itself: at the top, or a package in a folder that is none."""
        parent = name.rpartition(".")[0]
        return not parent or (name in self._packages and parent not in self._packages)

    def _imports(self, name: str) -> Iterator[str]:
        """Yield the dotted names, with their parents, that a module's source imports."""
        file = self._sources[name]
        if self._archive.getinfo(file).file_size > _LARGEST:
            return
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about somebody else's escapes in strings
                tree = ast.parse(self._archive.read(file))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return
        package = name if name in self._packages else name.rpartition(".")[0]
        for target in _targets(_certain(tree.body), package):
            parts = target.split(".")
            yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))


def _targets(statements: Iterable[ast.Import | ast.ImportFrom], package: str) -> Iterator[str]:
    """Yield absolute names; of ``from a import b`` both ``a`` and ``a.b``, which may be a module."""
    for node in statements:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
            continue
        parents = package.split(".")
        base = parents[: len(parents) - node.level + 1] if node.level else []
        origin = ".".join([*base, *([node.module] if node.module else [])])
        yield origin
        yield from (f"{origin}.{alias.name}" for alias in node.names)


def _certain(body: Iterable[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the import statements that run whenever a module's top level does, and that must succeed."""
    for node in body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif isinstance(node, ast.Try):
            if not any(map(_swallows, node.handlers)):
                yield from _certain(node.body)
            yield from _certain(node.finalbody)
        elif isinstance(node, ast.ClassDef) or (isinstance(node, ast.With) and not _suppresses(node)):
            yield from _certain(node.body)
        elif isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            yield from _certain(node.orelse)


def _swallows(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler catches a failed import without raising in turn."""
    caught = "BaseException" if handler.type is None else ast.unparse(handler.type)
    raises = any(isinstance(node, ast.Raise) for node in ast.walk(handler))
    return not raises and bool(_HANDLED & set(re.findall(r"\w+", caught)))


def _suppresses(node: ast.With) -> bool:
    return any("suppress" in ast.unparse(item.context_expr) for item in node.items)
