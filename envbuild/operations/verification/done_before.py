"""Whether a program found its work done: by results of an earlier run that are in the project still.

Make, DVC, spaCy's projects and scripts that ask whether a file exists leave steps out whose results are there. Then
runs are equal since they did nothing, which proves nothing about these steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from envbuild.core.patterns import lazy
from envbuild.errors import EnvbuildError
from envbuild.record.history import list_runs
from envbuild.record.model import Record

_LOOKED_AT = 100
"""Records, the newest, in which an earlier run is looked for."""
_THERE = lazy(r"already|file ?exists|not empty|overwrit", re.IGNORECASE)
"""What programs say of a file that they do not replace."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DoneBefore:
    """An earlier run of the same command, and files that it wrote and that the program left as they were."""

    run: str
    files: tuple[str, ...]


def done_before(project: Path, record: Record) -> DoneBefore | None:
    """Return what an earlier run wrote that this one found and did not write; None if that is nothing.

    A run that writes files that the earlier one did not write is none of these: it names them by the time, say.

    Args:
        project: its folder, as the runs had copies of it.
        record: of one of the runs.
    """
    written = {each.path for each in record.outputs}
    for each in _earlier(project, record):
        theirs = {output.path for output in each.outputs}
        left = tuple(sorted(path for path in theirs - written if (project / path).is_file()))
        if left and written <= theirs:
            return DoneBefore(run=each.id, files=left)
    return None


def in_the_way(project: Path, record: Record, words: str) -> DoneBefore | None:
    """Return what an earlier run wrote and a program that failed does not replace; None if that is nothing.

    Args:
        project: its folder, as the run had a copy of it.
        record: of the run that failed.
        words: the end of its standard error.
    """
    lines = [line for line in words.splitlines() if _THERE.search(line) is not None]
    for each in _earlier(project, record) if lines else ():
        paths = {Path(output.path) for output in each.outputs}
        folders = {folder for path in paths for folder in path.parents if folder != Path()}
        named = [str(path) for path in sorted(paths) + sorted(folders) if _is_named(path, lines)]
        if found := tuple(name for name in named if (project / name).exists()):
            return DoneBefore(run=each.id, files=found)
    return None


def _is_named(path: Path, lines: list[str]) -> bool:
    """Whether one of the lines has the name of a file or a folder, with or without what is above it."""
    word = re.compile(rf"(?:^|[^\w.-]|\./){re.escape(path.name)}(?![\w-]|[./]\w)")
    return any(word.search(line) is not None for line in lines)


def _earlier(project: Path, record: Record) -> Iterator[Record]:
    """Yield earlier runs of the same command that ended well and wrote something, the newest first."""
    try:
        earlier = list_runs(project)[:_LOOKED_AT]
    except EnvbuildError:
        return
    for each in earlier:
        same = (each.command, each.directory) == (record.command, record.directory)
        if each.id != record.id and same and each.exit_code == 0 and each.outputs:
            yield each
