"""``python -m tests.fuzz``: run libFuzzer over the targets and report what broke; exit 1 if anything did.

What is kept of a run: the inputs that reach more code than the seeds (``--keep``), and each input that broke a parser.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz import targets
from tests.fuzz.targets import TARGETS

HERE = Path(__file__).parent
CORPUS, CRASHES = HERE / "corpus", HERE / "crashes"
SECONDS = 5
"""Longest time for one input."""
MEMORY = 512
"""Most memory of the process, in megabytes."""
_MEMORY = Path("/dev/shm")
"""Files are read from memory where there is such a folder."""
_KEPT = 12
"""Inputs of a target that are kept in the repository, and their largest size in bytes."""
_LARGEST = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What one target came to.

    Attributes:
        inputs: how many were given.
        covered: libFuzzer's count of code edges reached.
        broken: the input that broke it, or None; ``report`` is what it did.
    """

    name: str
    inputs: int
    covered: int
    seconds: float
    broken: Path | None
    report: str


def main() -> int:
    """Parse, run, print; returns the exit code."""
    parser = argparse.ArgumentParser(prog="fuzz", description="Every parser of foreign bytes under libFuzzer.")
    parser.add_argument("targets", nargs="*", help=f"of {', '.join(TARGETS)}; all by default")
    parser.add_argument("--count", type=int, default=1_100_000, help="inputs over all targets")
    parser.add_argument("--seconds", type=int, default=600, help="for each target, at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="targets at once")
    parser.add_argument("--keep", action="store_true", help="add what reached new code to tests/fuzz/corpus")
    options = parser.parse_args()
    names = options.targets or targets.available()
    share = options.count // len(names)
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = list(
            pool.map(lambda name: _run(name, share, options.seconds, options.seed, keep=options.keep), names)
        )
    for outcome in outcomes:
        if outcome.report:
            print(f"\n{outcome.name}: {outcome.broken}\n{outcome.report}")
    print("\n".join(_table(outcomes)))
    return 1 if any(outcome.report for outcome in outcomes) else 0


def _run(name: str, count: int, seconds: int, seed: int, *, keep: bool) -> Outcome:
    """Run one target until it has had its share of inputs, or one has broken it."""
    with tempfile.TemporaryDirectory(prefix="envbuild-fuzz-", dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        found, seeds, broken = (Path(folder, part) for part in ("found", "seeds", "broken"))
        for path in (found, seeds, broken):
            path.mkdir()
        for number, data in enumerate(TARGETS[name].seeds()):
            (seeds / f"seed-{number}").write_bytes(data)
        for path in (*(CORPUS / name).glob("*"), *(CRASHES / name).glob("*")):
            shutil.copy(path, seeds)
        began = time.monotonic()
        text = _child(
            name, folder, f"-runs={count}", f"-max_total_time={seconds}", f"-seed={seed}", f"-timeout={SECONDS}",
            f"-rss_limit_mb={MEMORY}", f"-artifact_prefix={broken}/", "-print_final_stats=1", str(found), str(seeds),
        )  # fmt: skip
        took = time.monotonic() - began
        kept = next(broken.iterdir(), None)
        if kept is not None:
            (CRASHES / name).mkdir(parents=True, exist_ok=True)
            kept = Path(shutil.move(kept, CRASHES / name / kept.name[:18]))
        elif keep:
            _keep(name, found)
    inputs, covered = (re.findall(rf"{word}: (\d+)", text) for word in ("number_of_executed_units", r"\bcov"))
    print(f"  {name}: {took:.0f} s", file=sys.stderr, flush=True)
    return Outcome(
        name=name, inputs=int(inputs[-1]) if inputs else 0, covered=int(covered[-1]) if covered else 0, seconds=took,
        broken=kept, report=_explained(text) if kept is not None or not inputs else "",
    )  # fmt: skip


def _child(name: str, folder: str, *options: str) -> str:
    """Run libFuzzer and return what it prints; files that the parsers need go below ``folder``."""
    command = [sys.executable, "-m", "tests.fuzz.child", name, *options]
    environ = {**os.environ, "TMPDIR": folder}
    done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.stdout.decode(errors="replace")


def _keep(name: str, found: Path) -> None:
    """Add small inputs that reached what no earlier one did, the latest first: they were the hardest to find."""
    small = [path for path in found.iterdir() if path.stat().st_size <= _LARGEST]
    room = _KEPT - len(list((CORPUS / name).glob("*")))
    for path in sorted(small, key=lambda path: -path.stat().st_mtime_ns)[: max(room, 0)]:
        (CORPUS / name).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, CORPUS / name / path.name[:12])


def _explained(text: str) -> str:
    """Return the end of what libFuzzer printed: the traceback of what broke."""
    at = text.find("=== Uncaught Python exception: ===")
    return text[at if at >= 0 else -3000 :][:3000]


def _table(outcomes: list[Outcome]) -> list[str]:
    """Return the lines that state what was done."""
    lines = [f"{'target':<16} {'inputs':>9}  {'edges':>6}  {'seconds':>7}"]
    for each in outcomes:
        state = "" if each.broken is None else "  broken"
        lines.append(f"{each.name:<16} {each.inputs:>9,}  {each.covered:>6,}  {each.seconds:>7.0f}{state}")
    broken = sum(each.broken is not None for each in outcomes)
    return [*lines, f"{sum(each.inputs for each in outcomes):,} inputs, {broken} of {len(outcomes)} targets broken"]


if __name__ == "__main__":
    sys.exit(main())
