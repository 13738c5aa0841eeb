"""Declared data of two runs."""

from __future__ import annotations

from collections.abc import Iterator

from envbuild.core.text import plain, plural
from envbuild.difference.finding import NOWHERE, Context, Finding, Section, Tree, changed
from envbuild.lockfile.model import Lock
from envbuild.record.model import Record

_WEIGHT = 95
_NAMES = 3
_UNDECLARED = "data (no inputs are declared; to have it compared: inputs: [data] in the spec)"


def inputs(a: Record, b: Record, context: Context) -> Section:
    """Compare the digests that the locks had; what was added, changed or removed where the listings are there."""
    findings = [*_trees(a, b, context), *_meanwhile(a, b)]
    if not a.inputs and not b.inputs:
        return Section("", tuple(findings), compared=False, unknown=(_UNDECLARED,))
    return Section("data", tuple(findings))


def _trees(a: Record, b: Record, context: Context) -> Iterator[Finding]:
    for path in {**a.inputs, **b.inputs}:
        before, after = a.inputs.get(path), b.inputs.get(path)
        if before == after:
            continue
        one, other = (f"blake3:{each[:12]}…" if each else NOWHERE for each in (before, after))
        if before is None or after is None:
            word = "declared only in B" if before is None else "declared only in A"
            yield _finding(path, one, other, word)
        elif (tree := context.trees.get(path)) is not None and tree.of_one_file:
            yield _finding(path, one, other, "another content than in A")
        elif tree is not None:
            yield _finding(path, one, other, _counts(tree), _names(tree), folder=True)
        else:
            yield _finding(path, one, other, _sizes(path, context))


def _counts(tree: Tree) -> str:
    """Describe how many files came, changed and went; next to added files "0 changed" is informative."""
    counts = {"added": tree.added, "changed": tree.changed, "removed": tree.removed}
    words = [word for word, count in counts.items() if count or (word == "changed" and tree.added)] or ["changed"]
    message = [
        f"{plural(counts[words[0]], 'file')} {words[0]} since A",
        *(f"{counts[word]:,} {word}" for word in words[1:]),
    ]
    first = next((names[0] for names in tree.names.values() if names), "")
    return ", ".join(message) + (f"; first: {first}" if first else "")


def _names(tree: Tree) -> tuple[str, ...]:
    lines = []
    for word, names in tree.names.items():
        lines += [f"{word}  {name}" for name in names[:_NAMES]]
    return tuple(lines)


def _sizes(path: str, context: Context) -> str:
    """Describe what the locks know of an input whose listings are not there."""
    before, after = _size(context.lock_a, path), _size(context.lock_b, path)
    if not before or not after:
        return "other content; no listing is kept of one of them, so no names"
    counts = f"{before} → {after}" if before != after else f"other content in {after}"
    return f"{counts}; no listing is kept, so no names"


def _size(lock: Lock | None, path: str) -> str:
    for entry in lock.inputs if lock else ():
        if entry.path == path:
            return f"{plural(entry.files, 'file')} of {plural(entry.bytes, 'byte')}"
    return ""


def _meanwhile(a: Record, b: Record) -> Iterator[Finding]:
    """Yield data that somebody changed while one of the programs ran."""
    for side, mine, theirs in (("A", a, b), ("B", b, a)):
        for sentence in mine.input_changes:
            if sentence not in theirs.input_changes:
                before, after = ("changed", NOWHERE) if side == "A" else (NOWHERE, "changed")
                yield changed("inputs", f"data during run {side}", before, after, _WEIGHT - 1, why=plain(sentence))


def _finding(
    path: str, before: str, after: str, message: str, details: tuple[str, ...] = (), *, folder: bool = False
) -> Finding:
    what = plain(path) + ("/" if folder and not path.endswith("/") else "")
    return Finding(
        area="inputs", what=what, before=before, after=after, change=message, weight=_WEIGHT, details=details
    )
