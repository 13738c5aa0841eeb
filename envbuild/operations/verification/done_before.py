"""Whether a program found its work done: by results of an earlier run that are in the project still.

Make, DVC, spaCy's projects and scripts that ask whether a file exists leave steps out whose results are there. Then
runs are equal since they did nothing, which proves nothing about these steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from envbuild.errors import EnvbuildError
from envbuild.record.history import list_runs
from envbuild.record.model import Record

_LOOKED_AT = 100
"""Records, the newest, in which an earlier run is looked for."""


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
    try:
        earlier = list_runs(project)[:_LOOKED_AT]
    except EnvbuildError:
        return None
    for each in earlier:
        same = (each.command, each.directory) == (record.command, record.directory)
        if each.id == record.id or not same or each.exit_code != 0 or not each.outputs:
            continue
        theirs = {output.path for output in each.outputs}
        left = tuple(sorted(path for path in theirs - written if (project / path).is_file()))
        if left and written <= theirs:
            return DoneBefore(run=each.id, files=left)
    return None
