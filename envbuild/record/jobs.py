"""Records of one job: those that the ranks of one start have left, seen together. Pure.

Each rank writes a record of its own, whole, and no rank writes for another one: what one rank knows is on disk when
that rank ends, whatever becomes of rank 0, and a record's format is the same with and without a launcher. That they
are one run is stated by ``rank.start``, 128 random bits that the ranks agreed on; here they are joined for reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from envbuild.cluster.rank import LARGEST_WORLD
from envbuild.cluster.rank import ranks_text as written
from envbuild.record.model import Output, Point, Record


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The records of one start by rank, or one record of a run that no launcher started or that was not compared.

    Attributes:
        ranks: one at least; those whose records are there.
        alone: one rank is meant by itself, and not its job.
    """

    ranks: tuple[Record, ...]
    alone: bool = False

    @property
    def first(self) -> Record:
        """The record of the lowest rank, by whose identity the job is called."""
        return self.ranks[0]

    @property
    def start(self) -> str:
        """What the records share; empty for a run by itself."""
        return "" if self.alone else start_of(self.first)

    @property
    def world(self) -> int:
        """How many ranks the job has; 1 for a run by itself."""
        return job_size(self.first) if self.start else 1

    @property
    def by_rank(self) -> dict[int, Record]:
        """The records by the number of their rank; that of a run by itself has 0."""
        return {rank_of(record) if self.start else 0: record for record in self.ranks}

    @property
    def missing(self) -> tuple[int, ...]:
        """Ranks that have left no record here."""
        there = self.by_rank
        return tuple(rank for rank in range(self.world) if rank not in there) if self.start else ()


def start_of(record: Record) -> str:
    """Return what all records of a record's job share; empty if it is a run by itself."""
    return record.rank.start if record.rank is not None and record.rank.world > 1 else ""


def job_size(record: Record) -> int:
    """Return how many ranks a record's job has; 1 for a run by itself. Not too many: anybody can write a record."""
    return min(record.rank.world, LARGEST_WORLD) if record.rank is not None and start_of(record) else 1


def rank_of(record: Record) -> int:
    """Return the number of a record's rank; 0 without a launcher."""
    return record.rank.rank if record.rank is not None else 0


def host_of(record: Record) -> str:
    """Return the name of a rank's machine; empty if it is not known."""
    return record.rank.host if record.rank is not None else ""


def ranks_text(job: JobRecord, ranks: Iterable[int]) -> str:
    """Write ranks with their machines: ``rank 1 (node1)``, ``ranks 0-1 (node1), 2 (node2)``."""
    chosen = sorted(ranks)
    hosts = {rank: host_of(record) for rank, record in job.by_rank.items()}
    known = job.first.rank.hosts if job.first.rank is not None else ()
    hosts = {**dict(enumerate(known)), **hosts}
    return f"{'rank' if len(chosen) == 1 else 'ranks'} {written(chosen, hosts)}"


def join(records: Sequence[Record]) -> JobRecord:
    """Return the job of records of one start; of two that claim one rank the later in the sequence is left out."""
    found: dict[int, Record] = {}
    for record in records:
        found.setdefault(rank_of(record), record)
    return JobRecord(ranks=tuple(found[rank] for rank in sorted(found)))


def group(records: Iterable[Record]) -> tuple[JobRecord, ...]:
    """Return runs and jobs, newest first, by the identity of each one's first rank."""
    starts: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        start = start_of(record)
        # A run by itself is alone in its group.
        starts.setdefault((start, "" if start else record.id), []).append(record)
    return tuple(sorted(map(join, starts.values()), key=lambda job: job.first.id, reverse=True))


def same_bits(jobs: Sequence[JobRecord], job: JobRecord) -> tuple[str, tuple[int, ...]]:
    """Return how a job's results compare with those of earlier runs.

    Args:
        jobs: those that may be named.
        job: the one in question.

    Returns:
        The identity of the earlier run, and the ranks that differ from it: none for the same bits in every rank. An
        empty identity if some rank was compared with nothing, or the ranks were compared with different runs.
    """
    owner = {record.id: each.first.id for each in jobs for record in each.ranks}
    others, differing = set(), []
    for record in job.ranks:
        other = record.same_bits_as or record.differs_from
        others.add(owner.get(other, other))
        if record.differs_from:
            differing.append(rank_of(record))
    if len(others) != 1 or job.missing:
        return "", ()
    return others.pop(), tuple(differing)


def merged(job: JobRecord) -> Record:
    """Return one record for a page about a job: the first rank's, with what the other ranks did and left besides.

    Processes have the paths that they have (``rank 1``); a metric of another rank is there as ``rank 1: loss`` where it
    differs from the first one's. Its exit code is that of the first rank that failed.
    """
    first = job.first
    if not job.start:
        return first
    outputs: dict[str, Output] = {}
    for record in job.ranks:
        for output in record.outputs:
            outputs.setdefault(output.path, output)
    failed = next((record for record in job.ranks if record.state != "finished" or record.exit_code), first)
    metrics, sources = _metrics(job.by_rank)
    return msgspec.structs.replace(
        first,
        state=failed.state,
        exit_code=failed.exit_code,
        out_of_memory=failed.out_of_memory,
        timed_out=failed.timed_out,
        problem=failed.problem,
        duration=max((record.duration for record in job.ranks if record.duration is not None), default=None),
        processes=tuple(process for record in job.ranks for process in record.processes),
        outputs=tuple(outputs[path] for path in sorted(outputs)),
        metrics=metrics,
        metric_sources=sources,
    )


def _metrics(ranks: Mapping[int, Record]) -> tuple[dict[str, tuple[Point, ...]], dict[str, str]]:
    """Return the metrics of all ranks, and where each was found."""
    first, *others = ranks
    metrics, sources = dict(ranks[first].metrics), dict(ranks[first].metric_sources)
    for rank in others:
        for name, points in ranks[rank].metrics.items():
            if metrics.get(name) != points:
                metrics[f"rank {rank}: {name}"] = points
                sources[f"rank {rank}: {name}"] = ranks[rank].metric_sources.get(name, "")
    return metrics, sources
