"""Which rank of a job failed first, and the last lines that it printed: from the records that its ranks left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from envbuild.core.text import plain
from envbuild.record import history
from envbuild.record.jobs import host_of, job_size, rank_of
from envbuild.record.model import Record
from envbuild.record.printed import KEPT_TEXT, Stream, kept

LINES = 6
"""Lines that are shown."""
_LONGEST = 300
_KILLED = ("running", "lost")
"""States in the record of a rank whose envbuild was killed, once the job has ended."""
ENDED_BY_LAUNCHER = frozenset((137, 143))
"""SIGKILL and SIGTERM: with those ``srun --kill-on-bad-exit`` ends the ranks that were still running."""
_STREAMS: tuple[Stream, ...] = ("stderr", "stdout")


@dataclass(frozen=True, kw_only=True, slots=True)
class FailedRank:
    """A rank that failed: number, machine, how it ended, and its last lines as they may be printed."""

    rank: int
    host: str
    how: str
    lines: tuple[str, ...]


def failed_rank(project: Path, job: str) -> FailedRank | None:
    """Return the rank whose failure ended a job of several ranks; None if no record shows one.

    A rank that ended by itself comes before one that was killed with its envbuild and has no end, and that before those
    that the launcher ended.

    Args:
        project: the folder with the records.
        job: the launcher's number of the job.
    """
    records = [
        record
        for record in history.list_runs(project)
        if record.rank is not None and record.rank.job.partition("/")[0] == job and job_size(record) > 1
    ]
    latest = max((record.rank.restarts for record in records if record.rank), default=0)
    failed = [each for each in records if each.rank and each.rank.restarts == latest and _order(each) is not None]
    if not failed:
        return None
    first = min(failed, key=lambda record: (_order(record), str(record.end or ""), rank_of(record)))
    return FailedRank(
        rank=rank_of(first), host=host_of(first), how=_how(first), lines=tuple(_last_lines(project, first))
    )


def _order(record: Record) -> int | None:
    """Return how surely this rank failed by itself, surest first; None if it did not fail."""
    if record.state in _KILLED:
        return 1
    if record.state != "finished" or not record.exit_code:
        return None
    return 2 if record.exit_code in ENDED_BY_LAUNCHER else 0


def _how(record: Record) -> str:
    return "was killed" if record.state in _KILLED else f"ended with exit {record.exit_code}"


def _last_lines(project: Path, record: Record) -> Sequence[str]:
    """Return the last lines of standard error, or else of the output; of a stream that was not kept whole: none."""
    for stream in _STREAMS:
        text = kept(project, record.id, stream) or b""
        lines = [line for line in text.decode(errors="replace").splitlines() if line.strip()]
        if lines and len(text) < KEPT_TEXT:
            return [plain(line[:_LONGEST]) for line in lines[-LINES:]]
    return ()
