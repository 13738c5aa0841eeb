"""What ranks of a job pay for one verdict and one record, against the same processes without either.

``cluster-gang`` is a real Slurm of two nodes (network namespaces of this machine, ``tests/support/slurm.py``);
``cluster-many`` forks the ranks of one machine, since 64 whole runs would measure its processors.
"""

from __future__ import annotations

import atexit
import secrets
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path

from benchmarks.cases import ENVBUILD, REPOSITORY, call
from benchmarks.measure import Case

_RANKS = 64


def gang(folder: Path) -> tuple[str, list[Case]]:
    """Four ranks over two nodes, a trivial program: one verdict and one record, against four runs by themselves."""
    from tests.support.slurm import slurm

    project = folder / "project"
    project.mkdir()
    (project / "spec.yaml").write_text("name: gang\ndeterminism: {threads: 1}\n")
    (project / "program.py").write_text("print('done')\n")
    stack = ExitStack()
    atexit.register(stack.close)
    cluster = stack.enter_context(slurm(folder / "slurm"))
    for verb in ("lock", "build"):
        call(ENVBUILD, verb, cwd=project, environment=cluster.environ)
    step = ["srun", "--nodes=2", "--ntasks-per-node=2", "--kill-on-bad-exit=1"]
    run = [ENVBUILD, "run", "program.py"]
    tcp = {"ENVBUILD_RANKS_ADDRESS": "auto", "ENVBUILD_RANKS_SECRET": secrets.token_hex(16)}

    def case(name: str, command: list[str], **environment: str) -> Case:
        return Case(name=name, command=command, cwd=project, environment=cluster.environ | environment)

    return "4 ranks on 2 nodes of Slurm, local engine", [
        case("a job: verdict over TCP, records to rank 0", [*step, *run], **tcp),
        case("a job: verdict in the shared folder", [*step, *run]),
        case("4 runs by themselves, each with its guard", [*step, "env", "-u", "SLURM_STEP_NUM_TASKS", *run]),
        case("4 times true", [*step, "true"]),
    ]


def many(folder: Path) -> tuple[str, list[Case]]:
    """64 forked ranks of one machine meet and end, with and without delivering their records; nothing is run."""

    def case(name: str, *words: str) -> Case:
        place = folder / name.replace(" ", "-")
        noted = place / "noted"

        def prepare() -> None:
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()

        return Case(
            name=name,
            command=[sys.executable, "-m", "benchmarks.ranks", *words, str(_RANKS), str(place)],
            cwd=place.parent,
            environment={"PYTHONPATH": str(REPOSITORY)},
            prepare=prepare,
            note=noted.read_text,
        )

    return f"{_RANKS} ranks on one machine: from the fork to the end of the last", [
        case("verdict over TCP", "tcp"),
        case("verdict over TCP and records delivered", "records"),
        case("verdict in a folder", "folder"),
        case("ranks that meet nobody", "nobody"),
    ]


BENCHMARKS = {"cluster-gang": gang, "cluster-many": many}
