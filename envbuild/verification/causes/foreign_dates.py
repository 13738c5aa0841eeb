"""Programs that are no Python and ask for the date, to do something by it: no run of them has another one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from envbuild.core.patterns import lazy
from envbuild.verification.causes.foreign_listings import lines_for_shells, quoted

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


def dated_by_programs(
    sources: Mapping[str, str], scripts: Mapping[str, str], command: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield the words of commands that ask for the date and whose answer is more than shown, and where they are.

    Arguments as of ``lines_for_shells``.
    """
    for line, where in lines_for_shells(sources, scripts, command):
        if "date" not in line or _SHOWS.match(line) is not None:
            continue
        script = scripts.get(where.rpartition(":")[0], "").splitlines()
        for found in _ASKS.finditer(line):
            if _is_coarse(found["words"]) and _decides(line, found, script):
                yield quoted(found["words"].strip()), where


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
