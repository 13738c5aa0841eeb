"""``python -m tests.campaign``: see the package."""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tests.campaign import disk, interrupts, kills, load, power
from tests.campaign.workshop import workshop
from tests.support.images import forget_images
from tests.support.podman import podman_service

Run = Callable[[Path, int, int, float], tuple[Sequence[str], Sequence[str]]]
"""Folder, seed, count, minutes after which no more faults are made; returns what is wrong, and figures."""


def main() -> int:
    """Parse, run, print; returns the exit code."""
    parser = argparse.ArgumentParser(prog="campaign", description="Faults on purpose; exit 1 if anything is wrong.")
    parser.add_argument("what", choices=list(WHAT))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100, help="how many faults")
    parser.add_argument("--minutes", type=float, default=math.inf, help="make no more faults after so many")
    parser.add_argument("--base", type=Path, help="disk: a store that has the operating system already")
    options = parser.parse_args()
    if options.what == "disk" and disk.INSIDE not in os.environ:
        return _alone(sys.argv[1:])
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="envbuild-campaign-") as name:
        run = partial(_disk, base=options.base) if options.what == "disk" else WHAT[options.what]
        faults, lines = run(Path(name).resolve(), options.seed, options.count, options.minutes)
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    end = f"seed {options.seed}, {time.monotonic() - began:.0f} s, load at the end {load}"
    print("\n".join([*faults, *lines, end]))
    return 1 if faults else 0


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _kills(root: Path, seed: int, count: int, minutes: float) -> tuple[Sequence[str], Sequence[str]]:
    with podman_service() as address, workshop(root, seed) as shop:
        engines = (*kills.ENGINES, kills.Engine(kind="podman", address=address))
        tally = kills.campaign(shop, seed, count, _progress, engines, minutes)
        forget_images(*(f"envbuild/{subject.name}" for subject in shop.subjects), address=address)
    return tally.faults, kills.figures(tally)


def _interrupts(root: Path, seed: int, count: int, minutes: float) -> tuple[Sequence[str], Sequence[str]]:
    with workshop(root, seed, count=1) as shop:
        tally, ends = interrupts.campaign(shop, seed, count, _progress, kills.ENGINES, minutes)
    return tally.faults, interrupts.figures(tally, ends)


def _power(root: Path, seed: int, count: int, _minutes: float) -> tuple[Sequence[str], Sequence[str]]:
    with workshop(root, seed, count=1, states=1) as shop:
        (subject,) = shop.subjects
        (root / "power").mkdir()
        power.start_over(subject)
        tally = power.campaign(subject.project, power.COMMANDS, seed, count, root / "power")
    return sorted(set(tally.faults)), power.figures(tally)


def _disk(
    root: Path, seed: int, count: int, minutes: float, base: Path | None = None
) -> tuple[Sequence[str], Sequence[str]]:
    with workshop(root, seed, count=1, states=1, base=base) as shop:
        (subject,) = shop.subjects
        tally = disk.campaign(subject, root, seed, count, _progress, minutes)
    return tally.faults, disk.figures(tally)


def _load(root: Path, seed: int, count: int, _minutes: float) -> tuple[Sequence[str], Sequence[str]]:
    with workshop(root, seed, states=1) as shop:
        commands, images = load.commands(shop, count), load.images(shop, seed, 4 * count)
    lines = [*load.figures(f"{count} commands at once", commands), *load.figures(f"{4 * count} images", images)]
    return [*commands.faults, *images.faults], lines


def _alone(arguments: Sequence[str]) -> int:
    """Start again in a mount namespace, where a full disk is nobody else's."""
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    command = ["unshare", *user, "--mount", sys.executable, "-m", "tests.campaign", *arguments]
    return subprocess.run(command, env={**os.environ, disk.INSIDE: "1"}, check=False).returncode


WHAT: dict[str, Run] = {"kills": _kills, "interrupts": _interrupts, "disk": _disk, "power": _power, "load": _load}


if __name__ == "__main__":
    sys.exit(main())
