"""Reads an HTML page strictly: what a test wants to know of it, and that it is whole."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "hr", "img", "input", "col"}
"""Elements without an end."""


class Page(HTMLParser):
    """A page that was read.

    Attributes:
        elements: name and attributes of each element, in their order.
        texts: text by the name of the innermost element.
        problems: what is not nested or closed as it should be.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[tuple[str, str]] = []
        self.problems: list[str] = []
        self._open: list[str] = []
        self.feed(data.decode())
        self.close()
        self.problems += [f"{name} is never closed" for name in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        if len(set(names)) < len(names):
            self.problems.append(f"{tag} has an attribute twice: {names}")
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1] != tag:
            self.problems.append(f"line {self.getpos()[0]}: </{tag}> closes {self._open[-1:]}")
        else:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self._open[-1] if self._open else "", data))

    def handle_comment(self, data: str) -> None:
        self.problems.append(f"a comment: {data}")

    @property
    def text(self) -> str:
        """All text but the style sheet, with single spaces."""
        return re.sub(r"\s+", " ", " ".join(text for name, text in self.texts if name != "style")).strip()

    @property
    def style(self) -> str:
        """The style sheet."""
        return "".join(text for name, text in self.texts if name == "style")

    def all(self, tag: str, **attributes: str) -> list[dict[str, str]]:
        """Return the attributes of the elements of this name that have these."""
        wanted = attributes.items()
        return [found for name, found in self.elements if name == tag and wanted <= found.items()]
