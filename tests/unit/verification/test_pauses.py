"""Words before pauses that a program sleeps and prints, and does nothing else with."""

from __future__ import annotations

import pytest

from envbuild.verification.dataflow.measuring import measuring
from envbuild.verification.dataflow.pauses import are_of_pauses

START = "import asyncio, logging, random, time\nlog = logging.getLogger()\nrng = random.SystemRandom()\n"
LOOP = "for attempt in range(5):\n"


@pytest.mark.parametrize(
    ("source", "word"),
    [
        (LOOP + " d = rng.random()\n print(f'retrying in {d:.2f} s')\n time.sleep(d)", "retrying in"),
        (LOOP + " d = 9 * rng.random()\n print(f'{e}; next one in {d:.2f} s')\n time.sleep(d)", "one in"),
        (LOOP + " d = 2 ** attempt * rng.random()\n log.info('x; sleeping %.1f s', d)\n time.sleep(d)", "sleeping"),
        (LOOP + " d = min(9, rng.uniform(0, 1))\n print('waiting', round(d * 1000), 'ms')\n time.sleep(d)", "waiting"),
        ("def f(n, base=0.5):\n return base * 2 ** n + rng.random()\n" + LOOP + " d = f(attempt)\n"
         " print('backoff {:.1f}'.format(d))\n time.sleep(d)", "backoff"),
        ("d = 0.1\nwhile True:\n print('waiting', d)\n time.sleep(d)\n d = min(d * 2, 1) + rng.random()", "waiting"),
        ("async def f():\n d = rng.random()\n print(f'pause {d}')\n await asyncio.sleep(d)", "pause"),
    ],
)  # fmt: skip
def test_pauses_are_slept_and_printed(source: str, word: str) -> None:
    """They are computed of constants, counters and what is drawn for them."""
    assert word in measuring({"main.py": START + source}).paused


@pytest.mark.parametrize(
    "use",
    [
        "pass",
        "found.append(d)",
        "total += d",
        "best = d",
        "if d < 1:\n  print('short')",
        "json.dump({'waiting': d}, file)",
        "print('waiting', score)",
        "waiting = score",
        "raise ValueError(d)",
        "f(d)",
        "x.d = 3",
    ],
)
def test_what_is_done_with_a_pause_otherwise_makes_it_a_result(use: str) -> None:
    """It may come out elsewhere, or something else behind the same word."""
    source = f"{LOOP} d = rng.random()\n print('waiting', d)\n time.sleep(d)\n {use}\n"
    assert ("waiting" in measuring({"main.py": START + source}).paused) == (use == "pass")


@pytest.mark.parametrize(
    "source",
    [
        "d = rng.random()\nprint('waiting', d)",
        "d = rng.random()\nprint('score', d)\ntime.sleep(d)",
        "d = loss * rng.random()\nprint('waiting', d)\ntime.sleep(d)",
        "d = 1 if loss < 2 else 3\nprint('waiting', d)\ntime.sleep(d)",
        "d = fit()\nprint('waiting', d)\ntime.sleep(d)",
        "for d in losses:\n print('waiting', d)\n time.sleep(d)",
        "def f(d):\n print('waiting', d)\n time.sleep(d)\nf(loss)",
        "def f(d):\n print('waiting', d)\n time.sleep(d)\nlist(map(f, losses))",
        "def f():\n return loss\nd = f()\nprint('waiting', d)\ntime.sleep(d)",
        "d = rng.random()\nprint('waiting', d * score)\ntime.sleep(d)",
        "d, e = score()\nprint('waiting', d)\ntime.sleep(d)",
        "d = rng.random()\nprint('waiting', d)\nbed.sleep(d)",
        "with loss as d:\n print('waiting', d)\n time.sleep(d)",
        "d = rng.random()\nwaits = f'waiting {d}'\nprint(waits)\ntime.sleep(d)",
        "d = rng.random()\nx = print('waiting', d)\ntime.sleep(d)",
        "d = rng.random()\nd += loss\nprint('waiting', d)\ntime.sleep(d)",
    ],
)
def test_other_numbers_are_none(source: str) -> None:
    """Those that are not slept, or are computed of something else, or of nothing that is known."""
    assert not measuring({"main.py": START + source}).paused


def test_a_pair_of_words_stands_for_its_last_one() -> None:
    """``in`` is before many numbers, ``retrying in`` is not; a line with a number behind another word has a result."""
    assert are_of_pauses(["in", "retrying in"], {"retrying in"})
    assert are_of_pauses(["sleeping", ""], {"sleeping"})
    assert not are_of_pauses(["in", "sold in"], {"retrying in", "in"})
    assert not are_of_pauses(["sleeping", "score"], {"sleeping"})
    assert not are_of_pauses([""], {"sleeping"})
