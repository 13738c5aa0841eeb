"""``python -m tests.reproducibility``: one lock built in every cell, as a table; exit 16 if one cell differs."""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from envbuild.errors import NotReproducibleError
from tests.reproducibility.engines import NAMES, started
from tests.reproducibility.matrix import Cell, Matrix
from tests.reproducibility.subject import prepare
from tests.reproducibility.variations import CLOCK_AHEAD, QUICK, VARIATIONS


def main() -> int:
    """Parse, run, print; returns the exit code."""
    parser = argparse.ArgumentParser(prog="reproducibility", description="Build one lock everywhere; compare digests.")
    parser.add_argument("--engines", default=",".join(NAMES), help=f"of {', '.join(NAMES)}; separated by commas")
    parser.add_argument("--quick", action="store_true", help="only the rows that CI builds for every change")
    parser.add_argument("--row", default=[], action="append", choices=[row.name for row in VARIATIONS],
                        metavar="NAME", help="only the first row and this one; may be repeated")  # fmt: skip
    parser.add_argument("--leak", action="store_true", help="let everything into the image: every row must differ")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="engines at once")
    options = parser.parse_args()
    names = QUICK if options.quick else options.row
    rows = [row for row in VARIATIONS if not names or row.name in names or row is VARIATIONS[0]]
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="envbuild-reproducibility-") as folder:
        subject = prepare(Path(folder), f"repro-{secrets.token_hex(4)}", CLOCK_AHEAD)
        with started([name for name in options.engines.split(",") if name]) as (columns, missing):
            matrix = Matrix(subject, leak=options.leak, reported=_progress)
            table = matrix.run(columns, rows, options.jobs)
            reference = table[0][0]
            print("\n".join([*_table(table), *missing]))
            wrong = [cell for row in table for cell in row if cell.state(reference) in ("differs", "failed")]
            for cell in wrong:
                print(f"\n{cell.variation.name} on {cell.column.title}: {cell.state(reference)}")
                print("\n".join(matrix.explain(reference, cell)))
    return _verdict(table, len(wrong), time.monotonic() - began)


def _progress(cell: Cell) -> None:
    print(f"  {cell.column.title} · {cell.variation.name}  {cell.seconds:.1f} s", file=sys.stderr, flush=True)


def _table(table: Sequence[Sequence[Cell]]) -> list[str]:
    """Return the lines: a row for each variation, a column for each engine."""
    reference = table[0][0]
    titles = [cell.column.title for cell in table[0]]
    first = max(len(row[0].variation.name) for row in table)
    lines = ["  ".join([" " * first, *titles]).rstrip()]
    for row in table:
        states = [_state(cell, reference).ljust(len(title)) for cell, title in zip(row, titles, strict=True)]
        lines.append("  ".join([row[0].variation.name.ljust(first), *states]).rstrip())
    return lines


def _state(cell: Cell, reference: Cell) -> str:
    state = cell.state(reference)
    if state not in ("same", "differs"):
        return state
    return f"{state if state == 'same' else state.upper():<7} {cell.config[:12]}  {cell.seconds:4.1f} s"


def _verdict(table: Sequence[Sequence[Cell]], wrong: int, seconds: float) -> int:
    """Print the last lines."""
    reference = table[0][0]
    cells = [cell for row in table for cell in row]
    left_out = sum(cell.state(reference) == "needs root" for cell in cells)
    minutes = f"{int(seconds) // 60} min {int(seconds) % 60} s"
    print(f"\nconfig    sha256:{reference.config}\nmanifest  sha256:{reference.manifest}")
    extra = f", {left_out} not tried" if left_out else ""
    print(f"{len(cells) - left_out - wrong} of {len(cells)} cells have this one digest{extra}; {minutes}")
    return NotReproducibleError.exit_code if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
