"""Where two runs of a program part: the line that sets something to another value, or that leads one run elsewhere.

Runs are made for that with everything fixed but what was proven to make them differ, and followed line by line through
the project's code (``runtime/hook/fix_path.py``). All that the first thread did before was the same in both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING
from zlib import crc32

from envbuild.lockfile.layout import WORKSPACE
from envbuild.runtime.hook.fix_path import CUT, FREED, NAME, SIGNAL, STEP
from envbuild.verification.causes.evidence import SUSPECTS, Evidence
from envbuild.verification.causes.partings import acting
from envbuild.verification.causes.proofs import ALSO

if TYPE_CHECKING:
    from envbuild.operations.verification.laboratory import Laboratory
    from envbuild.runs.repeat import Repeated

_LONGEST = 1 << 26
"""Bytes of a way; the hook writes less."""
_LONG = STEP.size * 500_000
"""Bytes of a way that takes some seconds."""
_PAIR = 2
"""Runs that are compared."""
_BLOCK = STEP.size << 12
"""Bytes of two ways that are compared at once, and so many before the first that differ are looked at step by step."""
_MOST = 1_000_000
"""Steps that are compared from the first one on that is not the same in both."""
_MOVED = frozenset(("layout", "addresses", "environment"))
"""What is proven where the places of objects in memory matter."""
_ALWAYS = ("entropy", "clock", "addresses", "figures", "order")
"""Suspects that are fixed, but for that which is what makes runs differ."""


@dataclass(frozen=True, slots=True)
class _Step:
    """A line that was executed, by its number; what it set, as a digest; which step of all strands it was."""

    place: int
    value: int
    at: int


def parted(laboratory: Laboratory, evidence: Evidence) -> str:
    """Return the line, as in ``Culprit``, at which two runs part; empty if none is found.

    Args:
        laboratory: makes the runs.
        evidence: what is known.
    """
    name = acting(evidence)
    moved = name in _MOVED
    real = {name, ALSO.get(name, ""), *(_MOVED if moved else ())}
    fixed = [each for each in SUSPECTS if (each in _ALWAYS or each in evidence.proven) and each not in real]
    lines = {
        crc32(f"{WORKSPACE}/{path}:{number}".encode("utf-8", "surrogateescape")): f"{WORKSPACE}/{path}:{number}"
        for path, text in (evidence.sources or {}).items()
        for number in range(1, text.count("\n") + 2)
    }

    def followed(fixed: Sequence[str], label: str, changed: str) -> list[bytes]:
        ways: list[bytes] = []
        laboratory.followed(fixed, label, lambda found, _: ways.append(_way(laboratory, found)), changed)
        return ways if len(ways) == _PAIR else []

    for label in ("", ", again"):
        ways = followed(fixed, label, "layout" if moved else name)
        if not ways:
            return ""
        place = parting_of(ways[0], ways[1], lines)
        if place and evidence.proven:  # runs that are equal part as well where a port, say, is another one
            also = [each for each in ("addresses" if moved else name,) if each in SUSPECTS]
            equal = followed([*fixed, *also], ", of equal ones", "")
            return parting_of(ways[0], ways[1], lines, varying(equal[0], equal[1])) if equal else place
        if place or any(len(way) > _LONG for way in ways):
            return place
    return ""


def _way(laboratory: Laboratory, found: Repeated) -> bytes:
    """Read the way of a run; nothing if it left none."""
    from envbuild.core.fs import read_regular
    from envbuild.record import history

    folder = history.process_folder(laboratory.session.plan.request.project, found.record.id)
    with suppress(OSError):
        return read_regular(folder / NAME, _LONGEST, follow=False)
    return b""


def varying(one: bytes, other: bytes) -> frozenset[int]:
    """Return the numbers of lines that set something else in runs that are equal, as far as these go the same way."""
    found = set[int]()
    mine, theirs = _strands(one), _strands(other)
    for strand in {*mine} & {*theirs}:
        for step, same in zip(mine[strand], theirs[strand], strict=False):
            if step.place != same.place:
                break
            if step.value != same.value:
                found.add(step.place)
    return frozenset(found)


def parting_of(one: bytes, other: bytes, lines: Mapping[int, str], but: Collection[int] = ()) -> str:
    """Return the first line at which a strand parts, by the order of steps in the first run; empty if none does.

    Args:
        one, other: what two runs have written (``runtime/hook/fix_path.py``).
        lines: of the project, as in ``Culprit``, by their number there.
        but: lines of which what they set does not count (``varying``).
    """
    begin = max(0, _common(one, other) - _BLOCK)  # with some of the steps that all strands have in common
    found = min(_partings(_strands(one[begin:]), _strands(other[begin:]), lines, but), default=(0, ""))
    return found[1]


def _common(one: bytes, other: bytes) -> int:
    """Return how many bytes of two ways are the same at least, as whole blocks."""
    at = 0
    while at < len(one) and one[at : at + _BLOCK] == other[at : at + _BLOCK]:
        at += _BLOCK
    return at


def _strands(data: bytes) -> Mapping[int, Sequence[_Step]]:
    """Return the steps by strand; an incomplete one at the end is left out."""
    whole = data[: min(len(data) // STEP.size, _MOST) * STEP.size]
    steps = [(strand, _Step(place, value, at)) for at, (strand, place, value) in enumerate(STEP.iter_unpack(whole))]
    steps.sort(key=itemgetter(0))
    return {strand: [step for _, step in group] for strand, group in groupby(steps, key=itemgetter(0))}


def _partings(
    one: Mapping[int, Sequence[_Step]],
    other: Mapping[int, Sequence[_Step]],
    lines: Mapping[int, str],
    but: Collection[int],
) -> Iterator[tuple[int, str]]:
    cut = CUT in one or CUT in other
    for strand in sorted({*one} & {*other} - {SIGNAL, FREED, CUT}):
        mine, theirs = one[strand], other[strand]
        shorter = min(len(mine), len(theirs))
        at = next(
            (
                at
                for at in range(shorter)
                if mine[at].place != theirs[at].place
                or (mine[at].value != theirs[at].value and mine[at].place not in but)
            ),
            shorter,
        )
        if at == shorter and (cut or len(mine) == len(theirs)):
            continue
        same_line = at < shorter and mine[at].place == theirs[at].place
        step = mine[at] if same_line else mine[at - 1] if at else None
        if step is not None and step.place in lines:
            yield step.at, lines[step.place]
