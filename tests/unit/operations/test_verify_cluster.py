"""``verify --on slurm``: what the tasks of an array left is gathered, and the ranks of a run are compared as one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from envbuild.cli.render import verify as render
from envbuild.cluster.batch import Job
from envbuild.cluster.rank import Rank
from envbuild.core.fs import atomic_write
from envbuild.core.identity import new_id
from envbuild.errors import EngineError, JobError, UsageError
from envbuild.host.facts import Cpu, HostFacts
from envbuild.lockfile import model as locks
from envbuild.operations import follow_job, submit
from envbuild.operations.events import Silent
from envbuild.operations.follow_job import Ended
from envbuild.operations.run import RunOptions
from envbuild.operations.verification.cluster import verify_on_slurm
from envbuild.operations.verification.part import RankResult, stream_files
from envbuild.operations.verification.verify import Verification, VerifyOptions
from envbuild.record import history
from envbuild.record.model import Output, Script
from envbuild.verification.masking.printed import Printed
from tests.support.records import process, record, sha
from tests.support.runtime import make_lock
from tests.support.traces import make_trace

WEIGHTS = [{"w": [1.0, 2.0]}, {"w": [1.0, 3.0]}, {"w": [1.0, 4.0]}]
OTHERS = [*WEIGHTS[:2], {"w": [1.0, 5.0]}]


class Rig:
    """A project, and tasks of a job array that leave what a test makes them leave."""

    def __init__(self, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.project = project
        lock = make_lock(inputs=(), packages=())
        self.lock = project / lock.file_name
        self.lock.write_bytes(locks.dumps(lock))
        (project / "train.py").write_text("print()")
        monkeypatch.chdir(project)
        self.script, self.cancelled = "", 0
        self.leave: Callable[[Path], None] = lambda folder: None
        self.ended = Ended(states=("COMPLETED",), code=0)

        def sbatch(text: str) -> str:
            self.script = text
            return "7"

        def follow(job: str, output: object, show: object, look: Callable[[], object]) -> Ended:
            (folder,) = (self.project / ".envbuild/verify").iterdir()
            assert (folder / ".job").read_text() == job  # no other verification removes it meanwhile
            self.leave(folder)
            look()
            return self.ended

        def cancel(job: str) -> None:
            self.cancelled += 1

        monkeypatch.setattr(submit, "sbatch", sbatch)
        monkeypatch.setattr(follow_job, "follow", follow)
        monkeypatch.setattr(follow_job, "cancel", cancel)

    def verify(self, count: int, job: Job | None = None, **options: Any) -> Verification:
        shared = RunOptions(command=("train.py",), lock=self.lock)
        return verify_on_slurm(
            shared, VerifyOptions(count=count, **options), job or Job(), ["--strict", "train.py"], Silent()
        )

    def task(
        self, folder: Path, number: int, rank: int = 0, *, world: int = 1, node: str = "node1", sign: str = "1",
        steps: Any = (), printed: str = "x", level: str = "x86-64-v3", batches: tuple[int, ...] = (),
        waited: bool = True, **facts: Any,
    ) -> None:  # fmt: skip
        """Leave what one rank of one run leaves."""
        outputs = (Output(path="out", change="created", size=1, sha256=sha(sign)),)
        start = f"{number:032x}"
        place = Rank(launcher="Slurm", rank=rank, world=world, start=start, host=node, waited=waited)
        host = HostFacts(kernel="6.1", machine="x86_64", cpu=Cpu(level=level))
        saved = record(
            new_id(1000 + number * 100 + rank),
            outputs=outputs,
            host=host,
            rank=place if world > 1 else None,
            metrics={},
            **facts,
        )
        history.save(self.project, saved)
        if steps:
            where = history.process_folder(self.project, saved.id)
            make_trace(where, steps, process=f"rank {rank}" if world > 1 else "", batches=batches)
        run = folder / str(number)
        (run / "project").mkdir(parents=True, exist_ok=True)
        text = Printed(lines=1, sha256=printed, unordered=printed)
        result = RankResult(
            record=saved.id, node=node, rank=rank, world=world, stdout=text, stderr=Printed(),
            trace=str(steps), steps=len(steps), tensors=1 if steps else 0,
        )  # fmt: skip
        atomic_write(run / f"rank-{rank}.json", msgspec.json.encode(result))


@pytest.fixture(name="rig")
def _rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(tmp_path, monkeypatch)


def nodes(found: Verification) -> Mapping[str, tuple[int, ...]]:
    assert found.nodes is not None
    return {row.node: row.results for row in found.nodes.rows}


def test_the_script_runs_each_task_once_and_spreads_them(rig: Rig) -> None:
    """A job array of as many tasks as runs, each with its nodes to itself, and with the options as they were typed."""
    rig.ended = Ended(states=("CANCELLED",), code=143)
    with pytest.raises(JobError, match="none of 30 runs left a result"):
        rig.verify(30, Job(nodes=2, tasks=3, partition="gpu", time="1:00:00"))
    lines = rig.script.splitlines()
    assert lines[1].startswith("# Written by envbuild verify from pylock.")
    for option in ("array=0-29", "exclusive", "nodes=2", "ntasks-per-node=3", "partition=gpu", "time=1:00:00"):
        assert f"#SBATCH --{option}" in lines
    assert " envbuild verify --part " in lines[-1]
    assert lines[-1].endswith(" --strict train.py")
    assert "SLURM_ARRAY_TASK_ID" not in rig.script


def test_equal_runs_are_proved_with_their_nodes(rig: Rig) -> None:
    """An attestation is written as for runs of this machine; copies are removed."""
    rig.leave = lambda folder: [rig.task(folder, n, node=f"node{n % 2}") for n in range(4)] and None
    found = rig.verify(4)
    assert (found.verdict.outcome, found.verdict.runs, nodes(found)) == (
        "identical", 4, {"node0": (0, 0), "node1": (0, 0)},
    )  # fmt: skip
    assert found.attestation is not None
    assert not (rig.project / ".envbuild/verify").exists()
    assert "the same bits on 2 nodes" in [line[-1] for line in render.proved(found)]


@pytest.mark.parametrize(("names", "shown"), [(("node1", "node1"), "one node"), (("node1", "node2"), "the same nodes")])
def test_runs_that_all_had_the_same_nodes_say_so(rig: Rig, names: tuple[str, str], shown: str) -> None:
    """Two ranks of a run may be on two nodes: that is not one node, and other nodes were not seen either way."""
    rig.leave = lambda folder: (
        [rig.task(folder, n, r, world=2, node=names[r]) for n in range(3) for r in range(2)] and None
    )
    found = rig.verify(3, Job(nodes=len(set(names)), tasks=2 // len(set(names))))
    lines = [line[-1] for line in render.proved(found)]
    assert f"all runs were on {shown}: whether others give the same bits was not seen" in lines


def test_names_that_nothing_drew_are_quoted_rank_by_rank(rig: Rig) -> None:
    """As in runs on this machine without experiments; a single rank has no number."""
    names = ["7c9e6679-7425-40de-944b-e07fc1f90ae7", "1f3870be-274f-4c49-b3e3-1a0c6728957f"]
    source = (rig.project / "train.py").read_bytes()
    script = Script(path="train.py", sha256=hashlib.sha256(source).hexdigest())

    def leave(world: int) -> Callable[[Path], None]:
        def each(folder: Path) -> None:
            for number, name in enumerate(names):
                for rank in range(world):
                    rig.task(folder, number, rank, world=world, script=script, modules=())
                    stdout, _ = stream_files(folder / str(number), rank)
                    stdout.write_text(f"weights {name}\n")

        return each

    why = f"names in standard output: {names[0]}: nothing shows that a run draws them, a generator may have made them"
    rig.leave = leave(1)
    assert rig.verify(2).verdict.undecided == (why,)
    rig.leave = leave(2)
    assert rig.verify(2, Job(tasks=2)).verdict.undecided == (f"rank 0: {why}", f"rank 1: {why}")


def test_bits_that_depend_on_the_node_name_the_level(rig: Rig) -> None:
    """Runs that differ by node: exit 16's text has the table, and the CPU level as the cause."""

    def leave(folder: Path) -> None:
        for n in range(8):
            odd = n % 2
            rig.task(folder, n, node=f"node{odd}", sign=str(odd), level="x86-64-v2" if odd else "x86-64-v3")

    rig.leave = leave
    found = rig.verify(8)
    assert nodes(found) == {"node0": (0,) * 4, "node1": (1,) * 4}
    text = render.different(found)
    assert "node1: result B in runs 2, 4, 6, 8" in text
    assert "the bits depend on the node: each gives one result, and not the same (by chance in 1 of 35)" in text
    assert "the bits depend on the CPU level: x86-64-v3 (node0) → x86-64-v2 (node1)" in text
    assert render.as_json(found)["node_decides"] == "depends"


