"""Two jobs of several ranks compared: each rank with the same rank of the other job, and what all have in common once.

Pure. A finding that is the same in all ranks is reported as of a run by itself; one that only some ranks have names
them. Another number of ranks is a cause of its own: batches and sums are split by it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from envbuild.core.text import plain
from envbuild.difference.compare import compare
from envbuild.difference.finding import CERTAIN, Context, Difference, Finding, Outcome, changed
from envbuild.difference.project import found_before, left_over
from envbuild.record.compare_outputs import unread
from envbuild.record.compare_printed import compare_printed
from envbuild.record.jobs import JobRecord, ranks_text
from envbuild.record.model import Record

_WORLD, _NODES = 98, 41


@dataclass(frozen=True, kw_only=True, slots=True)
class RankPair:
    """One rank of two jobs: both records, and what is known besides."""

    a: Record
    b: Record
    context: Context


def compare_jobs(a: JobRecord, b: JobRecord, pairs: Mapping[int, RankPair]) -> Difference:
    """Compare two jobs.

    Args:
        a, b: the jobs; a run by itself counts as a job of one rank.
        pairs: by number the ranks that both have; one at least.
    """
    found = {rank: compare(pair.a, pair.b, pair.context, left=False) for rank, pair in pairs.items()}
    own = tuple(_own(a, b))
    causes = [*own, *merged({rank: each.causes for rank, each in found.items()})]
    outcome = _outcome(a, b, found)
    if outcome == "different" and not any(each.weight >= CERTAIN for each in causes):
        causes += merged(
            {
                rank: (*left_over(pair.a, pair.b), *found_before(pair.a, pair.b, pair.context))
                for rank, pair in pairs.items()
            }
        )
    same = [label for label, count in Counter(s for d in found.values() for s in d.same).items() if count == len(found)]
    return Difference(
        a=a.first.id,
        b=b.first.id,
        outcome=outcome,
        verdict=_verdict(a, b, found, outcome, causes=any(each.weight >= CERTAIN for each in causes)),
        results=tuple(merged({rank: each.results for rank, each in found.items()})),
        causes=tuple(sorted((each for each in causes if each.weight), key=lambda each: -each.weight)),
        others=(
            *(each for each in own if not each.weight),
            *merged({rank: each.others for rank, each in found.items()}),
        ),
        same=tuple(same),
        unknown=(*_absent(a, b), *(_early(a, b) if outcome == "different" else ()), *_unknown(found)),
    )


def _own(a: JobRecord, b: JobRecord) -> Iterator[Finding]:
    """Yield what differs between the jobs as such: number of ranks, how they are spread over machines, and on which."""
    if a.world != b.world:
        why = "batches and sums are split by it, and each rank has its seed: other bits"
        yield changed("options", "number of ranks", str(a.world), str(b.world), _WORLD, why=why)
        return
    one, other = _hosts(a), _hosts(b)
    if not one or not other or one == other:
        return
    spread = _spread(one), _spread(other)
    if spread[0] != spread[1]:
        why = "sums over machines may take another order"
        yield changed("host", "ranks on each machine", *spread, _NODES, why=why)
        return
    before, after = (", ".join(plain(name) for name in list(dict.fromkeys(each))[:8]) for each in (one, other))
    yield changed("host", "machines", before, after, 0)


def _hosts(job: JobRecord) -> tuple[str, ...]:
    """Return the machine of each rank; empty if it was not recorded."""
    return job.first.rank.hosts if job.first.rank is not None else ()


def _spread(hosts: tuple[str, ...]) -> str:
    """Write how many ranks each machine has, in the order of the ranks: ``2, 2``."""
    counts = list(map(str, Counter(hosts).values()))
    return ", ".join(counts[:16]) + (" …" if len(counts) > 16 else "")


def merged(found: Mapping[int, tuple[Finding, ...]]) -> Iterator[Finding]:
    """Yield the findings of all ranks, each one once, in the order of the first rank that has it.

    A finding that not all of several ranks have names those that have it.
    """
    table: dict[Finding, list[int]] = {}
    for rank, findings in found.items():
        for finding in findings:
            if (finding.area, finding.what) == ("options", "rank"):
                continue  # follows from the number of ranks
            table.setdefault(_plain(finding, rank), []).append(rank)
    for finding, ranks in table.items():
        whole = len(found) == 1 or len(set(ranks)) == len(found)
        yield finding if whole else msgspec.structs.replace(finding, ranks=tuple(dict.fromkeys(ranks)))


def _plain(finding: Finding, rank: int) -> Finding:
    """Return a finding without the name of its rank's process, which is the same thing in each rank."""
    name = f"rank {rank}"
    what = finding.what.removeprefix(f"{name}: ").removesuffix(f" in process {name}").replace(f" {name}/", " ")
    what = "the main process" if what == f"process {name}" else what
    return msgspec.structs.replace(finding, what=what)


