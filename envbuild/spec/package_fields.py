"""The kinds of fields that only a spec has: requirements, requirements files and folders of wheels."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envbuild.core.text import names_in, perhaps, quote
from envbuild.spec import foreign, places, validators
from envbuild.spec.fields import MISSING, Field, Schema, Table, Text, wrong
from envbuild.spec.yaml import Items, Node, Report, Scalar
from envbuild.spec.yaml import Mapping as MappingNode


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """A requirements file, by path relative to the spec."""

    path: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FilePath:
    """Reads the path of a requirements file as ``File``; it must exist.

    Attributes:
        alone: it may be given in place of a list, so that it may be meant as a package.
    """

    alone: bool = False

    def read(self, node: Node, path: str, report: Report) -> Any:
        """Read a scalar."""
        value = Text(expected="a path", check=validators.relative).read(node, path, report)
        if value is MISSING:
            return MISSING
        if report.base is not None and not os.path.isfile(report.base / value):  # noqa: PTH113 - never raises
            near = perhaps(Path(value).name, names_in((report.base / value).parent))
            if not near and self.alone and _is_package(value):
                near = f" — for a package, write a list: [{value}]"
            report.add(path, f"no file {quote(value)} in the spec's folder{near}", node.line)
        elif why := foreign.refusal(value, _beginning(report.base / value) if report.base is not None else ""):
            report.add(path, why, node.line)
        return File(path=value)

    def schema(self) -> Schema:
        """Return a string schema."""
        return {"type": "string", "description": "Path of a requirements file.", "minLength": 1}


def _beginning(path: Path) -> str:
    """Return the first bytes of a file as text."""
    try:
        with path.open("rb") as stream:
            return stream.read(1 << 16).decode("utf-8", "replace")
    except OSError:
        return ""


def _is_package(text: str) -> bool:
    try:
        validators.requirement(text)
    except ValueError:
        return False
    return len(text) <= 60 and not text.endswith((".txt", ".in"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Folder:
    """Reads the path of a folder of wheels; it must exist."""

    def read(self, node: Node, path: str, report: Report) -> Any:
        """Read a scalar."""
        value = Text(expected="a folder", check=validators.folder).read(node, path, report)
        if value is not MISSING and report.base is not None and not os.path.isdir(report.base / value):  # noqa: PTH112
            report.add(path, f"no folder {quote(value)}", node.line)
        return value

    def schema(self) -> Schema:
        """Return a string schema."""
        return {"type": "string", "minLength": 1}


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyFile:
    """Reads the path of a file with OpenPGP certificates; it must exist."""

    def read(self, node: Node, path: str, report: Report) -> Any:
        """Read a scalar."""
        value = Text(expected="a path", check=validators.relative).read(node, path, report)
        if value is not MISSING and report.base is not None and not os.path.isfile(report.base / value):  # noqa: PTH113
            near = perhaps(Path(value).name, names_in((report.base / value).parent))
            report.add(path, f"no file {quote(value)} in the spec's folder{near}", node.line)
        return value

    def schema(self) -> Schema:
        """Return a string schema."""
        return {"type": "string", "minLength": 1}


@dataclass(frozen=True, kw_only=True, slots=True)
class Tables:
    """Reads a list of mappings."""

    table: Table
    expected: str

    def read(self, node: Node, path: str, report: Report) -> Any:
        """Return one mapping of values per item."""
        if not isinstance(node, Items):
            return wrong(self.expected, node, path, report, " — write [] for none")
        found = []
        for index, child in enumerate(node.nodes):
            here = f"{path}[{index}]"
            report.lines[here] = child.line
            value = self.table.read(child, here, report)
            found += [] if value is MISSING else [value]
        return tuple(found)

    def schema(self) -> Schema:
        """Return an array schema."""
        return {"type": "array", "items": self.table.schema()}


@dataclass(frozen=True, kw_only=True, slots=True)
class Requirement:
    """Reads a PEP 508 line, or a file as ``-r path`` or ``{file: path}``."""

    def read(self, node: Node, path: str, report: Report) -> Any:
        """Return a normalised line, a ``File`` or a ``Place``."""
        if isinstance(node, MappingNode):
            table = Table(fields={"file": Field(kind=FilePath(), doc="")}, expected="a requirement or {file: PATH}")
            return table.read(node, path, report).get("file", MISSING)
        expected = "a requirement, -r PATH or {file: PATH}"
        if isinstance(node, Scalar) and not node.is_null:
            for option in ("-r", "--requirement", "--requirements"):
                if node.text.startswith((f"{option} ", f"{option}=")):
                    rest = node.text[len(option) + 1 :].strip()
                    return FilePath().read(Scalar(text=rest, quoted=True, line=node.line), path, report)
            if places.is_place(node.text):
                return _project(node, path, report)
        return Text(expected=expected, check=validators.requirement).read(node, path, report)

    def schema(self) -> Schema:
        """Return both forms."""
        line = {
            "type": "string",
            "description": "A PEP 508 requirement, -r and a path, a project's folder or git+https.",
            "minLength": 1,
        }
        table = {
            "type": "object",
            "properties": {"file": FilePath().schema()},
            "required": ["file"],
            "additionalProperties": False,
        }
        return {"anyOf": [line, table]}


def _project(node: Scalar, path: str, report: Report) -> Any:
    """Read a project; a folder must exist."""
    try:
        found = places.place(node.text)
    except ValueError as error:
        report.add(path, str(error), node.line)
        return MISSING
    if report.base is not None and found.path and not os.path.isdir(report.base / found.path):  # noqa: PTH112
        report.add(path, f"no folder {quote(found.path)}", node.line)
    return found
