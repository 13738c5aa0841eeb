"""Which rank a process is, from its launcher's variables: a table of cases."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from envbuild.cluster.hostlist import expand_counts, expand_hosts
from envbuild.cluster.launchers import LAUNCHERS, find_rank, job_key, launcher_variables, pmix_variables
from envbuild.cluster.rank import Rank
from envbuild.errors import UsageError
from envbuild.runtime.hook import lineage

SLURM = {
    "SLURM_JOB_ID": "71",
    "SLURM_JOBID": "71",
    "SLURM_STEP_ID": "0",
    "SLURM_STEPID": "0",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_NTASKS": "4",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_NODELIST": "node[1-2]",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
}
BATCH = {
    name: value
    for name, value in SLURM.items()
    if "STEP" not in name and name not in ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID")
} | {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"}
TORCHRUN = {
    "RANK": "5",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "4",
    "GROUP_RANK": "1",
    "MASTER_ADDR": "10.0.0.1",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "none",
    "TORCHELASTIC_RESTART_COUNT": "0",
}
OPENMPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMIX_NAMESPACE": "4052287489",
    "PMIX_RANK": "1",
}
TWO_WORKERS = {"worker": ["a:1", "b:1"]}
ALL_KINDS = {"chief": ["c:1"], **TWO_WORKERS, "ps": ["p:1"]}


def tf(cluster: Any, kind: str, index: int) -> dict[str, str]:
    """``TF_CONFIG`` of a task."""
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, None),
        ({"RANK": "1"}, None),
        ({"WORLD_SIZE": "2"}, None),
        ({"PMIX_RANK": "1"}, None),
        (BATCH, None),
        (SLURM, ("Slurm", 3, 4, 1, 2, 1, "node2", ("node1", "node2"), "71/0")),
        (SLURM | {"SLURM_RESTART_COUNT": "2"}, ("Slurm", 3, 4, 1, 2, 1, "node2", ("node1", "node2"), "71/0/2")),
        (TORCHRUN, ("torchrun", 5, 8, 1, 4, 1, "here", (), "none/0/10.0.0.1/29500")),
        (OPENMPI, ("Open MPI", 1, 2, 1, 2, None, "here", (), "4052287489")),
        (OPENMPI | SLURM, ("Open MPI", 1, 2, 1, 2, None, "here", (), "4052287489")),
        (OPENMPI | TORCHRUN, ("torchrun", 5, 8, 1, 4, 1, "here", (), "none/0/10.0.0.1/29500")),
        (
            {"PMI_RANK": "2", "PMI_SIZE": "3", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "1"},
            ("PMI", 2, 3, 0, 1, None, "here", (), ""),
        ),
        ({"PMI_RANK": "3", "PMI_SIZE": "4", **SLURM}, ("PMI", 3, 4, None, None, None, "here", (), "71/0")),
        (
            {"MV2_COMM_WORLD_RANK": "1", "MV2_COMM_WORLD_SIZE": "2", "MV2_COMM_WORLD_LOCAL_RANK": "0"},
            ("MVAPICH", 1, 2, 0, None, None, "here", (), ""),
        ),
        (
            {"HOROVOD_RANK": "1", "HOROVOD_SIZE": "2", "HOROVOD_LOCAL_RANK": "0", "HOROVOD_CROSS_RANK": "1"},
            ("Horovod", 1, 2, 0, None, 1, "here", (), ""),
        ),
        (
            {"JAX_PROCESS_ID": "1", "JAX_NUM_PROCESSES": "2", "JAX_COORDINATOR_ADDRESS": "c:1234"},
            ("JAX", 1, 2, None, None, None, "here", (), "c:1234"),
        ),
        (tf(TWO_WORKERS, "worker", 0), ("TF_CONFIG", 0, 2)),
        (tf(ALL_KINDS, "chief", 0), ("TF_CONFIG", 0, 4)),
        (tf(ALL_KINDS, "worker", 1), ("TF_CONFIG", 2, 4)),
        (tf(ALL_KINDS, "ps", 0), ("TF_CONFIG", 3, 4)),
        (tf(ALL_KINDS, "evaluator", 0), None),
    ],
)
def test_the_rank_is_found(variables: dict[str, str], expected: tuple[Any, ...] | None) -> None:
    """Each launcher's variables give its rank; the innermost launcher wins; what starts one process starts no job."""
    found = find_rank(variables, "here")
    if expected is None:
        assert found is None
        return
    assert found is not None
    fields = (found.launcher, found.rank, found.world, found.local, found.local_world, found.node)
    assert (*fields, found.host, found.nodes, found.job)[: len(expected)] == expected


@pytest.mark.parametrize(
    "variables",
    [
        TORCHRUN | {"RANK": "8"},
        TORCHRUN | {"RANK": "-1"},
        TORCHRUN | {"RANK": "one"},
        TORCHRUN | {"RANK": "٣"},
        TORCHRUN | {"WORLD_SIZE": "99999999999999999999"},
        TORCHRUN | {"WORLD_SIZE": "0"},
        TORCHRUN | {"LOCAL_RANK": "4"},
        SLURM | {"SLURM_STEP_NODELIST": "node[1-"},
        SLURM | {"SLURM_STEP_NODELIST": "node[1-999999999]"},
        SLURM | {"SLURM_STEP_TASKS_PER_NODE": "2(x"},
        {"TF_CONFIG": "{"},
        {"TF_CONFIG": '{"cluster": {}}'},
        {"TF_CONFIG": "[" * 100_000},
        tf(TWO_WORKERS, "worker", 2),
    ],
)
def test_variables_that_contradict_each_other_are_refused(variables: dict[str, str]) -> None:
    """A wrong rank would give two processes one seed: nothing is guessed."""
    with pytest.raises(UsageError):
        find_rank(variables, "here")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ()),
        ("node1", ("node1",)),
        ("a,b", ("a", "b")),
        ("n[1-3]", ("n1", "n2", "n3")),
        ("n[08-10,2],login", ("n08", "n09", "n10", "n2", "login")),
        ("r[1-2]n[1-2]-ib", ("r1n1-ib", "r1n2-ib", "r2n1-ib", "r2n2-ib")),
    ],
)
def test_lists_of_hosts(text: str, names: tuple[str, ...]) -> None:
    """Slurm's short form of host names is written out, zeros kept."""
    assert expand_hosts(text) == names