def _outcome(a: JobRecord, b: JobRecord, found: Mapping[int, Difference]) -> Outcome:
    """Return whether the results are equal: all ranks ended, one at least left results, all were read, none differ."""
    outcomes = [each.outcome for each in found.values()]
    if "different" in outcomes:
        return "different"
    mine, theirs = a.by_rank, b.by_rank
    if any(unread(mine[rank]) or compare_printed(mine[rank], theirs[rank]).undecided for rank in found):
        return "unknown"
    if a.missing or b.missing or not all(record.state == "finished" for job in (a, b) for record in job.ranks):
        return "unknown"
    return "equal" if "equal" in outcomes else "unknown"


def _verdict(a: JobRecord, b: JobRecord, found: Mapping[int, Difference], outcome: Outcome, *, causes: bool) -> str:
    if outcome == "different":
        return "" if causes else next(each.verdict for each in found.values() if each.outcome == outcome)
    for side, job in (("A", a), ("B", b)):
        if job.missing:
            return f"{side} has no record of {ranks_text(job, job.missing)}"
    for rank, each in found.items():
        if each.outcome == "unknown" and outcome == "unknown" and " has no results: " in each.verdict:
            return f"{ranks_text(a, [rank])}: {each.verdict}"
    if outcome == "unknown":
        unknown = [each.verdict for each in found.values() if each.outcome == outcome]
        return unknown[0] if unknown else "the ranks have not all ended"
    equal = dict.fromkeys(each.verdict for each in found.values() if each.outcome == "equal")
    many = f"in {len(found)} ranks" if a.world == b.world else f"in the {len(found)} ranks that both have"
    return f"{', '.join(equal)}, {many}" if len(equal) < 4 else f"equal {many}"


def _absent(a: JobRecord, b: JobRecord) -> Iterator[str]:
    """Yield which ranks could not be compared since one job has no record of them."""
    for side, job in (("A", a), ("B", b)):
        if job.missing:
            yield f"{ranks_text(job, job.missing)} (no record in {side})"


def _early(a: JobRecord, b: JobRecord) -> Iterator[str]:
    """Yield which ranks read their outputs while others could still write theirs: a file may be missing for that."""
    for side, job in (("A", a), ("B", b)):
        ranks = [
            rank
            for rank, record in job.by_rank.items()
            if record.rank is not None and record.rank.start and record.rank.world > 1 and not record.rank.waited
        ]
        if ranks:
            yield f"files that other ranks wrote last ({ranks_text(job, ranks)} had not heard of their end in {side})"


def _unknown(found: Mapping[int, Difference]) -> Iterator[str]:
    """Yield what could not be compared, with the ranks if it is not so in all."""
    table: dict[str, list[int]] = {}
    for rank, each in found.items():
        for phrase in each.unknown:
            table.setdefault(phrase, []).append(rank)
    for phrase, ranks in table.items():
        listed = ", ".join(map(str, ranks[:8])) + (" …" if len(ranks) > 8 else "")
        yield phrase if len(ranks) == len(found) else f"{phrase} in rank {listed}"
