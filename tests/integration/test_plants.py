"""Planted differences with real TensorFlow, PyTorch and JAX: each is found, at its step, in its tensor, by its cause.

All of it as users have it: ``envbuild verify``, ``run --trace`` and ``diff`` over containers, the frameworks mounted
into a small image. tests/support/plants.py has the programs, planted.py the plants. Where nothing is planted no cause
is invented.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import plants
from tests.support.cli import Done, Project
from tests.support.environments import environment
from tests.support.images import forget_images
from tests.support.planted import CHANGED, FOUND, WITHOUT_EXPERIMENTS, Plant
from tests.support.wheels import make_wheel

pytestmark = [pytest.mark.engine, pytest.mark.network]

NAME = f"plants{secrets.token_hex(3)}"
LIKELY = 40
"""Causes from this weight on are called likely."""


def mounted(framework: str) -> tuple[str, str]:
    """The option that mounts a framework."""
    return "--mount", f"{environment(framework, '3.11')}:/frameworks:ro"


@pytest.fixture(scope="module", name="planted")
def _planted(made: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """The trainings' project, built over the layers of the small one."""
    project = made.copy(tmp_path_factory.mktemp("plants"))
    for name in ("pylock.clitest.toml", "Dockerfile", "pylock.clitest.image.json"):
        (project.folder / name).unlink(missing_ok=True)
    make_wheel(project.folder / "wheels", "plants", "1.0", plants.wheel(plants.PACKAGE))
    spec = (project.folder / "spec.yaml").read_text().replace("clitest", NAME).replace("[tool]", "[plants]")
    project.write("spec.yaml", f"{spec}inputs: [data]\n")
    plants.write_data(project.folder / "data")
    project.write("settings.json", plants.SETTINGS)
    project.must("lock")
    project.must("build")
    yield project
    forget_images(f"envbuild/{NAME}")


def verified(project: Project, framework: str, text: str, *options: str) -> Done:
    """Verify a training twice."""
    project.write("train.py", text)
    return project("verify", "--json", "-n", "2", *options, *mounted(framework), "train.py")


@pytest.mark.parametrize("name", FOUND)
def test_a_plant_is_found(planted: Project, tmp_path: Path, name: str) -> None:
    """``verify`` names step, tensor, both values, the cause and the calls that lead to it; nothing else is likely."""
    plant = FOUND[name]
    _is_found(planted.copy(tmp_path), plant, *(WITHOUT_EXPERIMENTS if plant.thorough else ()))


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name, plant in FOUND.items() if plant.thorough])
def test_a_plant_is_found_with_experiments(planted: Project, tmp_path: Path, name: str) -> None:
    """The same of plants that ``make integration`` runs without."""
    _is_found(planted.copy(tmp_path), FOUND[name])


def _is_found(project: Project, plant: Plant, *options: str) -> None:
    text = plants.script(plant.framework, *plant.edits)
    done = verified(project, plant.framework, text, *plant.options, *options)
    assert done.code == 16, done.out + done.err
    first, (chief, *others) = done.json["first"], done.json["causes"]
    assert (first["kind"], first["step"], first["tensor"]) == (
        "step" if plant.step else "start",
        plant.step,
        plant.tensor,
    )
    assert first["before"] != first["after"]
    assert first["ulps"] > 0
    assert chief["what"].startswith(plant.cause), done.json["causes"]
    if plant.at:
        script = not plant.at.endswith(".py")
        line = plants.line_of(text if script else plants.PACKAGE, plant.at if script else "os.urandom")
        *calls, where = chief["where"].split(" → ")
        *made, where = where.split(", ")
        assert where == f"{'train.py' if script else plant.at}:{line}"
        assert len(made) == ("a set" in plant.cause), "of a set, the line that made it; else one line alone"
        assert script or calls[0].startswith("train.py:")
    likely = [cause["what"] for cause in others if cause["weight"] >= LIKELY]
    assert [what for what in likely if not what.startswith(plant.also or "-")] == []


@pytest.mark.parametrize("framework", plants.SCRIPTS)
def test_no_cause_is_invented(planted: Project, tmp_path: Path, framework: str) -> None:
    """Without a plant: bit-identical; ``diff`` of the two runs is exit 0, without a cause and without a first step."""
    project = planted.copy(tmp_path)
    done = verified(project, framework, plants.script(framework))
    assert done.code == 0, done.out + done.err
    one, other = done.json["ids"]
    found = project("diff", "--json", one, other)
    assert (found.code, found.json["causes"], found.json["first"]) == (0, [], None), found.out


@dataclass(frozen=True)
class Made:
    """A run: its project and the folder of its record."""

    project: Project
    folder: Path


@pytest.fixture(scope="module", name="made_runs")
def _made_runs(
    planted: Project, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[dict[str, Future[Made]], dict[str, Future[Made]]]]:
    """The first run of each framework, and the run of each change; two continue at once."""

    def run(framework: str, edits: tuple[tuple[str, str], ...], options: tuple[str, ...], prepare: Any = None) -> Made:
        project = planted.copy(tmp_path_factory.mktemp("run"))
        project.write("train.py", plants.script(framework, *edits))
        if prepare is not None:
            prepare(project, firsts[framework].result().project)
        project.must("run", "-q", "--trace", *options, *mounted(framework), "train.py")
        (folder,) = (project.folder / ".envbuild" / "runs").iterdir()
        return Made(project, folder)

    pool = ThreadPoolExecutor(min(2, os.cpu_count() or 1))
    try:
        firsts = {framework: pool.submit(run, framework, (), ()) for framework in plants.SCRIPTS}
        others = {
            name: pool.submit(run, change.framework, change.edits, change.options, change.prepare)
            for name, change in CHANGED.items()
        }
        yield firsts, others
    finally:
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("name", CHANGED)
def test_a_change_is_named(made_runs: tuple[dict[str, Future[Made]], dict[str, Future[Made]]], name: str) -> None:
    """``diff`` names what was changed and nothing else, and from the traces the first step and tensor."""
    change, (firsts, others) = CHANGED[name], made_runs
    one, other = firsts[change.framework].result(), others[name].result()
    done = other.project("diff", "--json", str(one.folder), str(other.folder))
    assert done.code == 16, done.out + done.err
    assert [cause["sentence"] for cause in done.json["causes"]] == list(change.because)
    first = done.json["first"]
    assert (first["kind"], first["step"], first["tensor"]) == (
        "step" if change.step else "start",
        change.step,
        change.tensor,
    )
    assert first["before"] != first["after"]
