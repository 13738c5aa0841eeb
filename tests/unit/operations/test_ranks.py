"""Where the ranks of a job meet: in the project, in a folder, or over TCP with a secret; and how they end together."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from typing import Any, cast

import pytest

from envbuild.cluster.agreement import Answer, Verdict
from envbuild.cluster.exchange import Exchange
from envbuild.cluster.launchers import find_rank
from envbuild.cluster.tcp import TcpExchange
from envbuild.errors import EnvbuildError, LockError, UsageError
from envbuild.lockfile.model import dumps
from envbuild.operations import ranks
from envbuild.operations.events import Event, JobRefused, Silent
from envbuild.runs.request import RunRequest
from envbuild.runs.workspace import changes, scan
from tests.support.runtime import make_lock

SLURM = {
    "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "SLURM_NODEID": "1",
    "SLURM_STEP_NODELIST": "node[1-2]", "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
}  # fmt: skip
MPICH = {"PMI_RANK": "1", "PMI_SIZE": "2"}
SECRET = {"ENVBUILD_RANKS_SECRET": "0123456789abcdef"}


def meeting(folder: Path, **variables: str) -> Exchange | TcpExchange | None:
    found = ranks.join(folder / "pylock.t.toml", guard=True, environment=variables)
    assert found is not None
    return found.exchange


def address(**variables: str) -> tuple[str, int]:
    rank = find_rank(variables, "here")
    assert rank is not None
    return ranks.rank_0_address(rank, variables)


def test_ranks_meet_in_a_folder_unless_an_address_is_given(tmp_path: Path) -> None:
    """An address needs a secret that is no short word; a folder besides contradicts it."""
    assert isinstance(meeting(tmp_path, **SLURM), Exchange)
    assert isinstance(meeting(tmp_path, **SLURM, **SECRET, ENVBUILD_RANKS_ADDRESS="auto"), TcpExchange)
    for secret, found in (({}, 0), ({"ENVBUILD_RANKS_SECRET": "short"}, 5)):
        with pytest.raises(UsageError, match=f"expected 16 characters at least, found {found}") as caught:
            meeting(tmp_path, **SLURM, **secret, ENVBUILD_RANKS_ADDRESS="node1:29400")
        assert "openssl rand -hex 16" in caught.value.hint
    with pytest.raises(UsageError, match="both ENVBUILD_RANKS_FOLDER and ENVBUILD_RANKS_ADDRESS are set"):
        meeting(tmp_path, **SLURM, **SECRET, ENVBUILD_RANKS_ADDRESS="auto", ENVBUILD_RANKS_FOLDER=str(tmp_path))


def test_the_address_is_the_first_machines() -> None:
    """``auto``: ``MASTER_ADDR`` if it is set, else the launcher's first machine, at a port that depends on the job."""
    auto = {"ENVBUILD_RANKS_ADDRESS": "auto"}
    host, port = address(**SLURM, **auto)
    assert host == "node1"
    assert 10_000 <= port < 20_000
    assert address(**SLURM, **auto, MASTER_ADDR="10.0.0.1") == ("10.0.0.1", port)
    assert address(**{**SLURM, "SLURM_JOB_ID": "8"}, **auto)[1] != port
    assert address(**{**SLURM, "SLURM_PROCID": "0"}, **auto) == (host, port)
    alone = {"MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
    assert address(**MPICH, **alone, **auto)[0] == "127.0.0.1"
    with pytest.raises(UsageError, match="auto, and PMI does not name its first machine"):
        address(**MPICH, **auto)


@pytest.mark.parametrize(
    "text", ["node1", ":29400", "node1:", "node1:x", "node1:0", "node1:65536", "node1:999999999", "node1:²"]
)
def test_an_address_that_is_none_is_refused(text: str) -> None:
    """With what was expected."""
    with pytest.raises(UsageError, match=r"expected HOST:PORT, or auto"):
        address(**SLURM, ENVBUILD_RANKS_ADDRESS=text)


def test_addresses_of_all_kinds_are_taken() -> None:
    """Names, IPv4 and IPv6."""
    for text, host in (("node1:29400", "node1"), ("10.0.0.1:29400", "10.0.0.1"), ("[fd00::1]:29400", "fd00::1")):
        assert address(**SLURM, ENVBUILD_RANKS_ADDRESS=text) == (host, 29400)


class Meeting:
    """Others that have prepared their start by the time they are compared, and have begun by the time this is known."""

    def __init__(self, project: Path) -> None:
        self._project = project

    def agree(self, answer: Answer, allow: object) -> Verdict:
        (self._project / "pylock.t.image.json").write_text("another rank's image")
        (self._project / "early").write_text("another rank's result")
        (self._project / "kept").write_text("changed by another rank")
        (self._project / "removed").unlink()
        return Verdict(start="1" * 32, nonces={"0": answer.nonce, "1": "2" * 32}, hosts=("node1", "node2"))


def test_what_others_write_before_this_rank_looks_is_an_output(tmp_path: Path) -> None:
    """The state before the run is that of before any rank began; what their envbuild has written is part of it."""
    lock = make_lock(inputs=(), packages=())
    (tmp_path / "pylock.t.toml").write_bytes(dumps(lock))
    for name in ("kept", "removed"):
        (tmp_path / name).write_text(name)
    request = RunRequest(lock_path=tmp_path / "pylock.t.toml", lock=lock, image="", config="", arguments=("t.py",))
    rank = find_rank(SLURM, "node2")
    assert rank is not None
    job = ranks.Job(rank=rank, exchange=cast(Any, Meeting(tmp_path)), environment=SLURM)
    found = ranks.enter(job, request, Silent(), compared=False)
    assert found.before is not None
    outputs, deleted = changes(tmp_path, found.before, scan(tmp_path))
    assert [(output.path, output.change) for output in outputs] == [("early", "created"), ("kept", "changed")]
    assert deleted == ("removed",)


class Slow(Silent):
    """A rank that takes some time from the verdict on, and notes when it is immune to the launcher's signal."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.refused = 0.0

    def report(self, event: Event) -> None:
        assert isinstance(event, JobRefused)
        time.sleep(self._seconds)
        self.refused = time.monotonic()


@pytest.mark.loopback
@pytest.mark.parametrize("over", ["folder", "tcp"])
def test_no_rank_ends_before_all_know_that_none_starts(tmp_path: Path, over: str) -> None:
    """The launcher ends the others as soon as one has ended: with its signal, and not with their own exit code."""
    with socket.socket() as held:  # bound all the time, so that nobody else gets the port; rank 0 may listen at it
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        place = SECRET | {"ENVBUILD_RANKS_ADDRESS": f"127.0.0.1:{held.getsockname()[1]}"}
        refuse(tmp_path, SLURM | (place if over == "tcp" else {}))


def refuse(folder: Path, variables: dict[str, str]) -> None:
    """Have two ranks refuse their job, one of which takes its time."""
    listeners = [Slow(0.0), Slow(0.7)]
    ended: dict[int, float] = {}

    def rank(number: int) -> None:
        job = ranks.join(folder / "pylock.t.toml", guard=True, environment=variables | {"SLURM_PROCID": str(number)})
        assert job is not None
        error: EnvbuildError = LockError("wrong")
        ranks.fail(job, error, listeners[number])
        ended[number] = time.monotonic()

    threads = [threading.Thread(target=rank, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert sorted(ended) == [0, 1]
    assert min(ended.values()) >= max(listener.refused for listener in listeners) > 0.0


@pytest.mark.parametrize(
    ("variables", "command"),
    [
        (SLURM, "envbuild verify --on slurm --nodes 2 --tasks-per-node 1 train.py"),
        (MPICH, "envbuild verify mpirun -n 2 python train.py"),
        (
            {"RANK": "0", "WORLD_SIZE": "4", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "4"},
            "envbuild verify torchrun --nproc-per-node 4 train.py",
        ),
    ],
)
def test_ranks_of_a_launcher_do_not_verify_by_themselves(variables: dict[str, str], command: str) -> None:
    """Each would prove something of its own alone; the command that verifies all of them is named."""
    with pytest.raises(UsageError, match="each rank would verify by itself") as caught:
        ranks.require_no_launcher(variables)
    assert caught.value.hint.endswith(f": {command}")


def test_a_process_by_itself_may_verify() -> None:
    """No launcher, a step of one task, a batch script."""
    for variables in ({}, {**SLURM, "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}, {"SLURM_NTASKS": "8"}):
        ranks.require_no_launcher(variables)
