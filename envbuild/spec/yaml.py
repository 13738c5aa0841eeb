"""YAML text to a tree that remembers lines and source text: the subset of YAML that a spec may use.

Values are not resolved here. YAML 1.1 makes ``3.10`` the number 3.1, ``no`` a boolean and ``010`` eight; the tree keeps
what was typed, and the reader of each field decides (spec_fields.py). Anchors, aliases, tags and further documents
are refused, so nothing can expand, refer back or construct an object. Source: https://yaml.org/spec/1.1/.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envbuild.core.text import quote
from envbuild.errors import Problem

MAX_LENGTH = 1 << 20
MAX_DEPTH = 20
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Scalar:
    """One value as typed; ``quoted`` also holds for block scalars. ``line`` is 1-based, here and below."""

    text: str
    quoted: bool
    line: int

    @property
    def is_null(self) -> bool:
        """Whether YAML reads this as nothing."""
        return not self.quoted and self.text in _NULLS


@dataclass(frozen=True, kw_only=True, slots=True)
class Items:
    """A sequence."""

    nodes: tuple[Node, ...]
    line: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Mapping:
    """A mapping; equal keys may still occur twice."""

    entries: tuple[tuple[Scalar, Node], ...]
    line: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Broken:
    """Marks where a problem was already reported."""

    line: int


Node = Scalar | Items | Mapping | Broken


@dataclass(kw_only=True, slots=True)
class Report:
    """Collects problems, and the line of every field path seen.

    Attributes:
        base: folder that the files named must be in; None: do not look.
    """

    base: Path | None = None
    problems: list[Problem] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)

    def add(self, path: str, message: str, line: int = 0) -> None:
        """Add one problem; without a line, that of the path or of its nearest parent is taken."""
        parent = path
        while not line and parent:
            line = self.lines.get(parent, 0)
            parent = parent[: max(parent.rfind("."), parent.rfind("["), 0)]
        self.problems.append(Problem(path=path, message=message, line=line))


def describe(node: Node) -> str:
    """Describe in a few words what was found."""
    if isinstance(node, Scalar):
        return "nothing" if node.is_null else quote(node.text)
    return "a list" if isinstance(node, Items) else "a mapping"


def read_yaml(text: str, report: Report) -> Node | None:
    """Parse one YAML document; what is wrong with it goes to ``report``.

    Returns:
        The tree, or None if there is none: empty, or not YAML.
    """
    import yaml

    if len(text) > MAX_LENGTH:
        report.add("", f"a spec has at most {MAX_LENGTH:,} characters, found {len(text):,}", 1)
        return None
    if surrogate := next((c for c in text if "\ud800" <= c <= "\udfff"), ""):
        report.add("", f"not UTF-8 text: lone surrogate U+{ord(surrogate):04X}", 1)
        return None
    try:
        events = yaml.parse(text, Loader=yaml.SafeLoader)
        return _document(iter(events), report)
    except _StopError:
        return None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        report.add("", f"not valid YAML: {_explain(error.problem or str(error))}", line)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        report.add("", f"not valid YAML: character U+{_code(error.character):04X} is not allowed", line)
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # PyYAML lets chr()'s errors through
        report.add("", f"not valid YAML: {error}", 1)
    return None


class _StopError(Exception):
    """The rest of the document cannot be read; the reason is in the report."""


def _code(character: Any) -> int:
    return character if isinstance(character, int) else ord(character)


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _explain(problem: str) -> str:
    """Add the usual cause to PyYAML's words."""
    if "'\\t'" in problem:
        return f"{problem} — indent with spaces, not tabs"
    if "cannot start any token" in problem:
        return f"{problem} — put the value in quotes"
    if "mapping values are not allowed" in problem:
        return f"{problem} — a value with ': ' in it needs quotes; keys of one mapping need equal indentation"
    if "expected ',' or ']'" in problem:
        return f"{problem} — a value with [ ] in it needs quotes"
    return problem


def _document(events: Iterator[Any], report: Report) -> Node | None:
    from yaml import events as kinds

    root: Node | None = None
    for event in events:
        if isinstance(event, kinds.DocumentStartEvent):
            if root is not None:
                report.add("", "expected one YAML document, found a second one after ---", _line(event))
                raise _StopError
            root = _node(next(events), events, report, 0)
    if root is None or (isinstance(root, Scalar) and root.is_null):
        report.add("", "empty: expected at least name and requirements", 1)
        return None
    return root


def _node(event: Any, events: Iterator[Any], report: Report, depth: int) -> Node:
    from yaml import events as kinds

    line = _line(event)
    if depth > MAX_DEPTH:
        report.add("", f"nested more than {MAX_DEPTH} levels deep", line)
        raise _StopError
    if isinstance(event, kinds.AliasEvent):
        report.add("", f"*{event.anchor}: a spec has no anchors and aliases — write the value out", line)
        return Broken(line=line)
    if event.anchor is not None:
        report.add("", f"&{event.anchor}: a spec has no anchors and aliases — write the value out", line)
    if event.tag is not None:
        report.add("", f"{quote(event.tag)}: a spec has no tags — write the plain value", line)
    if isinstance(event, kinds.SequenceStartEvent):
        nodes = []
        while not isinstance(event := next(events), kinds.SequenceEndEvent):
            nodes.append(_node(event, events, report, depth + 1))
        return Items(nodes=tuple(nodes), line=line)
    if isinstance(event, kinds.MappingStartEvent):
        return _mapping(events, report, depth, line)
    text = str(event.value)
    if any("\ud800" <= c <= "\udfff" for c in text):
        report.add("", "a lone surrogate is no character", line)
        return Broken(line=line)
    return Scalar(text=text, quoted=event.style is not None, line=line)


def _mapping(events: Iterator[Any], report: Report, depth: int, line: int) -> Mapping:
    from yaml import events as kinds

    entries = []
    while not isinstance(event := next(events), kinds.MappingEndEvent):
        key = _node(event, events, report, depth + 1)
        value = _node(next(events), events, report, depth + 1)
        if isinstance(key, Scalar):
            entries.append((key, value))
        elif not isinstance(key, Broken):
            report.add("", f"expected a word as key, found {describe(key)}", key.line)
    return Mapping(entries=tuple(entries), line=line)
