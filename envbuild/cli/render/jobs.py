"""Runs as a list, and one run or all ranks of a job as lines or as JSON values.

Of a job each line is there once if it is the same in all ranks; else it names the ranks that it is of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from envbuild.cli.render import records
from envbuild.cli.render.records import SHORT, command, local, result, took
from envbuild.core.text import plain, plural
from envbuild.record.jobs import JobRecord, host_of, rank_of, ranks_text, same_bits
from envbuild.record.model import Record

_HEADINGS = ("RUN", "STARTED", "TOOK", "RESULT", "BITS", "COMMAND")
_RANKS = 64
"""Ranks that have a line each; those that failed come first if there are more."""
_FAILED = 3
"""Failed ranks that are named in one line."""

Line = tuple[str, ...]


def table(jobs: Sequence[JobRecord]) -> Iterator[str]:
    """Yield the lines of a list of runs, a heading first; a job of several ranks is one line."""
    rows = [_HEADINGS, *(_row(jobs, job) for job in jobs)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def as_json(job: JobRecord) -> Any:
    """Return a record as JSON values; of a job of several ranks what they share, and all their records."""
    if not job.start:
        return records.as_json(job.first)
    return {
        "start": job.start,
        "world": job.world,
        "missing": list(job.missing),
        "ranks": [records.as_json(record) for record in job.ranks],
    }


def lines(job: JobRecord, earlier: JobRecord | None = None) -> Iterator[Line]:
    """Yield label and columns of each line that describes a run; ``earlier`` is what its results were compared with."""
    if not job.start:
        yield from records.lines(job.first)
        return
    first = job.first
    yield "run", first.id, _ended(job)
    yield "command", command(first), f"in {first.directory}"
    yield "started", local(min(record.start for record in job.ranks)), f"took {_took(job)}" if _took(job) else ""
    if first.rank is not None:
        allowed = f"allowed: {plain(', '.join(first.rank.allowed))}" if first.rank.allowed else ""
        name = f", job {plain(first.rank.job)}" if first.rank.job else ""
        again = f"started again, {plural(first.rank.restarts, 'time')} before" if first.rank.restarts else ""
        yield "ranks", f"{job.world} by {first.rank.launcher}{name}", again, "machines compared", allowed
    yield from _ranks(job)
    yield from _shared(job)
    other, differing = same_bits([job, earlier] if earlier else [job], job)
    if other:
        words = f"differ from run {other} in {ranks_text(job, differing)}" if differing else f"same as run {other}"
        partial = dict.fromkeys(phrase for record in job.ranks for phrase in record.not_compared)
        yield "bits" if differing or not partial else "files", words
        yield from (("", f"not compared: {plain(phrase)}") for phrase in partial)


def _row(jobs: Sequence[JobRecord], job: JobRecord) -> Line:
    """Write a run or a job as one line of the list."""
    first = job.first
    if job.start:
        other, differing = same_bits(jobs, job)
        same = "same files as" if any(record.not_compared for record in job.ranks) else "same as"
        bits = f"{'differs from' if differing else same} {other[:SHORT]}" if other else ""
        bits += f" ({_numbered(differing)})" if other and 0 < len(differing) < len(job.ranks) else ""
        return (first.id[:SHORT], local(first.start), _took(job), _ended(job), bits, command(first))
    bits = f"same {'files ' * bool(first.not_compared)}as {first.same_bits_as[:SHORT]}" if first.same_bits_as else ""
    if first.differs_from:
        bits = f"differs from {first.differs_from[:SHORT]}"
        if first.judged == "identical" and _of_one_verification(jobs, first):  # what differs was shown to be no result
            bits = f"identical for verify to {first.differs_from[:SHORT]}"
    rank = f", rank {first.rank.rank} of {first.rank.world}" if first.rank and first.rank.world > 1 else ""
    ended = result(first) + rank + (", by verify" if first.options.verification else "")
    return (first.id[:SHORT], local(first.start), took(first.duration), ended, bits, command(first))


def _of_one_verification(jobs: Sequence[JobRecord], record: Record) -> bool:
    """Whether the run that this one differs from is one of the same ``verify``."""
    others = (each.first for each in jobs if each.first.id == record.differs_from)
    return any(each.options.verification == record.options.verification != "" for each in others)


def _ended(job: JobRecord) -> str:
    """Describe how a job ended: the words that all ranks share, else those of the ranks that did worst."""
    words = {rank: result(record) for rank, record in job.by_rank.items()}
    bad = [f"rank {rank} {word}" for rank, word in words.items() if not word.startswith("ok")]
    if job.missing:
        bad.append(f"no record of {_numbered(job.missing)}")
    if bad:
        return f"{', '.join(bad[:_FAILED])}{' …' if len(bad) > _FAILED else ''}, of {job.world} ranks"
    return f"{', '.join(dict.fromkeys(words.values()))}, {job.world} ranks"


def _numbered(ranks: Sequence[int]) -> str:
    listed = ", ".join(map(str, ranks[:_FAILED])) + (" …" if len(ranks) > _FAILED else "")
    return f"rank{'s' * (len(ranks) > 1)} {listed}"


def _took(job: JobRecord) -> str:
    """Write how long the slowest rank took."""
    return took(max((record.duration for record in job.ranks if record.duration is not None), default=None))


def _ranks(job: JobRecord) -> Iterator[Line]:
    """Yield a line for each rank: where it ran, how it ended, its seed."""
    shown = job.ranks if len(job.ranks) <= _RANKS else sorted(job.ranks, key=lambda each: (_fine(each), rank_of(each)))
    rows = [tuple(_rank(record)) for record in shown[:_RANKS]]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "rank", *(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
    if len(job.ranks) > _RANKS:
        yield "", f"{len(job.ranks) - _RANKS} more: envbuild show {job.first.id[:SHORT]} --json"
    for rank in job.missing[:_RANKS]:
        yield "rank", f"{rank}", "no record"


def _fine(record: Record) -> bool:
    return record.state == "finished" and not record.exit_code


def _rank(record: Record) -> Iterator[str]:
    rank, place = record.rank, ""
    if rank is not None and rank.local is not None and rank.local_world:
        place = f", number {rank.local} of {rank.local_world} there"
    yield str(rank_of(record))
    yield record.id
    yield f"on {plain(host_of(record))}{place}"
    yield result(record)
    yield took(record.duration)
    yield f"guard {record.verdict.duration_ms:.0f} ms" if record.verdict is not None else ""
    seed = record.processes[0].seed if record.processes else None
    yield f"seed {seed}" if seed is not None else ""


def _shared(job: JobRecord) -> Iterator[Line]:
    """Yield all other lines: a label and the lines that go with it are together."""
    found: dict[tuple[Line, ...], list[int]] = {}
    labels: dict[str, None] = {}
    for record in job.ranks:
        for block in _blocks(record):
            labels.setdefault(block[0][0])
            ranks = found.setdefault(block, [])
            if rank_of(record) not in ranks:
                ranks.append(rank_of(record))
    order = {label: place for place, label in enumerate(labels)}
    for block, ranks in sorted(found.items(), key=lambda each: order[each[0][0][0]]):
        whole = len(ranks) == len(job.ranks)
        yield block[0] if whole else (*(cell for cell in block[0] if cell.strip()), f"in {ranks_text(job, ranks)}")
        yield from block[1:]


def _blocks(record: Record) -> Iterator[tuple[Line, ...]]:
    """Yield the lines of one rank, those without a label with the one that they continue."""
    block: list[Line] = []
    for line in records.facts(record, of_job=True):
        if line[0] and block:
            yield tuple(block)
            block = []
        block.append(line)
    if block:
        yield tuple(block)
