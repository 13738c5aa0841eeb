"""Judge plants and print a table: ``python -m tests.plants [FILE.toml…] [--sample N] [--seed S] [-- OPTION…]``.

Without files all sets are judged. ``--sample`` draws N plants, differing and equal ones in turn. What follows ``--`` is
for `verify`. Needs a container engine; makes a project, an image and a separate store in a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.plants import FOLDER, Judged, Plant, draw, judge, load, make_project
from tests.support.cli import Project
from tests.support.environments import environment
from tests.support.images import forget_images

_NAME = f"plantbox-{os.getpid()}"


def main(arguments: list[str]) -> int:
    """Judge; returns 1 if a verdict is wrong."""
    options: list[str] = []
    if "--" in arguments:
        at = arguments.index("--")
        arguments, options = arguments[:at], arguments[at + 1 :]
    asked = _parse(arguments)
    sets = {path.stem: load(path) for path in asked.files or sorted(FOLDER.glob("*.toml"))}
    found = (
        draw(sets, asked.sample, asked.seed) if asked.sample else [each for plants in sets.values() for each in plants]
    )
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        made = make_project(root, _NAME)
        try:
            with ThreadPoolExecutor(int(os.environ.get("PLANT_JOBS", "2"))) as pool:
                judged = []
                folders = [root / str(number) for number in range(len(found))]  # two sets may share a name
                for each in pool.map(lambda plant, folder: _judge(plant, made, folder, options), found, folders):
                    judged.append(each)
                    _print(each)
        finally:
            if os.environ.get("ENVBUILD_ENGINE") != "local":  # which keeps images in the store alone
                forget_images(f"envbuild/{_NAME}")
    wrong = sum(map(_is_wrong, judged))
    planted = [each for each in judged if each.plant.cause]
    print(f"{len(judged)} plants: {wrong} wrong verdicts", end="")
    print(f", first cause right in {sum(each.right for each in planted)} of {len(planted)}" if planted else "")
    return 1 if wrong else 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.plants")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE.toml", help="sets of plants (default: all)")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="judge N plants that a seed draws")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the sample (default: 1)")
    return parser.parse_args(arguments)


def _is_wrong(judged: Judged) -> bool:
    return judged.code != (16 if judged.plant.channel else 0)


def _print(judged: Judged) -> None:
    """Print a line as soon as a program is judged, and what speaks against it if the verdict is wrong."""
    verdict = {0: "identical", 16: "different"}.get(judged.code, f"exit {judged.code}")
    mark = "WRONG" if _is_wrong(judged) else "cause" if judged.plant.cause and not judged.right else ""
    print(f"{mark:<6}{judged.plant.name:<28}{verdict:<11}{judged.where:<16}{judged.first[:110]}", flush=True)
    if mark == "WRONG":
        print("      " + "\n      ".join(_why(judged)), flush=True)


def _why(judged: Judged) -> list[str]:
    """Return what `verify` said differs, or the end of its errors."""
    out = judged.done.out.strip()
    differs = json.loads(out).get("differs", []) if out.startswith("{") else []
    return [str(each) for each in differs] or judged.done.err[-600:].splitlines()


def _judge(plant: Plant, made: Project, folder: Path, options: list[str]) -> Judged:
    mount = ("--mount", f"{environment(plant.needs, '3.11')}:/frameworks:ro") if plant.needs else ()
    return judge(plant, made.copy(folder), *options, *mount)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
