"""What recording printed lines and files outside the project costs a run, in seconds of a processor.

The programs sleep where others compute, so that what envbuild does is not lost in the noise of 30 s of computing. The
same run with these parts off is the other contestant.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.cases import ENVBUILD, call
from benchmarks.measure import Case

_LOCAL = {"ENVBUILD_ENGINE": "local", "PYTHONPATH": str(Path(__file__).parents[1])}
_SPEC = 'name: bench-compared\nos: debian-12\npython: "3.11"\nrequirements: []\ndeterminism: {threads: 1}\n'
_FILES = """\
import os, time
os.makedirs("/tmp/results")
for number in range(20):
    with open(f"{'/tmp/results' if number % 2 else '.'}/weights-{number}.bin", "wb") as file:
        file.write(bytes([number]) * 1_000_000)
"""
_LINES = """\
import time
start = time.perf_counter()
for step in range({lines}):
    print(f"step {{step}} loss {{1 / (step + 1):.6f}} 12.5it/s {{time.perf_counter() - start:.3f}}s", flush=True)
    {pause}
"""


def usual(folder: Path) -> tuple[str, list[Case]]:
    """A program of 30 s that prints 1,000 lines with times and writes 20 files of 1 MB, 10 of them outside."""
    return "compared: CPU seconds of a run of 30 s, 1,000 lines, 20 files (the program sleeps)", _cases(
        folder, _FILES + _LINES.format(lines=1000, pause="time.sleep(0.03)")
    )


def lines(folder: Path) -> tuple[str, list[Case]]:
    """A program that does nothing but print 100,000 lines with times; of these a record masks 20,000."""
    return "compared: CPU seconds of a run that prints 100,000 lines with times", _cases(
        folder, _LINES.format(lines=100_000, pause="pass")
    )


def _cases(folder: Path, program: str) -> list[Case]:
    (folder / "spec.yaml").write_text(_SPEC)
    (folder / "train.py").write_text(program)
    call(ENVBUILD, "lock", cwd=folder)
    call(ENVBUILD, "build", cwd=folder, environment=_LOCAL)
    without = [sys.executable, "-m", "benchmarks.without_comparisons", "run", "train.py"]
    return [
        Case(name="envbuild run", command=[ENVBUILD, "run", "train.py"], cwd=folder, environment=_LOCAL, cpu=True),
        Case(name="without the comparisons", command=without, cwd=folder, environment=_LOCAL, cpu=True),
    ]


BENCHMARKS = {"compared-usual": usual, "compared-lines": lines}
