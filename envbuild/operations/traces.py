"""Step traces of recorded runs: read, and the first difference between those of two runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envbuild.record.model import Record
    from envbuild.trace.compare import Trace
    from envbuild.trace.divergence import Divergence


def read_traces(project: Path, record: Record) -> tuple[Trace, ...]:
    """Read the step traces of a run's processes.

    Raises:
        RecordError: a file is no trace.
    """
    from envbuild.record import history
    from envbuild.trace import compare

    return tuple(compare.read_run(history.process_folder(project, record.id)))


def first_divergence(
    one: tuple[Path, Record], other: tuple[Path, Record], *, asked: bool
) -> tuple[Divergence | None, list[str]]:
    """Compare the step traces of two runs.

    Args:
        one, other: project and record of each.
        asked: both were asked for a trace, so that one that left none made no step.

    Returns:
        The first difference, None if there is none; and what the traces lack, a sentence each.
    """
    from envbuild.errors import EnvbuildError
    from envbuild.trace import compare

    try:
        before, after = (read_traces(*each) for each in (one, other))
    except EnvbuildError as error:
        return None, [f"a step trace could not be read: {error.message}"]
    found = compare.first_divergence_of_runs(before, after) if asked or (before and after) else None
    notes = sorted({note for each in (*before, *after) for note in each.notes})
    return found, notes
