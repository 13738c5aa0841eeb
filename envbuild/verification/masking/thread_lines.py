"""Lines that several threads of a program print in any order: what of their order is luck.

Runs in which each line says who printed it (``runtime/hook/fix_lines.py``) show whose lines those of other runs are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from envbuild.verification.masking.ordinals import MARK, Ordinals

FIRST = ""
"""The name of a program's first thread."""
ORDER = "the order of lines of several threads"
"""What is left out of a file whose lines threads wrote in turn."""
_MARK = b"\x1f"


class OwnedLine(NamedTuple):
    """A line as it is compared, and the name of the thread or task that printed it."""

    owner: str
    text: str


def owners(data: bytes) -> tuple[bytes, list[str]]:
    """Take the names out of a stream; return what the program printed, and who began each of its lines."""
    lines, found = [], []
    for line in data.split(b"\n"):
        owner, text = FIRST, line
        if line.startswith(_MARK) and line.count(_MARK) > 1:
            _, name, text = line.split(_MARK, 2)
            owner = name.decode("ascii", "replace")
        lines.append(text)
        found.append(owner)
    return b"\n".join(lines), found


def differ_by_turns_alone(runs: Sequence[Sequence[str]], owned: Sequence[Sequence[OwnedLine]]) -> bool:
    """Whether streams differ in nothing but whose turn it was to print.

    All have the same lines, and each thread or task prints its own in one order. Lines that some thread or other
    prints, as it comes to do that part, have no order of their own, nor have others of these threads; none of them is
    the first thread's but those that say their own place, as progress is logged (``ordinals``).

    Args:
        runs: the lines of runs of the program as it is.
        owned: those of runs in which it is known who printed what, two or more.
    """
    lines = Counter(runs[0])
    if any(Counter(each) != lines for each in runs[1:]):
        return False
    if any(Counter(line.text for line in each) != lines for each in owned):
        return False
    by_text = [_owners_of(each) for each in owned]
    moved = {text for text in lines if any(each[text] != by_text[0][text] for each in by_text[1:])}
    if any(FIRST in each[text] and MARK not in text for text in moved for each in by_text):
        return False
    moved |= {text for text in lines if MARK in text}
    # Which of two equal lines is the first thread's is not known of runs in which lines have no owner.
    alike = {text for text in lines if len(by_text[0][text]) > 1}
    if any(FIRST in by_text[0][text] and text.strip() for text in alike):
        return False
    # Who shares tasks with others comes to any of them, also to one that it did in each of a few runs.
    sharing = {owner for text in moved for each in by_text for owner in each[text]} - {FIRST}
    moved |= {text for text in lines if sharing.issuperset(by_text[0][text])}
    orders = [_orders(line for line in each if line.text not in moved) for each in owned]
    if any(each != orders[0] for each in orders[1:]):
        return False
    of_one = {text: next(iter(by_text[0][text])) for text in lines if text not in moved and text not in alike}
    found = [_orders(OwnedLine(of_one[text], text) for text in each if text in of_one) for each in runs]
    several = any(each.keys() != {FIRST} or MARK in text for text, each in by_text[0].items())
    return all(each == found[0] for each in found[1:]) and several


def without_ordinals(lines: Iterable[str]) -> list[str]:
    """Return lines with marks in the place of the numbers that say their places."""
    ordinals = Ordinals()
    return [ordinals.without(each) for each in lines]


def _owners_of(lines: Sequence[OwnedLine]) -> Mapping[str, Counter[str]]:
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for owner, text in lines:
        found[text][owner] += 1
    return found


def _orders(lines: Iterator[OwnedLine]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for owner, text in lines:
        found.setdefault(owner, []).append(text)
    return found