@pytest.mark.parametrize("text", ["n[", "n[]", "n[1", "n[a-b]", "n]1[", "a,,b", "n[1-99999999]", "n[1-9999]m[1-9999]"])
def test_what_is_no_list_of_hosts(text: str) -> None:
    """Anything else is refused, also a list without end."""
    with pytest.raises(ValueError, match=r"hosts|numbers"):
        expand_hosts(text)


@pytest.mark.parametrize(
    "text", ["n[5-1]", "[1-60000]" * 3 + "[5-1]", "[1-2]" * 5000, "n" + "[1]" * 5000, "[1-2]" * 900]
)
def test_many_brackets_are_refused_at_once(text: str) -> None:
    """Each bracket multiplies the names: those are counted before any is made."""
    before = time.process_time()
    with pytest.raises(ValueError, match=r"hosts|numbers|names"):
        expand_hosts(text)
    assert time.process_time() - before < 5  # it took half a minute, or ended with the stack


def test_lists_of_counts() -> None:
    """Slurm's short form of tasks per node."""
    assert expand_counts("2(x3),1") == (2, 2, 2, 1)
    assert expand_counts("") == ()
    with pytest.raises(ValueError, match="nodes"):
        expand_counts("1(x999999)")


@pytest.mark.parametrize("variables", [SLURM, TORCHRUN, OPENMPI, tf(TWO_WORKERS, "worker", 1)])
def test_the_program_finds_its_rank(variables: dict[str, str]) -> None:
    """What is handed to the container gives the hook the rank, and thus the seed, that it would find on the host."""
    found = find_rank(variables, "here")
    assert found is not None
    inside = launcher_variables(found, variables)
    assert lineage.rank(inside) == lineage.rank(variables) != ""


def test_variables_of_slurm() -> None:
    """PyTorch's, JAX's and TensorFlow's ways to find a rank work under srun; Open MPI is not led astray."""
    found = find_rank(SLURM, "here")
    assert found is not None
    inside = launcher_variables(found, SLURM | {"SECRET": "x", "SLURM_CONF": "/etc/slurm.conf"})
    assert inside["RANK"] == "3"
    assert inside["WORLD_SIZE"] == "4"
    assert inside["LOCAL_RANK"] == "1"
    assert inside["LOCAL_WORLD_SIZE"] == "2"
    jax = ("SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID")
    assert [inside[name] for name in jax] == [SLURM[name] for name in jax]
    assert not {"SLURM_JOBID", "SLURM_STEPID", "SECRET", "SLURM_CONF"} & set(inside)


def test_mpi_finds_the_server_of_its_step() -> None:
    """PMIx's variables reach a rank of Slurm, and that srun has started it; without a server nothing does."""
    pmix = {"PMIX_NAMESPACE": "slurm.pmix.71.0", "PMIX_RANK": "3", "PMIX_SERVER_TMPDIR": "/spool/pmix.71.0"}
    found = find_rank(SLURM, "here")
    assert found is not None
    assert pmix_variables(found, SLURM) == {}
    assert pmix_variables(found, SLURM | pmix | {"PMIX_SERVER_TMPDIR": ""}) == {}
    assert pmix_variables(found, SLURM | pmix | {"PMI_FD": "5"}) == pmix | {
        "SLURM_JOBID": "71", "SLURM_STEPID": "0", "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,tcp",
    }  # fmt: skip
    other = find_rank(OPENMPI, "here")
    assert other is not None
    assert pmix_variables(other, OPENMPI | pmix) == {}


def test_the_order_is_that_of_the_hook() -> None:
    """Where variables of several launchers are set, host and image take the same one."""
    numbered = [launcher.rank for launcher in LAUNCHERS if launcher.rank in lineage.RANKS]
    assert numbered == [name for name in lineage.RANKS if name in numbered]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (SLURM, 0),
        (SLURM | {"SLURM_RESTART_COUNT": "2"}, 2),
        (TORCHRUN | {"TORCHELASTIC_RESTART_COUNT": "1"}, 1),
        (OPENMPI, 0),
    ],
)
def test_a_job_knows_how_often_it_was_started(variables: dict[str, str], expected: int) -> None:
    """Slurm's requeues and torchrun's restarts are a number of the rank, so that records state them."""
    found = find_rank(variables, "here")
    assert found is not None
    assert found.restarts == expected


def test_ranks_of_one_job_share_a_key() -> None:
    """All ranks find the same folder, ranks of another step or world another one."""
    one, other = (find_rank(SLURM | {"SLURM_PROCID": rank}, "here") for rank in "03")
    later = find_rank(SLURM | {"SLURM_STEP_ID": "1"}, "here")
    assert isinstance(one, Rank)
    assert isinstance(other, Rank)
    assert isinstance(later, Rank)
    assert job_key(one) == job_key(other) != job_key(later)
