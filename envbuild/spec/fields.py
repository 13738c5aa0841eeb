"""The kinds of fields a spec is made of: each reads a node of the tree, and writes its own JSON Schema.

One table of fields (spec_keys.py) thus gives the parser, the schema that editors complete from, and the reference
in docs/reference/spec.md. A reader never raises: it reports every problem and returns ``MISSING``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from envbuild.core.text import either, perhaps, quote
from envbuild.spec.yaml import Broken, Items, Node, Report, Scalar, describe
from envbuild.spec.yaml import Mapping as MappingNode

Schema = dict[str, Any]
MISSING: Any = object()
"""What a reader returns when there is no valid value."""

_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
_FLAGS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_FLAG_WORDS = {"yes": "true", "on": "true", "1": "true", "no": "false", "off": "false", "0": "false"}


class Kind(Protocol):
    """Reads one sort of value."""

    def read(self, node: Node, path: str, report: Report) -> Any:
        """Return the value, or report what is wrong and return ``MISSING``."""

    def schema(self) -> Schema:
        """Return the JSON Schema of what ``read`` accepts."""


def wrong(expected: str, node: Node, path: str, report: Report, more: str = "") -> Any:
    """Report ``expected …, found …`` and return ``MISSING``; a node already reported is passed over."""
    if not isinstance(node, Broken):
        report.add(path, f"expected {expected}, found {describe(node)}{more}", node.line)
    return MISSING


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """A text, taken as typed: ``3.10`` stays ``3.10`` and ``no`` stays ``no``.

    Attributes:
        expected: a noun phrase for messages.
        check: returns the normalised text or raises ``ValueError`` with a whole sentence.
        rules: what the JSON Schema has beyond the type.
        loose: further types that an editor may see where the spec means the text: ``number``, ``boolean``.
    """

    expected: str
    check: Callable[[str], str]
    rules: Mapping[str, Any] = field(default_factory=dict)
    loose: tuple[str, ...] = ()

    def read(self, node: Node, path: str, report: Report) -> Any:
        """Read a scalar."""
        if not isinstance(node, Scalar) or node.is_null:
            return wrong(self.expected, node, path, report)
        try:
            return self.check(node.text)
        except ValueError as error:
            report.add(path, str(error), node.line)
            return MISSING

    def schema(self) -> Schema:
        """Return a string schema."""
        return {"type": ["string", *self.loose] if self.loose else "string", **self.rules}


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """One of a few words.

    Attributes:
        values: word and what it means.
        short: other spellings of a word.
        reserved: words with a meaning to come, each with the sentence that refuses it.
    """

    values: Mapping[str, str]
    short: Mapping[str, str] = field(default_factory=dict)
    reserved: Callable[[str], str] = lambda text: ""

    def read(self, node: Node, path: str, report: Report) -> Any:
        """Read a word; an absent word (``~``) is wrong even where ``none`` is a value."""
        if not isinstance(node, Scalar) or node.is_null:
            return wrong(either(self.values), node, path, report)
        text = self.short.get(node.text, node.text)
        if text in self.values:
            return text
        if sentence := self.reserved(text):
            report.add(path, f"{quote(text)}: {sentence}", node.line)
            return MISSING
        return wrong(either(self.values), node, path, report, perhaps(text, [*self.values, *self.short]))

    def schema(self) -> Schema:
        """Return an enumeration, with the meaning of each word where editors look for it."""
        words = [*self.values, *self.short]
        meanings = [self.values[self.short.get(word, word)] for word in words]
        return {"enum": words, "markdownEnumDescriptions": meanings}


@dataclass(frozen=True, kw_only=True, slots=True)
class Whole:
    """A whole number from ``low`` to ``high``, in decimal digits."""

    low: int
    high: int

    def read(self, node: Node, path: str, report: Report) -> Any:
        """Read a number; ``010`` is 8 or 10 depending on the YAML version, so it is refused."""
        expected = f"a whole number from {self.low:,} to {self.high:,}"
        if not isinstance(node, Scalar):
            return wrong(expected, node, path, report)
        if _WHOLE.fullmatch(node.text):
            if node.quoted:
                return wrong(expected, node, path, report, " in quotes — remove the quotes")
            if self.low <= int(node.text) <= self.high:
                return int(node.text)
        odd = not _WHOLE.fullmatch(node.text) and re.fullmatch(r"[+0-9][0-9_xob]*", node.text)
        more = " — write it in plain decimal digits" if odd else ""
        return wrong(expected, node, path, report, more)

    def schema(self) -> Schema:
        """Return an integer schema with its bounds."""
        return {"type": "integer", "minimum": self.low, "maximum": self.high}


@dataclass(frozen=True, kw_only=True, slots=True)
class Flag:
    """``true`` or ``false``; ``yes`` and ``no`` are words in YAML 1.2 and booleans in 1.1, so they are refused."""

    def read(self, node: Node, path: str, report: Report) -> Any:
        """Read a truth value."""
        if isinstance(node, Scalar) and not node.quoted and node.text in _FLAGS:
            return _FLAGS[node.text]
        word = _FLAG_WORDS.get(node.text.lower(), "") if isinstance(node, Scalar) else ""
        return wrong("true or false", node, path, report, f" — write {word}" if word else "")

    def schema(self) -> Schema:
        """Return the boolean schema."""
        return {"type": "boolean"}


@dataclass(frozen=True, kw_only=True, slots=True)
class ListOf:
    """A list; the same value twice is a mistake.

    Attributes:
        alone: reads a plain text where a list of one would do; without it a list must be a list.
    """

    item: Kind
    expected: str
    alone: Kind | None = None

    def read(self, node: Node, path: str, report: Report) -> Any:
        """Read every item, valid or not, so that all problems show."""
        if isinstance(node, Scalar) and not node.is_null:
            if self.alone is not None:
                value = self.alone.read(node, path, report)
                return MISSING if value is MISSING else (value,)
            return wrong(
                self.expected, node, path, report, f" — write [{node.text}]" if node.text.isprintable() else ""
            )
        if not isinstance(node, Items):
            return wrong(self.expected, node, path, report, " — write [] for none")
        values: dict[Any, str] = {}
        for index, child in enumerate(node.nodes):
            here = f"{path}[{index}]"
            report.lines[here] = child.line
            value = self.item.read(child, here, report)
            if value is MISSING:
                continue
            if value in values:
                report.add(here, f"{describe(child)} is in the list already, at {values[value]}", child.line)
            values.setdefault(value, here)
        return tuple(values)

    def schema(self) -> Schema:
        """Return an array schema, or either form."""
        array: Schema = {"type": "array", "items": self.item.schema(), "uniqueItems": True}
        return {"anyOf": [self.alone.schema(), array]} if self.alone else array


@dataclass(frozen=True, kw_only=True, slots=True)
class MapOf:
    """A mapping of checked names to texts."""

    key: Callable[[str, str], str]
    value: Kind
    expected: str
    rules: Mapping[str, Any] = field(default_factory=dict)

    def read(self, node: Node, path: str, report: Report) -> Any:
        """Read every entry; ``key(name, text)`` returns what is wrong with it, if anything."""
        if not isinstance(node, MappingNode):
            return wrong(self.expected, node, path, report)
        values = {}
        for key, child, here in entries(node, path, report):
            text = child.text if isinstance(child, Scalar) else ""
            if problem := self.key(key, text):
                report.add(here, problem, child.line)
            values[key] = self.value.read(child, here, report)
        return values

    def schema(self) -> Schema:
        """Return an object schema."""
        return {"type": "object", "additionalProperties": self.value.schema(), **self.rules}


@dataclass(frozen=True, kw_only=True, slots=True)
class Field:
    """One key: how it is read, what it means, its default as JSON (``MISSING``: required), and examples as YAML."""

    kind: Kind
    doc: str
    default: Any = MISSING
    default_doc: str = ""
    examples: Sequence[Any] = ()

    def schema(self) -> Schema:
        """Return the kind's schema with what an editor shows next to it."""
        schema: Schema = {"description": self.doc, **self.kind.schema()}
        if self.default is not MISSING and self.default is not None:
            schema["default"] = self.default
        return {**schema, **({"examples": list(self.examples)} if self.examples else {})}


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A mapping with known keys.

    Attributes:
        fields: the keys.
        elsewhere: words that people write here and the key that they mean.
        refused: keys of other places that are refused here, each with the rest of the sentence.
        alone: the key that a plain text represents, if any.
        words: texts that may be given instead of the mapping, with what each means; they are the value then.
        check: reports what no single key shows; given the valid values and the field path.
    """

    fields: Mapping[str, Field]
    expected: str
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    alone: str = ""
    words: Mapping[str, str] = field(default_factory=dict)
    check: Callable[[dict[str, Any], str, Report], None] = lambda values, path, report: None

    def read(self, node: Node, path: str, report: Report) -> Any:
        """Return the values given, by key; unknown, repeated and missing keys are reported."""
        if self.alone and isinstance(node, Scalar) and not node.is_null:
            value = self.fields[self.alone].kind.read(node, path, report)
            return MISSING if value is MISSING else {self.alone: value}
        if self.words and isinstance(node, Scalar) and not node.is_null:
            near = perhaps(node.text, self.words)
            return node.text if node.text in self.words else wrong(self.expected, node, path, report, near)
        if not isinstance(node, MappingNode):
            return wrong(self.expected, node, path, report)
        values = {}
        seen = set()
        for key, child, here in entries(node, path, report):
            seen.add(key)
            if key in self.fields:
                values[key] = self.fields[key].kind.read(child, here, report)
            elif key in self.refused:
                report.add(here, self.refused[key], report.lines[here])
            else:
                hint = self.elsewhere.get(key.lower(), "")
                hint = f" — perhaps you meant {hint}" if hint else perhaps(key, self.fields)
                report.add(here, f"unknown key{hint}", report.lines[here])
        for key, spec in self.fields.items():
            if spec.default is MISSING and key not in seen:
                example = f" — e.g. {key}: {spec.examples[0]}" if spec.examples else ""
                report.add(f"{path}.{key}" if path else key, f"missing{example}", node.line)
        values = {key: value for key, value in values.items() if value is not MISSING}
        self.check(values, path, report)
        return values

    def schema(self) -> Schema:
        """Return an object schema that refuses unknown keys."""
        table: Schema = {
            "type": "object",
            "properties": {key: {"title": key, **spec.schema()} for key, spec in self.fields.items()},
            "additionalProperties": False,
        }
        if required := [key for key, spec in self.fields.items() if spec.default is MISSING]:
            table["required"] = required
        if self.words:
            return {"anyOf": [{"enum": [*self.words], "markdownEnumDescriptions": [*self.words.values()]}, table]}
        return {"anyOf": [self.fields[self.alone].kind.schema(), table]} if self.alone else table


def entries(node: MappingNode, path: str, report: Report) -> Iterator[tuple[str, Node, str]]:
    """Yield key, value and field path of each entry; the second of two equal keys is reported and left out."""
    first: dict[str, int] = {}
    for key, child in node.entries:
        name = key.text if key.text.isprintable() and len(key.text) <= 80 else quote(key.text)
        here = f"{path}.{name}" if path else name
        if key.text in first:
            report.add(here, f"given twice; first on line {first[key.text]}", key.line)
            continue
        first[key.text] = report.lines[here] = key.line
        yield key.text, child, here
