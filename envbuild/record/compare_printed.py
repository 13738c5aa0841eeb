"""Two records' printed lines: which streams differ, and of which it is not known."""

from __future__ import annotations

from typing import NamedTuple

from envbuild.record.model import Record
from envbuild.record.printed import ANY_ORDER, IGNORED, STREAMS, Printed, Stream
from envbuild.record.shared_names import common_names, names_of_several

_ORDER = "order of the lines of {} (several {} printed)"
_BOUND = "lines of {} beyond those that a run's record has (envbuild verify compares all)"


def several_processes(*records: Record) -> bool:
    """Whether a program had several processes, whose lines come in any order."""
    return any(len(record.processes) > 1 for record in records)


class PrintedComparison(NamedTuple):
    """What two runs printed, compared.

    Attributes:
        differing: the streams that are known to differ.
        undecided: what has other bytes behind the bound, where they may be times, a phrase for each stream.
        left_out: what could not be compared at all, a phrase each.
    """

    differing: tuple[Stream, ...] = ()
    undecided: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def unknown(self) -> tuple[str, ...]:
        """What is not known to be equal or different."""
        return (*self.undecided, *self.left_out)


def compare_printed(one: Record, other: Record) -> PrintedComparison:
    """Compare what two runs printed."""
    if one.printed is None or other.printed is None:
        return PrintedComparison(left_out=("printed lines (not recorded; envbuild verify compares them)",))
    if one.options.tty != other.options.tty:
        return PrintedComparison(left_out=("printed lines (one run was on a terminal)",))
    several, known = several_processes(one, other), names_of_two(one, other)
    differing: list[Stream] = []
    undecided, left_out = [], []
    for stream, name in STREAMS.items():
        mine, theirs = one.printed.get(stream, Printed()), other.printed.get(stream, Printed())
        if IGNORED in mine.masked or IGNORED in theirs.masked:
            left_out.append(f"lines of {name} that were not to be compared")
        elif (equal := _equal(mine, theirs, known, several=several)) is None:
            undecided.append(_BOUND.format(name))
        elif not equal:
            differing.append(stream)
        elif mine.sha256 != theirs.sha256:
            left_out.append(_ORDER.format(name, "processes" if several else "threads"))
    return PrintedComparison(tuple(differing), tuple(undecided), tuple(left_out))


def names_of_two(one: Record, other: Record) -> frozenset[str]:
    """Return the names that look drawn and that both runs printed, on whichever stream: they are data."""
    printed = ([name for each in (run.printed or {}).values() for name in each.names] for run in (one, other))
    return names_of_several([*printed])


def _equal(one: Printed, other: Printed, known: frozenset[str], *, several: bool) -> bool | None:
    """Whether two streams are equal; None if it is not known: behind the bound there may be times, or other lines.

    Args:
        one, other: the streams.
        known: names that are data.
        several: several processes printed.
    """
    several = several or ANY_ORDER in (one.threads, other.threads)
    both = bool(one.threads and other.threads)
    mine, theirs = (each.digest if both else each.sha256 for each in (one, other))
    alike = one.unordered == other.unordered if several else mine == theirs
    if one.names and other.names:  # older records have none
        names = common_names([one.names, other.names], ordered=not several and not both, known=known)
        alike = alike and names[0] == names[1]
    if one.rest_bytes or other.rest_bytes:
        return True if alike and (one.rest_bytes, one.rest) == (other.rest_bytes, other.rest) else None
    return alike


def only_order_differs(one: Printed, other: Printed) -> bool:
    """Whether two streams have the same lines, masked, in another order."""
    alike = (one.lines, one.unordered, one.rest, one.rest_bytes) == (
        other.lines, other.unordered, other.rest, other.rest_bytes,
    )  # fmt: skip
    return alike and one.sha256 != other.sha256
