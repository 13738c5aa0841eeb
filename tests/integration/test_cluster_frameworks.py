"""Training over two ranks on each of two nodes of a real Slurm, with TensorFlow, PyTorch, JAX and Open MPI.

Equal bits under the controls, other ones without; and what one rank has otherwise is named with its rank.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.integration.test_cluster_torch import shard
from tests.support.cli import Project, copy_store
from tests.support.distributed import PROGRAMS
from tests.support.environments import environment
from tests.support.slurm import Cluster, slurm

pytestmark = [pytest.mark.engine, pytest.mark.network]

RUNS = os.environ.get("ENVBUILD_TEST_RUNS", "2")
"""Of one verification."""
ONE_BY_ONE, AT_ONCE = ("torch", "mpi"), ("tensorflow", "jax")
"""Of which each difference has a job of its own, and of which one job has all; each alone too: ``make thorough``."""
PIECES = ("torch", "tensorflow")
"""Libraries that cut what they add up into pieces of a size that the program states."""
SEED = "$((SLURM_PROCID == 2))"
_SPEC = """\
name: ranks
os: debian-12
python: "3.11"
packages: [libstdc++6, libgomp1, openmpi-bin]
determinism: {threads: 1}
run: {network: host}
"""


@pytest.fixture(name="two", scope="module")
def _two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two nodes, on which ranks find PMIx."""
    with slurm(tmp_path_factory.mktemp("cluster") / "slurm") as cluster:
        cluster.environ["SLURM_MPI_TYPE"] = "pmix"
        yield cluster


@pytest.fixture(name="ranks", scope="module")
def _ranks(two: Cluster, made: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose image has Debian's Open MPI; frameworks are mounted into it."""
    root = tmp_path_factory.mktemp("ranks")
    proxies = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    copy_store(made.store, root / "store")  # its own, for a larger system; most packages are there
    project = Project(folder=root / "project", store=root / "store", environ=proxies)
    project.write("spec.yaml", _SPEC)
    for verb in ("lock", "build"):
        project.must(verb, **two.environ)
    return project


@pytest.fixture(name="words", params=PROGRAMS)
def _words(request: pytest.FixtureRequest, ranks: Project) -> tuple[str, ...]:
    """Write a library's program and its data; returns the words that run it."""
    framework = str(request.param)
    ranks.write("t.py", PROGRAMS[framework])
    for rank in range(4):
        ranks.write(f"shards/{rank}.txt", shard(rank))
        ranks.write(f"of-{rank}/site-packages/library.py", "__version__ = '1.0'\nNUMBER = 0\n")
    return "--mount", f"{environment(framework, '3.11')}:/frameworks:ro", "t.py"


def test_ranks_over_nodes_repeat(ranks: Project, two: Cluster, words: tuple[str, ...]) -> None:
    """Runs of four ranks have equal bits under the controls, and other ones without: something could differ."""
    options = ("--on", "slurm", "-n", RUNS, "--nodes", "2", "--tasks-per-node", "2")
    done = ranks("verify", *options, *words, **two.environ)
    assert done.code == 0, done
    assert re.search(rf"^result +bit-identical {RUNS}/{RUNS}", done.out + done.err, re.M), done
    done = ranks("verify", *options, "--json", "--no-controls", *words, **two.environ)
    assert done.code == 16, done
    assert "weights.bin" in done.json["differing_files"], done


@pytest.mark.parametrize(
    "words", [*ONE_BY_ONE, *(pytest.param(each, marks=pytest.mark.thorough) for each in AT_ONCE)], indirect=True
)
def test_what_one_rank_has_otherwise_is_named(
    ranks: Project, two: Cluster, words: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    """Its seed, its data, its package, with the rank; the pieces that sums are cut in; the number of ranks."""
    framework = request.node.callspec.params["words"]
    first = job(ranks, two, words)
    assert chief(ranks, first, job(ranks, two, words)) is None
    assert chief(ranks, first, job(ranks, two, words, seed=SEED)) == ("seed", [2])
    with other_data(ranks):
        assert chief(ranks, first, job(ranks, two, words)) == ("shards/3.txt", [3])
    with other_package(ranks):
        assert chief(ranks, first, job(ranks, two, words)) == ("library (not in the image)", [1])
    if framework in PIECES:
        assert_pieces_named(ranks, two, words, first)
    assert chief(ranks, first, job(ranks, two, words, tasks=1)) == ("number of ranks", None)


@pytest.mark.parametrize("words", AT_ONCE, indirect=True)
def test_what_ranks_have_otherwise_is_named_with_each_rank(
    ranks: Project, two: Cluster, words: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    """Seed, data and package of three ranks in one job, each with its rank; the pieces that sums are cut in."""
    framework = request.node.callspec.params["words"]
    first = job(ranks, two, words)
    with other_data(ranks), other_package(ranks):
        found = ranks("diff", "--json", first, job(ranks, two, words, seed=SEED)).json
    named = {each["what"]: each.get("ranks") for each in found["causes"]}
    wanted = {"seed": [2], "shards/3.txt": [3], "library (not in the image)": [1]}
    assert {what: named.get(what) for what in wanted} == wanted, found
    if framework in PIECES:
        assert_pieces_named(ranks, two, words, first)


@contextmanager
def other_data(project: Project) -> Iterator[None]:
    """Change one number of some examples of rank 3."""
    project.write("shards/3.txt", shard(3, changed=4))
    yield
    project.write("shards/3.txt", shard(3))


@contextmanager
def other_package(project: Project) -> Iterator[None]:
    """Give rank 1 another version of a package."""
    project.write("of-1/site-packages/library.py", "__version__ = '2.0'\nNUMBER = 1\n")
    yield
    project.write("of-1/site-packages/library.py", "__version__ = '1.0'\nNUMBER = 0\n")


def assert_pieces_named(project: Project, two: Cluster, words: tuple[str, ...], first: str) -> None:
    """Compare with a job that cuts its sums otherwise."""
    found = project("diff", "--json", first, job(project, two, (*words, "--pack", "200000"))).json
    named = " ".join(each["what"] for each in (*found["causes"], *found["others"]))
    assert re.search(r"MultiWorkerMirroredStrategy: bytes_per_pack|DistributedDataParallel: bucket_cap", named)


def job(project: Project, two: Cluster, words: tuple[str, ...], *, tasks: int = 2, seed: str = "0") -> str:
    """Run one job on two nodes, and return its identity; ``seed``: as each rank's shell reads it."""
    (project.folder / "weights.bin").unlink(missing_ok=True)  # what an earlier job left would be a cause
    step = [*two.pmix, "srun", "-N2", f"--ntasks-per-node={tasks}", "--kill-on-bad-exit=1", "sh", "-c"]
    done = subprocess.run(
        [*step, f'envbuild run "$@" --seed {seed}', "sh", *words],
        cwd=project.folder, env=project.environ | two.environ, capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done
    assert done.stdout.count(f"all {2 * tasks} ranks are there") == 2 * tasks, done
    return str(project.must("runs", "--json").json[0]["id"])


def chief(project: Project, first: str, other: str) -> tuple[str, Any] | None:
    """The first cause of a difference, and the ranks that have it; None if there is no difference."""
    found = project("diff", "--json", first, other).json
    if found["outcome"] == "equal":
        return None
    return found["causes"][0]["what"], found["causes"][0].get("ranks")
