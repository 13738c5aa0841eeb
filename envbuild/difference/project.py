"""What two runs found in their project: results of earlier runs, and files that no record shows to be read."""

from __future__ import annotations

from collections.abc import Iterator

from envbuild.core.text import plain, plural
from envbuild.difference.finding import NOWHERE, Context, Finding, changed
from envbuild.record.listing import folders_above
from envbuild.record.model import Record

_READ, _UNREAD = 50, 32
"""Of a result that was there before: the program read it; or nothing shows that it did."""
_OTHER = 44
_NAMES = 4
_OWN = ("pylock.", "Dockerfile")
"""Beginnings of the names of files that ``envbuild lock`` writes."""


def left_over(a: Record, b: Record) -> tuple[Finding, ...]:
    """Return files that one of the runs found in its place and the other one made: it may have continued from them."""
    made, found = ({each.path: each.change for each in record.outputs} for record in (a, b))
    findings = []
    for path in sorted({*made} & {*found}):
        if made[path] == found[path]:
            continue
        one, other = ("there before" if change == "changed" else NOWHERE for change in (made[path], found[path]))
        if path in _read(a if made[path] == "changed" else b):
            weight, why = _READ, "an earlier run left it, and the program read it: it may have gone on from there"
        else:
            weight, why = _UNREAD, "an earlier run left it; Python's open did not read it"
        findings.append(changed("results", f"{plain(path)} at the start", one, other, weight, why=why))
    return tuple(findings)


def found_before(a: Record, b: Record, context: Context) -> tuple[Finding, ...]:
    """Return how other files of project and mounts differ, those that are compared nowhere else, as one finding."""
    known = {path for record in (a, b) for path in _accounted(record)} | {*context.committed}
    known |= {f"{target}/" for target in _targets(a) ^ _targets(b)}  # mounted in one of the runs only
    files = {path: phrase for path, phrase in (context.files or {}).items() if not _is_known(path, known)}
    if not files:
        return ()
    phrases = [f"{plain(path)} {phrase}" for path, phrase in sorted(files.items())]
    rest = f" and {len(phrases) - _NAMES:,} more" if len(phrases) > _NAMES else ""
    why = f"no record shows whether {'they were' if len(phrases) > 1 else 'it was'} read"
    return (
        Finding(
            area="reads",
            what=plural(len(phrases), "other file"),
            change=f"{', '.join(phrases[:_NAMES])}{rest} ({why})",
            weight=_OTHER,
        ),
    )


def _targets(record: Record) -> set[str]:
    """Return where in the container something is mounted: of ``source:target:rw``."""
    return {mount.rsplit(":", 2)[-2].rstrip("/") for mount in record.options.mounts if mount.count(":") > 1}


def _read(record: Record) -> set[str]:
    return {file.path for file in (*record.reads, *record.configs, *record.modules)}


def _accounted(record: Record) -> Iterator[str]:
    """Yield what a record compares by itself; large files that were read are known by their size alone."""
    yield from (file.path for file in (*record.reads, *record.configs, *record.modules) if file.sha256)
    yield from record.deleted
    yield from (output.path for output in (*record.outputs, *record.outside))
    yield from (f"{folder.path}/" for folder in record.folders)
    yield from (f"{path.strip('/')}/" for path in record.inputs)
    yield from record.git.changed or () if record.git else ()
    if record.script:
        yield record.script.path


def _is_known(path: str, known: set[str]) -> bool:
    """Whether a file, or a folder with ``/`` at the end, is one of these or below one of these folders."""
    return path in known or path.startswith(_OWN) or not known.isdisjoint(folders_above(path))
