"""Parsers of foreign bytes survive damage: a short ``make fuzz`` with fixed seeds, and all that ever broke one."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from tests.fuzz import targets
from tests.fuzz.mutate import mutated

FUZZ = Path(__file__).parents[1] / "fuzz"
LIMIT = 30.0
"""Seconds for one input; ``make fuzz`` allows five, but this machine may have other work to do."""
COUNT = 60


@pytest.mark.parametrize("name", targets.available())
def test_a_parser_survives_altered_inputs(name: str) -> None:
    """Whatever the bytes, a parser returns a value or raises its own error, soon."""
    target = targets.TARGETS[name]
    good = target.seeds()
    target.run(good[0])  # it is not refused at once
    kept = [path.read_bytes() for path in sorted(FUZZ.glob(f"c*/{name}/*"))]
    words = random.Random(name)
    inputs = good + kept
    for data in (*inputs, *(mutated(words.choice(inputs), inputs, words) for _ in range(COUNT))):
        _within(target, data)


def _within(target: targets.Target, data: bytes) -> None:
    def late(number: int, frame: object) -> None:
        raise AssertionError(f"it takes more than {LIMIT:.0f} s: {data[:200]!r}")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, LIMIT)
    try:
        target.check(data)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
