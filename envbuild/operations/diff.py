"""``diff``: two recorded runs compared: their results, where training diverges, and what may have made them differ."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from envbuild.core.fs import read_regular
from envbuild.core.text import script_in
from envbuild.difference.compare import compare
from envbuild.difference.jobs import RankPair, compare_jobs
from envbuild.errors import UsageError
from envbuild.lockfile.discovery import STATE_FOLDER
from envbuild.operations.contents import renamed_files, with_contents, with_names_of
from envbuild.operations.run_context import Side, gather_context
from envbuild.operations.traces import first_divergence, first_divergence_of_ranks
from envbuild.record import history
from envbuild.record.jobs import JobRecord, group, start_of
from envbuild.record.model import RecordError, loads
from envbuild.record.select_runs import earlier_of, newest_two

if TYPE_CHECKING:
    from envbuild.difference.finding import Difference
    from envbuild.record.model import Record
    from envbuild.trace.divergence import Divergence


@dataclass(frozen=True, kw_only=True, slots=True)
class DiffResult:
    """Two runs compared.

    Attributes:
        a, b: the runs; findings read from A to B.
        difference: what differs, the most likely cause first.
        divergence: where their step traces first differ; None if they do not, or if one run left none.
        renamed: files and folders of B that were compared with others of A, whose names hold the time or were drawn.
    """

    a: Side
    b: Side
    difference: Difference
    divergence: Divergence | None
    renamed: Mapping[str, str] = field(default_factory=dict)

    @property
    def equal(self) -> bool:
        """Whether the results are known to be equal."""
        return self.difference.outcome == "equal"


def diff(a: Side, b: Side) -> DiffResult:
    """Compare two runs by all that was kept of them; jobs of several ranks rank by rank.

    Raises:
        RecordError: two jobs have no rank in common whose records are there.
    """
    if not (a.alone and b.alone):
        return _diff_jobs(a, b)
    renamed = renamed_files(a.record, b.record)
    a, b = with_contents(a, b, renamed)
    divergence, _ = first_divergence((a.project, a.record), (b.project, b.record), asked=False)
    difference = compare(a.record, with_names_of(b.record, renamed), gather_context(a, b))
    return DiffResult(a=a, b=b, difference=difference, divergence=divergence, renamed=renamed)


def _diff_jobs(a: Side, b: Side) -> DiffResult:
    """Compare each rank with the same rank of the other job."""
    one, other = a.job.by_rank, b.job.by_rank
    ranks = [rank for rank in one if rank in other]
    if not ranks:
        raise RecordError("the two jobs have no rank in common whose records are there", "list them: envbuild runs")
    sides: dict[int, tuple[Side, Side]] = {}
    renamed: dict[str, str] = {}
    for rank in ranks:
        before, after = Side(record=one[rank], project=a.project), Side(record=other[rank], project=b.project)
        names = renamed_files(before.record, after.record)
        renamed |= names
        before, after = with_contents(before, after, names)
        sides[rank] = before, replace(after, record=with_names_of(after.record, names))
    pairs = {
        rank: RankPair(a=before.record, b=after.record, context=gather_context(before, after))
        for rank, (before, after) in sides.items()
    }
    return DiffResult(
        a=a,
        b=b,
        difference=compare_jobs(a.job, b.job, pairs),
        divergence=first_divergence_of_ranks(
            {rank: ((a.project, pair.a), (b.project, pair.b)) for rank, pair in pairs.items()}
        ),
        renamed=renamed,
    )


def select_pair(names: Sequence[str], project: Path) -> tuple[Side, Side]:
    """Return the runs to compare.

    Args:
        names: identities or their beginnings, or paths of records; one: compared with an earlier run of its program,
            which comes first; none: the two newest of one program. One rank's names its whole job, ``NAME:1`` rank 1.
        project: the folder that holds the lock.

    Raises:
        RecordError: a run is not there, or its record is damaged.
        UsageError: one run is compared with itself, or there is nothing to compare with.
    """
    found = [find_side(name, project) for name in names]
    if len(found) == 2:
        if found[0].record.id == found[1].record.id:
            one = found[0].record.id[:10]
            hint = "list them: envbuild runs" if found[0].alone else f"two of its ranks: envbuild diff {one}:0 {one}:1"
            raise UsageError(f"run {found[0].record.id} cannot be compared with itself", hint)
        return found[0], found[1]
    if found:
        return _with_earlier(found[0])
    jobs = group(history.list_runs(project))
    records = [job.first for job in jobs]
    if len(records) < 2:
        program = shlex.join(records[0].command).removeprefix("python ") if records else script_in(project)
        number = "1 run" if records else "no runs"
        raise UsageError(
            f"nothing to compare: {project} has {number}",
            f"run {'again' if records else 'twice'}: envbuild run {program}",
        )
    older, newer = newest_two(records)
    return _of_job(jobs, older, project), _of_job(jobs, newer, project)


def find_side(name: str, project: Path) -> Side:
    """Return a run by the beginning of its identity, or by the path of its record or of its folder; with its whole job.

    Raises:
        RecordError: there is none, there are several, or the record is damaged.
    """
    path = Path(name)
    if "/" not in name and not name.endswith(".json"):
        return _side(history.find_job(project, name), project)
    file = path / "record.json" if path.is_dir() else path
    try:
        record = loads(read_regular(file, history.LIMIT), str(file))
    except OSError as error:
        raise RecordError(f"cannot read {file}: {error.strerror}", "name a run, or the folder of one") from None
    parents = file.absolute().parents
    own = len(parents) > 3 and parents[2].name == STATE_FOLDER
    if own and start_of(record):
        return _side(history.find_job(parents[3], record.id), parents[3])
    return Side(record=record, project=parents[3] if own else parents[0])


def _side(job: JobRecord, project: Path) -> Side:
    return Side(record=job.first, project=project, others=job.ranks[1:], alone=not job.start)


def _of_job(jobs: Sequence[JobRecord], record: Record, project: Path) -> Side:
    """Return the side of the job that has a record."""
    return next(_side(job, project) for job in jobs if any(each.id == record.id for each in job.ranks))


def _with_earlier(side: Side) -> tuple[Side, Side]:
    """Pair a run with an earlier one, else with the newest."""
    own = {record.id for record in side.job.ranks}
    jobs = [each for each in _alike(side, history.list_runs(side.project)) if each.first.id not in own]
    records = [job.first for job in jobs]
    if not records:
        raise UsageError(f"nothing to compare run {side.record.id} with in {side.project}", "name another run")
    earlier = earlier_of(side.record, records)
    if earlier is None:
        return side, _side(jobs[0], side.project)
    return _of_job(jobs, earlier, side.project), side


def _alike(side: Side, records: Sequence[Record]) -> tuple[JobRecord, ...]:
    """Return what a run may be compared with: other jobs and runs; for one rank alone the records of single ranks."""
    rank_alone = side.alone and start_of(side.record)
    return tuple(JobRecord(ranks=(record,), alone=True) for record in records) if rank_alone else group(records)
