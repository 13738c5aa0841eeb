"""Slurm's short forms: lists of host names (``node[1-3,07],login``) and of numbers per node (``2(x3),1``)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envbuild.cluster.rank import LARGEST_WORLD

_ITEM = re.compile(r"(?:[^,\[\]]|\[[0-9,-]+\])+")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_COUNT = re.compile(r"([0-9]{1,6})(?:\(x([0-9]{1,6})\))?")


def expand_hosts(text: str) -> tuple[str, ...]:
    """Return the names of a list such as ``node[1-3,07],login``, in its order.

    Source: https://slurm.schedmd.com/scontrol.html (``show hostnames``). Zeros in front of a number are kept.

    Raises:
        ValueError: it is no such list, or has more names than a job has ranks.
    """
    if not text:
        return ()
    items = _ITEM.findall(text)
    if ",".join(items) != text:
        raise ValueError(f"{text!r} is no list of hosts")
    found: list[str] = []
    for item in items:
        for name in _names(item):
            found.append(name)
            if len(found) > LARGEST_WORLD:
                raise ValueError(f"more than {LARGEST_WORLD} hosts")
    return tuple(found)


def expand_counts(text: str) -> tuple[int, ...]:
    """Return the numbers of a list such as ``2(x3),1``: here 2, 2, 2, 1; raises ``ValueError`` for anything else."""
    found: list[int] = []
    for part in text.split(",") if text else ():
        match = _COUNT.fullmatch(part)
        if match is None:
            raise ValueError(f"{text!r} is no list of numbers")
        times = int(match[2] or 1)
        if len(found) + times > LARGEST_WORLD:
            raise ValueError(f"more than {LARGEST_WORLD} nodes")
        found += [int(match[1])] * times
    return tuple(found)


def _names(item: str) -> Iterator[str]:
    """Yield the names of one item, which may have several brackets."""
    before, bracket, rest = item.partition("[")
    if not bracket:
        yield item
        return
    inside, _, after = rest.partition("]")
    for part in inside.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ValueError(f"{item!r} is no list of hosts")
        first, last = match[1], match[2] or match[1]
        if int(last) - int(first) >= LARGEST_WORLD:
            raise ValueError(f"more than {LARGEST_WORLD} hosts")
        for number in range(int(first), int(last) + 1):
            for ending in _names(after):
                yield f"{before}{number:0{len(first)}d}{ending}"
