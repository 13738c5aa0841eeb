"""``python -m tests.campaign``: see the package."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.campaign import kills
from tests.campaign.workshop import workshop


def main() -> int:
    """Parse, run, print; returns the exit code."""
    parser = argparse.ArgumentParser(prog="campaign", description="Faults on purpose; exit 1 if anything is wrong.")
    parser.add_argument("what", choices=["kills"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300, help="how many faults")
    options = parser.parse_args()
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="envbuild-campaign-") as name,
        workshop(Path(name).resolve(), options.seed) as shop,
    ):
        tally = kills.campaign(shop, options.seed, options.count, lambda line: print(line, file=sys.stderr, flush=True))
        print("\n".join([*tally.faults, *kills.figures(tally)]))
    print(f"seed {options.seed}, {time.monotonic() - began:.0f} s")
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
