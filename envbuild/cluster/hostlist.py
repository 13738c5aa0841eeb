"""Slurm's short forms: lists of host names (``node[1-3,07],login``) and of numbers per node (``2(x3),1``)."""

from __future__ import annotations

import itertools
import math

from envbuild.cluster.rank import LARGEST_WORLD
from envbuild.core.patterns import lazy

_ITEM = lazy(r"(?:[^,\[\]]|\[[0-9,-]+\])+")
_PART = lazy(r"\[[^\]]*\]|[^\[]+")
_LONGEST = 255
"""Characters of the longest name of a host (POSIX, ``HOST_NAME_MAX``)."""
_RANGE = lazy(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_COUNT = lazy(r"([0-9]{1,6})(?:\(x([0-9]{1,6})\))?")


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
        parts = [_numbers(part) if part.startswith("[") else (part,) for part in _PART.findall(item)]
        if len(found) + math.prod(map(len, parts)) > LARGEST_WORLD:
            raise ValueError(f"more than {LARGEST_WORLD} hosts")
        if sum(len(part[0]) for part in parts) > _LONGEST:
            raise ValueError(f"{item[:80]!r}… has names of more than {_LONGEST} characters")
        found += map("".join, itertools.product(*parts))
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


def _numbers(bracket: str) -> tuple[str, ...]:
    """Return the numbers of a bracket such as ``[1-3,07]``."""
    found: list[str] = []
    for part in bracket[1:-1].split(","):
        match = _RANGE.fullmatch(part)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise ValueError(f"{bracket[:80]!r} is no list of numbers")
        first, last = match[1], match[2] or match[1]
        if len(found) + int(last) - int(first) >= LARGEST_WORLD:
            raise ValueError(f"more than {LARGEST_WORLD} hosts")
        found += (f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1))
    return tuple(found)
