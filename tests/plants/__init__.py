"""Programs with planted differences, and programs that are equal but for times and names: what `verify` must see.

``different.toml``: two runs never have the same result; each names the channel by which it shows, what the first cause
must say (a regular expression, matched against the sentence) and a text in the line that must be named.
``equal.toml``: the results are equal, though bytes of files, names of folders or printed times are not.
Programs use the standard library, or what they name: ``needs`` is a file of tests/support/pins.

The programs were written before the detectors. Authors of the detectors did not see the ``_kept_aside`` files before
the first evaluation (no wrong verdict, 19 of 23 first causes right), nor the ``_third`` ones, written by who worked on
the detectors afterwards: docs/explanation/evaluation.md has the figures. The ``_fourth`` ones were written next, before
the detectors were touched again, and first evaluated when that work was done. Since then programs whose expectation was
wrong were corrected: results that were equal in truth, lines that were not the cause, programs that could not run.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tests.support import plants as library
from tests.support.cli import Done, Project
from tests.support.wheels import make_wheel

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent
_PLACES = re.compile(r"train\.py:\d+(?:, train\.py:\d+)*")
_SPEC = """\
name: {name}
os: debian-12
python: "3.11"
packages: [libstdc++6, libgomp1]
requirements: [plants]
wheels: [wheels]
determinism: {{threads: 1}}
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plant:
    """One program.

    Attributes:
        channel: by which a difference shows; empty: the results are equal.
        cause: regular expression for the first cause's sentence.
        at: a text in the line that is named.
        also: regular expressions for causes that are proven too, each in its own right.
        needs: framework to mount.
        files: texts of other files of the project, by path.
    """

    name: str
    script: str
    channel: str = ""
    cause: str = ""
    at: str = ""
    also: tuple[str, ...] = ()
    needs: str = ""
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """What `verify` made of a plant.

    Attributes:
        code: its exit code.
        first: the sentence about the first cause; empty if none was named.
        where: file and line of it.
        right: whether it is the planted one.
    """

    plant: Plant
    code: int
    first: str
    where: str
    right: bool
    done: Done


def load(path: Path) -> list[Plant]:
    """Read a file of plants."""
    return [Plant(**table) for table in tomllib.loads(path.read_text())["plant"]]


def draw(sets: Mapping[str, Sequence[Plant]], count: int, seed: int) -> list[Plant]:
    """Draw plants at random, differing and equal ones in turn.

    The order is that of digests of seed, set and name, so that a larger sample begins with a smaller one, and plants
    that are added later change nothing in the order of the others.

    Args:
        sets: plants by the name of their set.
        count: how many; all if there are fewer.
        seed: for another sample.
    """
    drawn = sorted(
        (
            (hashlib.sha256(f"{seed} {name} {plant.name}".encode()).digest(), plant)
            for name, plants in sets.items()
            for plant in plants
        ),
        key=lambda pair: pair[0],
    )
    sides = [plant for _, plant in drawn if plant.channel], [plant for _, plant in drawn if not plant.channel]
    return [plant for pair in zip_longest(*sides) for plant in pair if plant][:count]


def make_project(root: Path, name: str, modules: Mapping[str, str] | None = None) -> Project:
    """Lock and build an image for programs that need frameworks mounted at ``/frameworks``.

    Args:
        root: folder for the project and a separate store.
        name: of the image.
        modules: more modules for the programs, by file name.
    """
    proxies = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    project = Project(folder=root / "made" / "project", store=root / "store", environ=proxies)
    make_wheel(project.folder / "wheels", "plants", "1.0", {**library.wheel(""), **(modules or {})})
    project.write("spec.yaml", _SPEC.format(name=name))
    project.must("lock")
    project.must("build")
    return project


def judge(plant: Plant, project: Project, *options: str) -> Judged:
    """Verify a plant in a separate project; ``options`` go to ``verify``."""
    for path, text in {**plant.files, "train.py": plant.script}.items():
        project.write(path, text)
    done = project("verify", "--json", *options, "train.py")
    table: dict[str, Any] = done.json if done.out.strip().startswith("{") else {}
    causes = table.get("causes") or [{}]
    first, where = str(causes[0].get("what", "")), str(causes[0].get("where") or "")
    lines = [number for number, line in enumerate(plant.script.splitlines(), 1) if plant.at and plant.at in line]
    named = bool(first) and re.search(plant.cause, f"{first} {where}", re.IGNORECASE) is not None
    at = [int(each) for each in re.findall(r"\d+", where)] if _PLACES.fullmatch(where) else []
    right = named and (not at or not lines or not {*at}.isdisjoint(lines))
    sentences = [str(each.get("what", "")) for each in causes if "proven:" in str(each.get("what", ""))]
    right = right and all(any(re.search(also, each) for each in sentences) for also in plant.also)
    return Judged(plant=plant, code=done.code, first=first, where=where, right=right, done=done)
