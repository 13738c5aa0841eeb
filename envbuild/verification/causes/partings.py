"""Causes in the light of the line at which two runs part (``operations.verification.parting``)."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from envbuild.difference.finding import Finding
from envbuild.verification.causes.meanwhile import changes
from envbuild.verification.causes.routes import inside
from envbuild.verification.causes.shared_values import run_by_several
from envbuild.verification.dataflow.targets import last_name, parsed

ACTING = ("order", "limits", "collection", "threads", "memory", "layout", "environment", "addresses")
"""What has no line that asks for it: what it decides shows where runs part."""
_WEIGHT = 72
"""Weight of the line where nothing was proven: it was seen, what others suggest was not."""
_CHANGED = 2
"""Lines that change what is read there."""
_LONGEST = 100
"""Characters of a line that are quoted."""


def acting(proven: Collection[str]) -> str:
    """Return which of the things that were proven shows where runs part; empty if none does."""
    return next((each for each in ACTING if each in proven), "")


def with_parting(
    causes: Sequence[Finding], place: str, of_it: Collection[str], sources: Mapping[str, str], *, proven: bool
) -> list[Finding]:
    """Return causes, most likely first, with the line at which runs part.

    Of those of what was proven, one that names the line comes before the others; if none does, the first gets it too.

    Args:
        causes: most likely first.
        place: the line, as in ``Culprit``.
        of_it: sentences of the causes that are about what was proven and shows there.
        sources: of the project.
        proven: something is.
    """
    line = inside(place)
    found = list(causes)
    if not proven:
        named = [each for each in found if line in _lines(each.where)]
        others = [each for each in found if each not in named]
        if not named:
            return sorted([_at(line, sources), *found], key=lambda each: -each.weight)
        return [msgspec.structs.replace(named[0], weight=max(_WEIGHT, named[0].weight)), *named[1:], *others]
    about = [at for at, each in enumerate(found) if each.what in of_it]
    if not about:
        return found
    first = about[0]
    named_at = next((at for at in about if line in _lines(found[at].where)), None)
    if named_at is None:
        found[first] = _with_line(found[first], line, changed_for(sources, line))
    elif named_at != first:
        found.insert(first, msgspec.structs.replace(found.pop(named_at), weight=found[first].weight))
    return found


def _lines(where: str) -> Iterable[str]:
    return where.replace(" …", "").replace(" → ", ", ").split(", ")


def _with_line(cause: Finding, line: str, changed: Sequence[str]) -> Finding:
    by = ", ".join(changed[:_CHANGED])
    what = f"{cause.what}; runs part at {line}{f', by what {by} changes' if by else ''}"
    known = _lines(cause.where)
    where = ", ".join(filter(None, (line, *(each for each in changed[:_CHANGED] if each not in known), cause.where)))
    return msgspec.structs.replace(cause, what=what, where=where)


def changed_for(sources: Mapping[str, str], line: str) -> list[str]:
    """Return the lines, in what threads, processes and tasks run, that change what a line reads, by names.

    Args:
        sources: of the project.
        line: path and number.
    """
    path, _, number = line.rpartition(":")
    tree = parsed(sources.get(path, ""))
    if tree is None or not number.isdecimal():
        return []
    read = {
        last_name(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute) and node.lineno == int(number) and isinstance(node.ctx, ast.Load)
    }
    found = []
    for other, text in sources.items():
        module = parsed(text)
        if module is None:
            continue
        tasks = (node for node in ast.walk(module) if isinstance(node, ast.AsyncFunctionDef))
        for function in (*run_by_several(module), *tasks):
            found += [f"{other}:{at}" for name, at in changes(function) if name in read]
    return [each for each in dict.fromkeys(found) if each != line]


def _at(line: str, sources: Mapping[str, str]) -> Finding:
    path, _, number = line.rpartition(":")
    lines = sources.get(path, "").splitlines()
    text = lines[int(number) - 1].strip() if number.isdecimal() and 0 < int(number) <= len(lines) else ""
    short = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return Finding(
        area="sources",
        weight=_WEIGHT,
        what=f"runs do the same up to this line, and part here: {short}" if short else "runs do the same up to here",
        where=line,
        attempt="see what this line reads that no seed reaches, or that others change meanwhile",
    )
