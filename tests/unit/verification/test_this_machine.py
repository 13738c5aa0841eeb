"""Seeds that all runs of one machine have in common."""

from __future__ import annotations

import pytest

from envbuild.verification.causes.this_machine import seeds_of_this_machine


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
