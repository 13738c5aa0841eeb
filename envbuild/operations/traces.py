"""Step traces of recorded runs: read, and the first difference between those of two runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
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


def first_divergence_of_ranks(
    pairs: Mapping[int, tuple[tuple[Path, Record], tuple[Path, Record]]],
) -> Divergence | None:
    """Return where the step traces of two jobs first differ: at the smallest step, and in which rank.

    Ranks that add up their gradients differ at the same step, whoever's data was another. So of several ranks that
    differ at one step the one whose data differed counts.

    Args:
        pairs: by rank project and record in both jobs.
    """
    found = {}
    for rank, (one, other) in pairs.items():
        divergence, _ = first_divergence(one, other, asked=False)
        if divergence is not None:
            found[rank] = divergence
    if not found:
        return None
    rank = min(found, key=lambda rank: (*_when(found[rank]), not found[rank].batch, rank))
    first = found[rank]
    others = [each for each in found if each != rank and _when(found[each]) == _when(first)]
    sentence = first.sentence
    if others:
        listed = ", ".join(map(str, others[:8])) + (" …" if len(others) > 8 else "")
        equal = first.batch and all(found[each].batch is False for each in others)
        at = f"rank{'s' * (len(others) > 1)} {listed} at the same step"
        sentence += f"; {at}{', where the data was equal' if equal else ''}"
    path = first.process.removeprefix(f"rank {rank}").strip("/")
    return replace(first, process=f"rank {rank}{f' {path}' if path else ''}", sentence=sentence)


def _when(found: Divergence) -> tuple[bool, int]:
    """Order divergences: those of a step before those of what was traced at all."""
    return found.kind not in ("start", "step"), found.step
