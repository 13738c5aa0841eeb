"""XML, such as JUnit's reports and PMML: elements, attributes and texts in their order. Nothing is fetched."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from xml.parsers import expat

from envbuild.core.patterns import lazy
from envbuild.record.measurements import kind_of, names_result
from envbuild.verification.content import values
from envbuild.verification.content.canonical import NESTED, Canonical, UnreadableError, below

_SUITES = frozenset(("testsuites", "testsuite", "testcase"))
_TIMED = {"time": "time", "timestamp": "time", "hostname": "identity"}
"""Attributes of JUnit's elements that are measurements. Elsewhere a bare ``time`` may be data."""
_BARE = lazy(r"[a-z]+|[A-Z][a-z]*|[A-Z]+")
"""A name of one word, such as ``time``, decides nothing by itself: XML holds data of all kinds."""
_SURE = frozenset(("elapsed", "walltime"))
"""Words that no data have."""
_SECONDS = lazy(r"\d+(?:\.\d*)?(?:e-?\d+)?")
_NUMBER = lazy(r"\d+(?:\.\d*)?(?:e[+-]?\d+)?")
_SPANS = frozenset(("rowspan", "colspan"))
_TAG = lazy(r"<(/?)(table|thead|tbody|tfoot|tr|th|td)\b([^<>]*)>([^<]*)", re.IGNORECASE)
_CELL = lazy(r"\s*<td\b[^<>]*>[^<]*</td>\s*", re.IGNORECASE)
"""A line that is one cell, as pandas writes tables."""
_PAGES = frozenset(("svg", "html"))
_WHOLE = lazy(r"\s*<(?:[?!]|html\b|svg\b)", re.IGNORECASE)
_EVENTS = 1_000_000

Event = Callable[[Canonical], None]


class _Heads:
    """The names of a table's columns, as pandas writes them: one in each cell of the last row of ``thead``.

    In a table without it they are in the first row, if all its cells are ``th``; these are for experiments alone.
    Where that has the name of the index alone, they are in the row above. A row's own name is in its first cell, if
    that is a ``th``. It names a place, for experiments, and leaves nothing out: rows of coefficients have the names of
    what they belong to, such as ``wait_time``.

    Attributes:
        row: the name of the row so far; empty if it has none.
    """

    def __init__(self) -> None:
        self._names: list[str] = []
        self._above: list[str] = []
        self._at = -1
        self._in_head = False
        self._first: bool | None = None
        """Whether this row is the first one, without ``thead``, and so far all its cells are ``th``; None before it."""
        self._written: list[str] = []
        """What is in the first row."""
        self.row = ""
        self._spans = False

    def start(self, element: str, *, spans: bool) -> None:
        """Take the beginning of an element; with one that ``spans`` several places no column is known any more."""
        self._spans = self._spans or spans
        if element in ("thead", "tbody", "tfoot"):
            self._in_head = element == "thead"
        elif element == "tr":
            self._at, self.row = -1, ""
            self._first = self._first is None and not self._in_head
            if self._in_head:
                self._above, self._names = self._names, []
        elif element in ("th", "td"):
            self._at += 1
            if self._first and element == "td":
                self.row = self._written[0] if self._written else ""
                self._first, self._written = False, []
            if self._in_head:
                self._names.append("")
            elif self._first:
                self._written.append("")

    def text(self, element: str, text: str) -> str:
        """Take a text; return its column's name if that, of two words or more, shows a number to be measured."""
        if self._in_head and element == "th" and self._names:
            self._names[-1] = text.strip()
        elif self._first and element == "th" and self._written:
            self._written[-1] = text.strip()
        elif element == "th" and self._at == 0:
            self.row = text.strip()
        elif element == "td" and not self._in_head and not self._spans and self._at < len(self._names):
            name = _key(self._column())
            return name if kind_of(name) is not None and _NUMBER.fullmatch(text) else ""
        return ""

    def place(self) -> str:
        """Return what names a cell for experiments: its row, or its column if that is one of times or rates."""
        column = ""
        if not self._in_head and not self._first and not self._spans and self._at >= 0:
            if self._at < len(self._names):
                column = self._column()
            elif not self._names and self._at < len(self._written):
                column = self._written[self._at]
        return column if kind_of(column) in ("time", "rate") and not names_result(self.row) else self.row

    def label(self, text: str) -> str:
        """Return what the first cell of a row says of the others where nothing else names them; empty for a number."""
        named = self._names or any(self._written) or self._spans or self._at > 0
        return "" if named or _NUMBER.fullmatch(text.strip()) else text.strip()

    def _column(self) -> str:
        of_index = len(self._above) == len(self._names) and not any(self._names[1:])
        return (self._above if of_index else self._names)[self._at]


class Page:
    """The tables of a page that is read by lines."""

    def __init__(self) -> None:
        self._tables: list[_Heads] = []

    def cells(self, text: str) -> list[tuple[str, str]]:
        """Take a line; return what names it for experiments if it is one cell of a table, or its cells if it is a row.

        Returns:
            Names, empty for none, and the parts of the line, which are all of it.
        """
        parts: list[tuple[str, str]] = []
        begin, label = 0, ""
        for found in _TAG.finditer(text):
            ends, element, attributes, shown = found[1], found[2].lower(), found[3].lower(), found[4]
            if element == "table":
                self._tables = self._tables[:-1] if ends else [*self._tables[:NESTED], _Heads()]
            elif self._tables and not ends:
                self._tables[-1].start(element, spans=any(each in attributes for each in _SPANS))
                self._tables[-1].text(element, shown)
                if element == "tr":
                    label = ""
                if element == "td":
                    parts.append((self._tables[-1].place() or label, text[begin : found.end()]))
                    begin = found.end()
                    label = label or self._tables[-1].label(shown)
        if len(parts) > 1:
            return [*parts, ("", text[begin:])]
        return [(self._tables[-1].place() if self._tables and _CELL.fullmatch(text) is not None else "", text)]


