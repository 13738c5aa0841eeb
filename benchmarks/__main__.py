"""Run benchmarks and print Markdown tables: all, or those named; ``peers`` represents all that begin with peers-.

Every ratio is measured in one run on one machine, the contestants in turn. What is measured, how and against whom:
docs/explanation/benchmarks.md.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from benchmarks import cases, cluster, comparisons, images, local, peers, registry
from benchmarks.measure import measure, table

os.environ.setdefault("ENVBUILD_ENGINE", "docker")  # the peers need one; those of local.py name theirs
BENCHMARKS = {
    **cases.BENCHMARKS,
    **registry.BENCHMARKS,
    **images.BENCHMARKS,
    **local.BENCHMARKS,
    **cluster.BENCHMARKS,
    **comparisons.BENCHMARKS,
    **peers.BENCHMARKS,
}
ON_REQUEST = {**peers.ON_REQUEST, **{name: BENCHMARKS.pop(name) for name in ("image-cuda", "local-cuda")}}


def text(benchmarks: dict[str, cases.Benchmark]) -> str:
    """List names, and the first sentence of what each reports of itself."""
    return "\n".join(f"  {name:<18} {(run.__doc__ or '').splitlines()[0]}" for name, run in benchmarks.items())


def chosen(names: Iterable[str]) -> list[str]:
    """Return the benchmarks that names and groups represent, in order. Raises ``ValueError`` for an unknown one."""
    found: list[str] = []
    for name in names:
        group = [each for each in BENCHMARKS if each.startswith(f"{name}-")]
        if name in BENCHMARKS or name in ON_REQUEST:
            found.append(name)
        elif group:
            found += group
        else:
            raise ValueError(name)
    return found or list(BENCHMARKS)


parser = argparse.ArgumentParser(
    prog="python -m benchmarks",
    description=__doc__,
    epilog=f"benchmarks:\n{text(BENCHMARKS)}\n\nonly if named, since they need 25 GB of disk:\n{text(ON_REQUEST)}\n\n"
    "environment:\n  ENVBUILD_BENCH_FRAMEWORK=jax   a small environment for peers-*, to see that all of them run",
    formatter_class=argparse.RawDescriptionHelpFormatter,
)
parser.add_argument("names", nargs="*", metavar="NAME", help="a benchmark, or the beginning of several")
parser.add_argument("-n", "--runs", type=int, default=5, help="counted runs of each contestant (default: 5)")
parser.add_argument("-s", "--slow", type=int, default=3, help="at most so many of slow peers (default: 3)")
options = parser.parse_args()
try:
    wanted = chosen(options.names)
except ValueError as unknown:
    parser.error(f"unknown: {unknown}")

# A run that gets SIGTERM takes its engine and images away, as one that comes to its end.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
for name in wanted:
    with tempfile.TemporaryDirectory(prefix=f"envbuild-bench-{name}-") as folder:
        title, contestants = {**BENCHMARKS, **ON_REQUEST}[name](Path(folder))
        print(table(title, measure(contestants, options.runs, slow=options.slow)), flush=True)
