"""Where a script of a shell takes the time, or draws a name, and keeps it: ``SEED=$(date +%s)``."""

from __future__ import annotations

from collections.abc import Iterator

from envbuild.core.patterns import lazy

_TAKEN = lazy(r"\$\(\s*((?:date|uuidgen|mktemp)\b[^()]*)\)|`\s*((?:date|uuidgen|mktemp)\b[^`]*)`")
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