@dataclass
class _Reader:
    """Takes the events of a parser, to be counted when the document proved to be whole.

    Args:
        path: of the document.
    """

    path: str
    root: str = ""
    events: list[Event] = field(default_factory=list)
    _open: list[tuple[str, str]] = field(default_factory=list)
    _text: list[str] = field(default_factory=list)
    _tables: list[_Heads] = field(default_factory=list)

    def start(self, tag: str, attributes: list[str]) -> None:
        self._flush()
        local = tag.rpartition(":")[2]
        self.root = self.root or local.lower()
        if len(self._open) >= NESTED:
            raise UnreadableError("nested too deep")
        where = below(self._open[-1][0] if self._open else self.path, tag)
        self._open.append((where, local))
        table = dict(zip(attributes[::2], attributes[1::2], strict=True))
        if local == "table":
            self._tables.append(_Heads())
        elif self._tables:
            self._tables[-1].start(local, spans=not table.keys().isdisjoint(_SPANS))
        self._take(lambda out: out.add(where, f"<{tag} {len(table)}"))
        for name, value in table.items():
            self._take(_attribute(below(where, name), local, name, value, table.get("name", "")))

    def end(self, tag: str) -> None:
        self._flush()
        where, local = self._open.pop()
        if local == "table":
            self._tables.pop()
        self._take(lambda out: out.add(where, ">"))

    def text(self, data: str) -> None:
        self._text.append(data)

    def comment(self, data: str) -> None:
        self._flush()
        self._take(lambda out: values.string(out, below(self.path, "comment", " "), "", data))

    def instruction(self, target: str, data: str) -> None:
        self._flush()
        self._take(lambda out: out.add(self.path, f"<?{target} {data}"))

    def document(self, *facts: object) -> None:
        self._take(lambda out: out.add(self.path, repr(facts)))

    def refuse(self, *_: object) -> None:
        raise UnreadableError("a document that declares entities")

    def _flush(self) -> None:
        if self._text:
            text, (where, local) = "".join(self._text), self._open[-1]
            self._text.clear()
            if self._tables and (named := self._tables[-1].text(local, text)):
                self._take(lambda out: values.number(out, below(where, named), named, float(text), text))
                return
            if self._tables and local == "td" and (name := self._tables[-1].place()):
                where = below(where, name)
            key = local if names_result(local) else _key(local)
            self._take(lambda out: values.string(out, where, key, text))

    def _take(self, event: Event) -> None:
        self.events.append(event)
        if len(self.events) > _EVENTS:
            raise UnreadableError(f"more than {_EVENTS} parts")


def _attribute(where: str, element: str, name: str, value: str, named: str) -> Event:
    """Return what counts an attribute; ``named``: the element's own ``name``, which a ``value`` belongs to."""
    kind = _TIMED.get(name, "") if element in _SUITES else ""
    if kind and name == "timestamp":
        return lambda out: out.text(where, value)  # a date of another day counts
    if kind and (name != "time" or _SECONDS.fullmatch(value)):
        return lambda out: out.leave_out(where, value, kind)
    local = name.rpartition(":")[2]
    if names_result(local) or (local == "value" and names_result(named)):
        return lambda out: out.add(where, value)
    return lambda out: values.string(out, where, _key(local), value)


def _key(local: str) -> str:
    """Return a name if it decides what its value is; else it is empty."""
    return "" if _BARE.fullmatch(local) and local.lower() not in _SURE else local


def read_xml(out: Canonical, path: str, text: str) -> bool:
    """Read a document; False, and nothing is counted, if it is none, or a page such as SVG and HTML."""
    reader = _Reader(path)
    parser = expat.ParserCreate()
    parser.ordered_attributes = True
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    parser.CommentHandler = reader.comment
    parser.ProcessingInstructionHandler = reader.instruction
    parser.XmlDeclHandler = reader.document
    parser.StartDoctypeDeclHandler = reader.document
    parser.EntityDeclHandler = reader.refuse
    parser.AttlistDeclHandler = reader.refuse  # may give attributes that are not written
    try:
        parser.Parse(text, True)
    except (expat.ExpatError, UnreadableError, ValueError):
        return False
    if reader.root in _PAGES:
        return False
    for event in reader.events:
        event(out)
    return True


def read_fragment(out: Canonical, path: str, text: str) -> bool:
    """Read a part of a page, as notebooks show tables: elements next to each other, and what of HTML pandas uses.

    That is the blank that HTML names, and an attribute without a value.

    Returns:
        False, and nothing is counted, if it is no XML, or a whole page.
    """
    if _WHOLE.match(text) is not None:
        return False
    text = text.replace("&nbsp;", "&#160;").replace("<style scoped>", '<style scoped="">')
    return read_xml(out, path, f"<div>{text}</div>")
