"""Causes in the light of the line at which two runs part (``operations.verification.parting``)."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from envbuild.core.redact import MASK, holds_secret
from envbuild.difference.finding import CERTAIN, Finding
from envbuild.verification.causes.evidence import Evidence
from envbuild.verification.causes.meanwhile import changes
from envbuild.verification.causes.routes import inside
from envbuild.verification.causes.shared_values import run_by_several
from envbuild.verification.dataflow.targets import last_name, parsed

_ACTING = ("order", "limits", "collection", "threads", "memory", "layout", "environment", "addresses")
"""What has no line that asks for it: what it decides shows where runs part."""
_ASKED_FOR = ("host", "load", "times", "inodes", "order of times", "pids", "cpus", "figures", "entropy")
"""What has one, if experiments do not show which."""
_WEIGHT = 72
"""Weight of the line where nothing was proven: it was seen, what others suggest was not."""
_CHANGED = 2
"""Lines that change what is read there."""
_LONGEST = 100
"""Characters of a line that are quoted."""


def acting(evidence: Evidence) -> str:
    """Return which of the things that were proven shows where runs part; empty if none does."""
    names = (*_ACTING, *(() if evidence.culprits else _ASKED_FOR))
    return next((each for each in names if each in evidence.proven), "")


def with_parting(
    causes: Sequence[Finding], place: str, of_it: Collection[str], sources: Mapping[str, str], *, proven: bool
) -> list[Finding]:
    """Return causes, most likely first, with the line at which runs part.

    Of those of what was proven, one that names the line comes before the others; if none does, the first gets it too.
    Where nothing was, so does one that experiments may not have reached: limits of time, and who comes first.

    Args:
        causes: most likely first.
        place: the line, as in ``Culprit``.
        of_it: sentences of the causes that are about what was proven and shows there; where nothing was, about what
            experiments may not have reached.
        sources: of the project.
        proven: something is.
    """
    line = inside(place)
    found = list(causes)
    changed = changed_for(sources, line)
    if not proven:
        chosen = _nearest(found, line, changed, of_it)
        if chosen is None:
            return sorted([_at(line, sources, changed), *found], key=lambda each: -each.weight)
        nearest = found.pop(chosen)
        nearest = nearest if line in _lines(nearest.where) else _with_line(nearest, line, changed)
        weight = max(CERTAIN, nearest.weight, *(each.weight for each in found))
        return [msgspec.structs.replace(nearest, weight=weight), *found]
    about = [at for at, each in enumerate(found) if each.what in of_it]
    if not about:
        return found
    first = about[0]
    named_at = next((at for at in about if line in _lines(found[at].where)), None)
    if named_at is None:
        found[first] = _with_line(found[first], line, changed)
    elif named_at != first:
        found.insert(first, msgspec.structs.replace(found.pop(named_at), weight=found[first].weight))
    return found


def _nearest(causes: Sequence[Finding], line: str, changed: Sequence[str], of_it: Collection[str]) -> int | None:
    """Return the place of the cause that is about a line: it names it, or who changes what that reads, or may be."""
    for wanted in ({line}, {*changed}):
        for at, each in enumerate(causes):
            if not wanted.isdisjoint(_lines(each.where)) and (each.what in of_it or line in wanted):
                return at
    return next((at for at, each in enumerate(causes) if each.what in of_it), None)


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


def _at(line: str, sources: Mapping[str, str], changed: Sequence[str]) -> Finding:
    path, _, number = line.rpartition(":")
    lines = sources.get(path, "").splitlines()
    text = lines[int(number) - 1].strip() if number.isdecimal() and 0 < int(number) <= len(lines) else ""
    text = MASK if holds_secret(text, names=True) else text
    short = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    by = ", ".join(changed[:_CHANGED])
    others = f"; threads, processes or tasks change what it reads: {by}" if by else ""
    return Finding(
        area="sources",
        weight=_WEIGHT,
        what=f"runs do the same up to this line, and part here: {short}{others}",
        where=", ".join((line, *changed[:_CHANGED])),
        attempt="see what this line reads that no seed reaches, or that others change meanwhile",
    )