def test_a_difference_within_a_node_clears_the_nodes(rig: Rig) -> None:
    """The node is not blamed if one node gave two results by itself, whatever its facts."""

    def leave(folder: Path) -> None:
        for n in range(4):
            level = "x86-64-v2" if n == 2 else "x86-64-v3"
            rig.task(folder, n, node=f"node{n % 2}", sign="2" if n == 2 else "1", level=level)

    rig.leave = leave
    text = render.different(rig.verify(4))
    assert "the node does not decide: node0 gave different results by itself" in text
    assert "depend on" not in text
    assert "x86-64" not in text


def test_the_ranks_of_a_run_are_compared_as_one(rig: Rig) -> None:
    """Runs of two ranks each: one rank's data differs in one run, which is named with its rank and step."""

    def leave(folder: Path) -> None:
        for n in range(3):
            odd = n == 2
            steps = OTHERS if odd else WEIGHTS
            rig.task(folder, n, 0, world=2, steps=steps, batches=(1, 2))
            rig.task(folder, n, 1, world=2, node="node2", steps=steps, batches=(1, 9 if odd else 2))

    rig.leave = leave
    found = rig.verify(3, Job(nodes=2))
    assert (found.verdict.outcome, found.verdict.groups, found.world) == ("different", ((0, 1), (2,)), 2)
    assert found.divergence is not None
    assert (found.divergence.process, found.divergence.step) == ("rank 1", 2)
    assert found.divergence.sentence.endswith("rank 0 at the same step, where the data was equal")
    assert nodes(found) == {"node1 + node2": (0, 0, 1)}
    assert found.attestation is None


