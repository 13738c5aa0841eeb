"""Programs that are no Python and ask for the date, to do something by it: no run of them has another one."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence

from envbuild.core.patterns import lazy
from envbuild.verification.causes.foreign import started

_ASKS = lazy(
    r"(?:\A\s*|[|;&(`]\s*|\b(?:do|then|else|exec|env)\s+)(?:/\S{1,40}/)?(?P<words>date(?:\s[^|;&)`]*)?)(?=[|;&)`]|\Z)"
)
"""``date`` as a command, with its operands."""
_FINE = lazy(r"%[-_0^#]?(?:[sNSTcXr]|R)")
"""What is another text in each run, so that runs show what it does."""
_OTHER = lazy(r"(?:\s-r|--reference|-d\s*['\"]?@|\b(?:19|20)\d\d-\d\d-\d\d|\s-s\b|--set)")
"""It is asked for the time of a file, or for what is said."""
_RELATIVE = lazy(r"\s(?:-\w*d\b|--date)")
_SHOWS = lazy(r"\A\s*(?:echo|printf|logger|log|info|warn)\b")
_DECIDES = lazy(
    r"\$\(\(|\bexpr\b|\blet\b|\[\[?\s|\btest\b|\bcase\b|\bseq\b|\bawk\b|\bif\b|\bwhile\b|seed|\bshuf\b|\bhead\b|\btail\b"
    r"|\bsed\b"
)
"""What does something by a number, or by whether texts are equal."""
_ASSIGNED = lazy(r"\A\s*(?:export\s+|local\s+|readonly\s+)?([A-Za-z_]\w*)=")
_SHOWN = 60
"""Characters of a command that are quoted."""


def dated_by_programs(
    sources: Mapping[str, str], scripts: Mapping[str, str], command: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield the words of commands that ask for the date and whose answer is more than shown, and where they are.

    Args:
        sources: modules of the project, by path.
        scripts: texts of its files that are no Python, by path: those that are started.
        command: the words of the run's own.
    """
    for path, source in sources.items():
        for each in started(source):
            if posixpath.basename(each.words[0]) == "date" and _is_coarse(" ".join(each.words)):
                yield _short(" ".join(each.words)), f"{path}:{each.line}"
    for path, text in scripts.items():
        lines = text.splitlines()
        for number, line in enumerate(lines, 1):
            if line.lstrip().startswith("#") or "date" not in line or _SHOWS.match(line) is not None:
                continue
            for found in _ASKS.finditer(line):
                if _is_coarse(found["words"]) and _decides(line, found, lines):
                    yield _short(found["words"].strip()), f"{path}:{number}"
    if command and posixpath.basename(command[0]) == "date" and _is_coarse(" ".join(command)):
        yield _short(" ".join(command)), ""


def _is_coarse(words: str) -> bool:
    """Whether what is asked for is the same in all runs of an hour, or is a moment of a day that is not said."""
    if _OTHER.search(words) is not None:
        return False
    return "+" in words and (_FINE.search(words) is None or _RELATIVE.search(words) is not None)


def _decides(line: str, found: re.Match[str], lines: Sequence[str]) -> bool:
    """Whether a script does more with an answer than put it into a name or a message."""
    if line[: found.start("words")].strip() == "":
        return True  # it is what the script, or the pipeline, gives back
    if _DECIDES.search(line) is not None:
        return True
    assigned = _ASSIGNED.match(line)
    if assigned is None:
        return False
    used = re.compile(rf"\$\{{?{assigned[1]}\b|\$\(\([^)]*\b{assigned[1]}\b")
    return any(
        used.search(each) is not None and _DECIDES.search(each) is not None for each in lines if each is not line
    )


def _short(words: str) -> str:
    words = re.sub(r"\s+", " ", words)
    return words if len(words) <= _SHOWN else f"{words[: _SHOWN - 1]}…"
