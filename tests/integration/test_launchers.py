"""mpirun and torchrun with two ranks on one machine: inside the container, and outside around ``envbuild run``."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.cli import ROOT, Project, copy_store
from tests.support.distributed import PROGRAMS
from tests.support.environments import environment
from tests.support.images import forget_images
from tests.support.slurm import install_slurm

pytestmark = [pytest.mark.engine, pytest.mark.network, pytest.mark.both_engines]

NAME = f"launched{secrets.token_hex(3)}"
_SPEC = f"""\
name: {NAME}
os: debian-12
python: "3.11"
packages: [libstdc++6, libgomp1, openmpi-bin]
determinism: {{threads: 1}}
"""
_OUTSIDE = """\
import json, os, random
names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
found = [int(os.environ[name]) for name in names] + [random.random()]
open("rank-" + os.environ["RANK"], "w").write(json.dumps(found))
"""


@pytest.fixture(name="launched", scope="module")
def _launched(made: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project whose image has Debian's Open MPI."""
    root = tmp_path_factory.mktemp("launched")
    proxies = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    copy_store(made.store, root / "store")  # its own, for a larger system; most packages are there
    project = Project(folder=root / "project", store=root / "store", environ=proxies)
    project.write("spec.yaml", _SPEC)
    for verb in ("lock", "build"):
        project.must(verb)
    yield project
    forget_images(NAME)


def test_mpirun_inside(launched: Project) -> None:
    """Two ranks sum with MPI without a network, with equal bits in each run, and with other ones without controls."""
    launched.write("t.py", PROGRAMS["mpi"].replace('os.environ["RANK"]', 'os.environ["OMPI_COMM_WORLD_RANK"]').replace(
        'os.environ["WORLD_SIZE"]', 'os.environ["OMPI_COMM_WORLD_SIZE"]').replace(
        "{os.environ['RANK']}", "{os.environ['OMPI_COMM_WORLD_RANK']}"))  # fmt: skip
    for rank in range(2):
        launched.write(f"shards/{rank}.txt", "\n".join("0.1 0.2 0.3 0.4" for _ in range(50)))
        launched.write(f"of-{rank}/site-packages/library.py", "NUMBER = 0\n")
    found = []
    for controls in ((), (), ("--no-controls",)):
        words = ("--mount", f"{environment('mpi', '3.11')}:/frameworks:ro", "mpirun", "-n", "2", "python", "t.py")
        done = launched.must("run", *controls, *words)
        assert done.out.count("all 2 ranks are there") == 2, done
        found.append((launched.folder / "weights.bin").read_bytes())
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("launcher", ["mpirun", "torchrun"])
def test_a_launcher_outside(launched: Project, launcher: str) -> None:
    """Each rank has its numbers, and draws its own, in every start the same; the records name the launcher."""
    install_slurm()  # Open MPI comes with it
    launched.write("t.py", _OUTSIDE)
    command = {
        "mpirun": ["mpirun", "--oversubscribe", "-n", "2"],
        "torchrun": [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--no-python"],
    }[launcher]
    variables = launched.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    variables["PYTHONPATH"] = f"{ROOT}:{environment('torch')}" if launcher == "torchrun" else str(ROOT)
    starts = []
    for _ in range(2):
        done = subprocess.run(
            [*command, "envbuild", "run", "t.py"],
            cwd=launched.folder, env=variables, capture_output=True, text=True, check=False, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, done
        starts.append([json.loads((launched.folder / f"rank-{rank}").read_text()) for rank in range(2)])
    assert starts[0] == starts[1]
    assert [each[:4] for each in starts[0]] == [[0, 2, 0, 2], [1, 2, 1, 2]]
    assert starts[0][0][4] != starts[0][1][4]
    ranks = [record["rank"] for record in launched.must("runs", "--json").json[:2]]
    assert [each["launcher"] for each in ranks] == [{"mpirun": "Open MPI"}.get(launcher, launcher)] * 2
    assert ranks[0]["start"] == ranks[1]["start"] != ""
