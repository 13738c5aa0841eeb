"""The Python code of Jupyter notebooks, without IPython's magics and commands of a shell: read, never run."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator

_MARK = "# cells[{}]"
_MARKED = re.compile(r"# cells\[(\d+)\]")
_WHERE = re.compile(r"([^\s,]+\.ipynb):(\d+)")


def code_of(text: str) -> str:
    """Return the code of a notebook; empty if it is none. A line before each cell has its number in the file."""
    try:
        cells = json.loads(text)["cells"]
        sources = [(at, "".join(cell["source"])) for at, cell in enumerate(cells) if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    plain = ((at, "\n".join(_plain(source))) for at, source in sources)
    return "\n".join(f"{_MARK.format(at)}\n{source}" for at, source in plain if _parses(source))


def in_cells(where: str, code: dict[str, str]) -> str:
    """Return places such as ``a.ipynb:70``, lines of what ``code_of`` gave, as cells and their lines."""

    def named(found: re.Match[str]) -> str:
        lines = code.get(found[1], "").split("\n")[: int(found[2])]
        for back, line in enumerate(reversed(lines)):
            if (mark := _MARKED.fullmatch(line)) is not None:
                return f"{found[1]} cells[{mark[1]}] line {back}"
        return found[0]

    return _WHERE.sub(named, where)


def _plain(source: str) -> Iterator[str]:
    """Yield the lines of a cell, and ``pass`` in place of what is not Python; nothing of a cell in another language."""
    lines = source.splitlines()
    if lines and re.match(r"%%(?!time|capture|prun|python)", lines[0]):
        return
    for line in lines:
        yield re.sub(r"^(\s*)[%!?].*", r"\1pass", line)


def _parses(source: str) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
