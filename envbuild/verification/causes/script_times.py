"""Where a script of a shell takes the time, draws a name, asks for figures of the machine, or cuts a program short."""

from __future__ import annotations

from collections.abc import Iterator

from envbuild.core.patterns import lazy

_TAKEN = lazy(r"\$\(\s*((?:date|uuidgen|mktemp)\b[^()]*)\)|`\s*((?:date|uuidgen|mktemp)\b[^`]*)`")
_ASKED = lazy(r"(?:^\s*|\$\(\s*|`\s*|[;&]\s*)((?:df|free|uptime|vmstat|iostat|who|ps)\b(?!=)[^()|`;]*)")
"""Figures of the machine, whatever becomes of them."""
_CUT = lazy(
    r"(?:^|[;&(`]|\b(?:do|then)\b)\s*(?:(?:exec|time|nice)\s+)?(?:python[\d.]*|[\"']?\$\{?\w+\}?[\"']?|\.?/?[\w./-]+\.(?:py|sh))"
    r"(?:\s[^|;&\n]*)?\|\s*(head\b[^|;&)>\n]*|grep\s+(?:-\w+\s+)*(?:-q|-m)\b[^|;&)>\n]*|sed\s+(?:-n\s+)?['\"]?\d+q\b[^|;&)>\n]*)"
)
"""A program of the project's own, or one that a variable names, whose reader ends before it does."""
_CONSTANT = lazy(r"\s(?:-r|--reference|-d|--date)\b")
"""Options by which ``date`` gives another time than that of now."""
_TELLS = lazy(r"\s*(?:echo|printf|logger|log|>&2)\b")
"""What a line begins with that says something to a reader."""


def taken_in(script: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a script that take such a value, with the program that gives it; not what is only printed."""
    for number, line in enumerate(script.splitlines(), 1):
        if line.lstrip().startswith("#") or _TELLS.match(line):
            continue
        for found in _TAKEN.finditer(line):
            words = (found[1] or found[2]).strip()
            if not words.startswith("date") or _CONSTANT.search(words) is None:
                yield number, words
        for found in _ASKED.finditer(line):
            yield number, found[1].strip()


def cut_in(script: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a script that cut a program short, with the words of what reads from it."""
    for number, line in enumerate(script.splitlines(), 1):
        if not line.lstrip().startswith("#"):
            yield from ((number, found[1].strip()) for found in _CUT.finditer(line))
