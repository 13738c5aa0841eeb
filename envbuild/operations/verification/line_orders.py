"""The order of lines of several processes: what decides it, the system's entropy or luck."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from envbuild.operations.verification.left_out import LeftOut
from envbuild.operations.verification.session import ignored_lines
from envbuild.record.compare_printed import several_processes
from envbuild.record.printed import KEPT_TEXT, kept
from envbuild.verification.content.snakemake import is_log as is_log_of_jobs
from envbuild.verification.content.snakemake import is_started_by, without_order
from envbuild.verification.files import stream_masks
from envbuild.verification.judge import in_one_order
from envbuild.verification.masking.lines import TextDifference
from envbuild.verification.masking.printed import rows

if TYPE_CHECKING:
    from envbuild.operations.verification.laboratory import Laboratory
    from envbuild.record.printed import Stream
    from envbuild.verification.masking.printed import Row
    from envbuild.verification.ran import Ran

_SEEDS = ("entropy", "addresses", "clock", "figures")
"""What an order may be drawn from; tasks still race."""
_BUT_ENTROPY = ("addresses", "clock", "figures", "order")
"""With which an order is one that the entropy gives, or always the same."""
_PAIRS = 2
"""Pairs of runs in which an order has to be the same."""
_PAIRS_OF_TWO = 4
"""The same of two lines, which have one of their two orders by luck more often."""


def in_other_order(runs: Sequence[Ran], stream: Stream, *, few: bool = False) -> bool:
    """Whether each run has the same lines of a stream in an order of its own: luck has few to choose from otherwise.

    ``few``: some runs have the same order.
    """
    printed = [run.stdout if stream == "stdout" else run.stderr for run in runs]
    if not several_processes(*(run.record for run in runs)) or len({each.unordered for each in printed}) > 1:
        return False
    orders = len({each.sha256 for each in printed})
    return orders > 1 and (few or orders == len(runs))


def is_order_of_jobs(left: LeftOut, stream: Stream) -> bool:
    """Whether nothing but lines of Snakemake's jobs came in another order, in runs that started it and left its log.

    Which of the jobs that are ready begins first is drawn (snakemake/scheduling), and which ends first is luck. It
    prints that on standard error; what is on the other stream is the jobs' own.
    """
    if stream != "stderr":
        return False
    project, ignored = left.session.plan.request.project, ignored_lines(left.session.ignore, stream)
    found = []
    for run in left.runs:
        text = kept(project, run.record.id, stream) or b""
        logs = any(is_log_of_jobs(PurePosixPath(output.path)) for output in run.record.outputs)
        runs_jobs = any(is_started_by(process.arguments) for process in run.record.processes)
        if not logs or not runs_jobs or len(text) >= KEPT_TEXT:
            return False
        blocks = without_order(rows(text, stream_masks(run.record, ignored, run.clocks.get(stream))))
        found.append([(row.masked.text, row.blanks) for block in blocks for row in block])
    return all(each == found[0] for each in found)


def drawn_orders(laboratory: Laboratory, streams: Sequence[Stream]) -> tuple[list[Stream], frozenset[Stream]]:
    """Find streams whose lines come in one order once the system's entropy is fixed: that was no luck of processes.

    A ranking that the first process prints has an order too. What is so in four runs, while it was another one in each
    run before, and still is in two with nothing fixed, depends on what is drawn. Of a few lines these two may have one
    order by chance, so that there are two more then.

    Also return the streams that have several orders with the entropy fixed. Of others, and where a run fails or time is
    up, nothing is known.
    """
    fixed, plain = LeftOut(session=laboratory.session), LeftOut(session=laboratory.session)
    orders = [*streams]
    by_luck: frozenset[Stream] = frozenset()
    for number in range(_PAIRS):
        if not fixed.look(laboratory, "entropy fixed", ("entropy",), number):
            return [], by_luck
        by_luck = frozenset(stream for stream in streams if not in_one_order(fixed.runs, stream))
        orders = [stream for stream in orders if stream not in by_luck]
        if not orders:
            return [], by_luck
    for number in range(_PAIRS):
        if not plain.look(laboratory, "nothing varied", (), number):
            return [], by_luck
        if found := [stream for stream in orders if not in_one_order(plain.runs, stream)]:
            return _drawn(laboratory, found), by_luck
    return [], by_luck


def _drawn(laboratory: Laboratory, orders: Sequence[Stream]) -> list[Stream]:
    """Return the streams whose lines come in several orders though nothing but the entropy is left to decide them."""
    left = LeftOut(session=laboratory.session)
    for number in range(_PAIRS):
        if not left.look(laboratory, "all fixed but entropy", _BUT_ENTROPY, number):
            return []
        if found := [stream for stream in orders if not in_one_order(left.runs, stream)]:
            return found
    return []


def raced(laboratory: Laboratory, streams: frozenset[Stream], pairs: int = 1) -> frozenset[Stream]:
    """Return those whose order is luck of tasks that race, and of nothing else.

    They have several orders with all fixed that a generator may be seeded with, and one order once tasks are done one
    after another as well. A generator may have a seed that nothing fixes, such as the number of a port.

    Args:
        laboratory: makes the runs.
        streams: those to look at.
        pairs: how many pairs of runs are made at most.
    """
    left, in_turn = LeftOut(session=laboratory.session), LeftOut(session=laboratory.session)
    found: frozenset[Stream] = frozenset()
    for number in range(pairs):
        if found == streams or not left.look(laboratory, "all fixed but the order of tasks", _SEEDS, number):
            break
        found = frozenset(stream for stream in streams if not in_one_order(left.runs, stream))
    for number in range(_PAIRS):
        if not found or not in_turn.look(laboratory, "all fixed", (*_SEEDS, "order"), number):
            return frozenset()
        found = frozenset(stream for stream in found if in_one_order(in_turn.runs, stream))
    return found


def drawn_in_turn(laboratory: Laboratory, left: LeftOut, streams: Sequence[Stream]) -> tuple[list[Stream], bool]:
    """Find streams in whose order of lines something is drawn, also where their tasks race.

    Done one after another, tasks print in one order each time, unless it is drawn which of them is done first.

    Args:
        laboratory: makes the runs.
        left: of the runs as they are.
        streams: those with several orders.

    Returns:
        the streams that have one order once the system's entropy is fixed too, and whether all others have one without.
    """
    in_turn = LeftOut(session=laboratory.session)
    pairs = max(_PAIRS_OF_TWO if _moved(left, stream) < 3 else _PAIRS for stream in streams)
    several: list[Stream] = []
    for number in range(pairs):
        if not in_turn.look(laboratory, "tasks in order", ("order",), number):
            return [], False
        if several := [stream for stream in streams if not in_one_order(in_turn.runs, stream)]:
            break
    if not several:
        return [], True
    fixed = LeftOut(session=laboratory.session)
    for number in range(_PAIRS):
        if not fixed.look(laboratory, "tasks in order, entropy fixed", ("order", "entropy"), number):
            return [], False
    return [stream for stream in several if in_one_order(fixed.runs, stream)], False


def _moved(left: LeftOut, stream: Stream) -> int:
    """Return at how many places runs have another line."""
    texts = [[row.masked.text for row in _rows(left, run, stream)] for run in left.runs]
    return sum(len({*each}) > 1 for each in zip(*texts, strict=False))


def _rows(left: LeftOut, run: Ran, stream: Stream) -> list[Row]:
    """Return the lines of a run as they are compared, as far as they are kept."""
    project, ignored = left.session.plan.request.project, ignored_lines(left.session.ignore, stream)
    text = kept(project, run.record.id, stream) or b""
    return [*rows(text, stream_masks(run.record, ignored, run.clocks.get(stream)))]


def first_moved(left: LeftOut, stream: Stream) -> TextDifference | None:
    """Return the first line of a stream that is another one in the first run that has another order."""
    first, *others = left.runs
    other = next((run for run in others if not in_one_order((first, run), stream)), others[0])
    before, after = (_rows(left, run, stream) for run in (first, other))
    return next(
        (
            TextDifference(path=stream, line=one.number, before=one.text, after=other.text)
            for one, other in zip(before, after, strict=False)
            if one.masked.text != other.masked.text
        ),
        None,
    )