@pytest.mark.parametrize("signs", ["1", "2"])
def test_a_rank_that_looked_too_early_is_no_verdict(rig: Rig, signs: str) -> None:
    """A rank that read its outputs before the others had ended proves nothing: neither equal bits nor other ones."""

    def leave(folder: Path) -> None:
        for n in range(2):
            rig.task(folder, n, 0, world=2)
            rig.task(folder, n, 1, world=2, node="node2", sign=signs if n else "1", waited=not n)

    rig.leave = leave
    with pytest.raises(JobError, match=r"^run 2: rank 1 could not learn when the other ranks had ended"):
        rig.verify(2, Job(nodes=2))


def test_one_ranks_seed_is_a_cause_with_its_rank(rig: Rig) -> None:
    """What one rank has otherwise in one run is named with that rank; ranks that are equal are not."""

    def leave(folder: Path) -> None:
        for n in range(2):
            for rank in range(2):
                seed = 43 if (n, rank) == (1, 1) else 42 + 100 * rank
                sign = "2" if (n, rank) == (1, 1) else "1"
                rig.task(folder, n, rank, world=2, sign=sign, processes=(process(path=f"rank {rank}", seed=seed),))

    rig.leave = leave
    found = rig.verify(2, Job(nodes=2))
    assert found.verdict.differs == ("rank 1: out",)
    assert "rank 1: " in found.causes[0].sentence
    assert any("seed" in cause.sentence and cause.ranks == (1,) for cause in found.causes), found.causes


