"""How many equal runs are no luck: a program with two possible results gives the same one in every second pair of runs.

How often two runs of the program as it is are equal by luck is estimated from runs that were made of it. One pair more
is counted as equal than was seen, so that few runs never show that luck is impossible.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

RISK = 0.002
"""The most that the chance of equal runs by luck may be where a cause is called proven."""
_RISK_OF_LINE = 0.1
"""The same where a line is said to make no difference."""
MOST = 16
"""Runs that are made to prove something: where more are needed, it cannot be proven."""


@dataclass(frozen=True, slots=True)
class Luck:
    """What is known of how often two runs of a program are equal by luck.

    Attributes:
        pairs: of runs that were compared.
        equal: of these.
    """

    pairs: int = 0
    equal: int = 0

    def __add__(self, other: Luck) -> Luck:
        """Return what two samples show together."""
        return Luck(self.pairs + other.pairs, self.equal + other.equal)

    @property
    def chance(self) -> float:
        """The chance that two runs are equal, from 0 to 1, both left out."""
        return (self.equal + 1) / (self.pairs + 2)

    def runs_that_prove(self) -> int:
        """Return how many equal runs with something fixed show that it is the cause: two at least."""
        return 1 + max(1, self._steps(RISK))

    def runs_that_clear(self) -> int:
        """Return how many equal runs with one line left as it was show that it makes no difference: one at least."""
        return max(1, self._steps(_RISK_OF_LINE))

    def _steps(self, risk: float) -> int:
        return math.ceil(math.log(risk) / math.log(self.chance) - 1e-9)


def luck_of(sizes: Sequence[int]) -> Luck:
    """Return what runs show that gave each result as often as ``sizes`` has it."""
    return Luck(_pairs(sum(sizes)), sum(map(_pairs, sizes)))


def _pairs(count: int) -> int:
    return count * (count - 1) // 2
