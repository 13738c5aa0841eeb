"""Run the benchmarks: ``python -m benchmarks [lock] [build] [run] [guard] [help] [-n RUNS]`` (all by default).

Prints Markdown tables. Every ratio is measured in one run on one machine, the contestants in turn.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benchmarks import cases, registry
from benchmarks.measure import measure, table

BENCHMARKS = {**cases.BENCHMARKS, **registry.BENCHMARKS}

parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of: {', '.join(BENCHMARKS)}")
parser.add_argument("-n", dest="runs", type=int, default=5, help="counted runs of each contestant")
options = parser.parse_args()
if unknown := set(options.names) - set(BENCHMARKS):
    parser.error(f"unknown: {', '.join(sorted(unknown))}")

for name in options.names or BENCHMARKS:
    with tempfile.TemporaryDirectory(prefix=f"envbuild-bench-{name}-") as folder:
        title, contestants = BENCHMARKS[name](Path(folder))
        print(table(title, measure(contestants, options.runs)), flush=True)