def test_runs_that_left_nothing_are_named(rig: Rig) -> None:
    """No proof of 2 of 3 runs: how Slurm ended the third, with what it printed last."""
    rig.leave = lambda folder: [rig.task(folder, n) for n in range(2)] and None
    rig.ended = Ended(states=("TIMEOUT",), code=143, tasks={2: "timeout on node2"})
    (rig.project / ".envbuild/jobs").mkdir(parents=True)
    (rig.project / ".envbuild/jobs/7_2.out").write_text("loading\nstill loading\n")
    with pytest.raises(JobError, match=r"1 of 3 runs left no result; the others are equal\n") as caught:
        rig.verify(3)
    assert "run 3: timeout on node2\n    loading\n    still loading" in caught.value.message
    assert not list(rig.project.glob("*.verified.json"))


def test_a_rank_that_left_nothing_is_named(rig: Rig) -> None:
    """A run counts only with all its ranks."""

    def leave(folder: Path) -> None:
        for n in range(2):
            rig.task(folder, n, 0, world=2)
        rig.task(folder, 0, 1, world=2)

    rig.leave, rig.ended = leave, Ended(states=("NODE_FAIL",), code=143, tasks={1: "node fail on node2"})
    with pytest.raises(JobError, match="run 2: node fail on node2, no result of rank 1"):
        rig.verify(2, Job(tasks=2))


@pytest.mark.parametrize(("state", "outcome"), [("finished", "failed"), ("refused", "refused")])
def test_the_first_bad_run_ends_the_others(rig: Rig, state: str, outcome: str) -> None:
    """As on one machine nothing more is started; the run and its node are named."""

    def leave(folder: Path) -> None:
        rig.task(folder, 1, node="node2", state=state, exit_code=3)
        (folder / "1/stderr-0").write_text("no such file\n")
        rig.task(folder, 0)

    rig.leave, rig.ended = leave, Ended(states=("CANCELLED",), code=143)
    found = rig.verify(3) if outcome == "refused" else None
    if found is None:  # a good run and a bad one differ
        assert rig.verify(3).verdict.outcome == "different"
    else:
        assert found.verdict.outcome == outcome
        assert found.last_words == "run 2 on node2:\nno such file\n"
    assert rig.cancelled == 1


def test_an_interrupted_verification_cancels_its_job(rig: Rig) -> None:
    """Nothing runs on for nobody, and no copy is left."""

    def leave(folder: Path) -> None:
        raise KeyboardInterrupt

    rig.leave = leave
    with pytest.raises(KeyboardInterrupt):
        rig.verify(3)
    assert rig.cancelled == 1
    assert not (rig.project / ".envbuild/verify").exists()


def test_what_does_not_go_together_is_refused(rig: Rig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Before anything is submitted; a scheduler that refuses leaves no folder."""
    for options in ({"in_place": True}, {"jobs": 2}, {"cost": True}):
        with pytest.raises(UsageError, match="goes with runs on this machine"):
            rig.verify(3, **options)
    key = tmp_path / "key"
    key.write_text("")
    with pytest.raises(UsageError, match="none is written of runs of several ranks"):
        rig.verify(3, Job(tasks=2), sign=key)
    assert not rig.script

    def refuse(text: str) -> str:
        raise EngineError("no")

    monkeypatch.setattr(submit, "sbatch", refuse)
    with pytest.raises(EngineError):
        rig.verify(3)
    assert not (rig.project / ".envbuild/verify").exists()
