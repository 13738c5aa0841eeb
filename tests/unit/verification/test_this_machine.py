"""Seeds that all runs of one machine have in common."""

from __future__ import annotations

import pytest

from envbuild.verification.causes.this_machine import limits_by_signals, seeds_of_this_machine


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import random, psutil\nrng = random.Random(psutil.boot_time())\n", [("psutil.boot_time()", "t.py:2")]),
        (
            "import random\nseed = open('/proc/sys/kernel/random/boot_id').read()\nrandom.seed(seed)\n",
            [("/proc/sys/kernel/random/boot_id", "t.py:2")],
        ),
        ("import os\nprint(os.cpu_count(), 'cores')\n", []),
        ("import os\nfrom multiprocessing import Pool\npool = Pool(os.cpu_count())\n", []),
    ],
)
def test_facts_of_the_machine_that_become_seeds_are_known(source: str, found: list[tuple[str, str]]) -> None:
    """What is merely shown, or says how many work at once, is none."""
    assert [*seeds_of_this_machine({"t.py": source})] == found


@pytest.mark.parametrize(
    ("call", "known"),
    [
        ("signal.alarm(2)", True),
        ("signal.alarm(60)", False),
        ("signal.alarm(0)", False),
        ("signal.setitimer(signal.ITIMER_PROF, self.seconds)", True),
        ("signal.setitimer(signal.ITIMER_REAL, 0)", False),
        ("signal.pause()", False),
    ],
)
def test_limits_of_time_that_a_signal_ends(call: str, known: bool) -> None:
    """Those that are longer than the runs end nothing, and 0 takes one back."""
    found = [*limits_by_signals({"t.py": f"import signal\n{call}\n"}, 5.0)]
    assert found == ([(call.partition("(")[0] + "()", "t.py:2")] if known else [])
