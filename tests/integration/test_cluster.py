"""Ranks of one job, started as a launcher starts them: real processes, each with its own container.

A real Slurm is not needed: its variables are set by hand (values as ``srun`` of 22.05 sets them).
"""

from __future__ import annotations

import json
import os
import re
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import Done, Project, finish

pytestmark = [pytest.mark.engine, pytest.mark.network, pytest.mark.both_engines]

PROGRAM = """\
import json, os, random
names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "SLURM_PROCID", "SLURM_JOBID", "MASTER_ADDR")
found = {name: os.environ.get(name) for name in names}
with open(f"rank-{os.environ['RANK']}.json", "w") as stream:
    json.dump(found | {"drawn": random.random()}, stream)
"""
MARK = "import os\nopen('mark-' + os.environ['RANK'], 'w').close()\n"


def slurm(rank: int, world: int, job: str, *, per_node: int = 2) -> dict[str, str]:
    """The variables of a task of a step with so many tasks a node."""
    nodes = -(-world // per_node)
    return {
        "SLURM_JOB_ID": job,
        "SLURM_JOBID": job,
        "SLURM_STEP_ID": "0",
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(rank % per_node),
        "SLURM_NODEID": str(rank // per_node),
        "SLURM_NTASKS": str(world),
        "SLURM_STEP_NUM_TASKS": str(world),
        "SLURM_STEP_NODELIST": f"node[1-{nodes}]" if nodes > 1 else "node1",
        "SLURM_STEP_TASKS_PER_NODE": f"{per_node}(x{nodes})" if nodes > 1 else str(per_node),
    }


def start(
    project: Project, world: int, *arguments: str, masked: tuple[int, str] | None = None, **more: Any
) -> list[Done]:
    """Start a program in all ranks at once, and wait for all.

    Args:
        masked: a rank that sees another ``/proc/cpuinfo``, and its content.
        more: as ``slurm`` has them.
    """
    job = str(uuid.uuid4().int % 10**9)
    started = []
    for rank in range(world):
        prefix: tuple[str, ...] = ()
        if masked is not None and masked[0] == rank:
            file = project.write("cpuinfo", masked[1])
            prefix = ("unshare", "-m", "sh", "-c", f'mount --bind {file} /proc/cpuinfo && exec "$@"', "sh")
        started.append(project.start("run", *arguments, prefix=prefix, **slurm(rank, world, job, **more)))
    return [finish(process) for process in started]


def records(project: Project, count: int) -> list[dict[str, Any]]:
    """The newest records, by rank."""
    return sorted(project.must("runs", "--json").json[:count], key=lambda record: int(record["rank"]["rank"]))


def results(project: Project, world: int) -> list[dict[str, Any]]:
    """What each rank has written."""
    return [json.loads((project.folder / f"rank-{rank}.json").read_bytes()) for rank in range(world)]


def test_ranks_find_their_place_and_repeat(project: Project) -> None:
    """Each rank has its numbers and a stream of its own, the same when it is started again under another job's name."""
    project.write("t.py", PROGRAM)
    drawn = []
    for _ in range(2):
        ended = start(project, 2, "t.py")
        assert [(each.code, each.out) for each in ended] == [(0, ""), (0, "")], ended
        found = results(project, 2)
        assert [each["RANK"] for each in found] == ["0", "1"] == [each["SLURM_PROCID"] for each in found]
        assert {each["WORLD_SIZE"] for each in found} == {"2"}
        assert [each["LOCAL_RANK"] for each in found] == ["0", "1"]
        assert {each["LOCAL_WORLD_SIZE"] for each in found} == {"2"}
        assert {each["SLURM_JOBID"] for each in found} == {None}
        assert {each["MASTER_ADDR"] for each in found} == {"127.0.0.1"}
        drawn.append([each["drawn"] for each in found])
    assert drawn[0] == drawn[1]
    assert drawn[0][0] != drawn[0][1]


def test_each_rank_leaves_a_record(project: Project) -> None:
    """Two records that share their start, each with rank, machine, seed and all outputs; ``show`` and ``runs`` too."""
    project.write("t.py", PROGRAM)
    start(project, 2, "t.py")
    found = records(project, 2)
    ranks = [record["rank"] for record in found]
    assert [rank["rank"] for rank in ranks] == [0, 1]
    assert {(rank["world"], rank["launcher"], rank["host"], rank["waited"]) for rank in ranks} == {
        (2, "Slurm", "node1", True)
    }
    assert ranks[0]["start"] == ranks[1]["start"] != ""
    assert ranks[0]["hosts"] == ["node1", "node1"]
    assert ranks[0]["codes"] == {"0": 0, "1": 0}
    seeds = [record["processes"][0]["seed"] for record in found]
    assert seeds[0] != seeds[1]
    outputs = [sorted(output["path"] for output in record["outputs"]) for record in found]
    assert outputs == [["rank-0.json", "rank-1.json"]] * 2
    shown = project.must("show", f"{found[1]['id']}:1").out
    assert re.search(r"rank +1 of 2 +by Slurm, job \d+/0 +on node1, number 1 of 2 there +machines compared", shown)
    assert "  ok, 2 ranks" in project.must("runs").out
    shown = project.must("show", found[1]["id"]).out
    assert re.search(r"^ranks +2 by Slurm, job \d+/0 +machines compared$", shown, re.M), shown
    assert [f"seed {seed}" in shown for seed in seeds] == [True, True]
    assert len(re.findall(r"^output ", shown, re.M)) == 2


def test_one_other_machine_stops_all(project: Project) -> None:
    """A node with another CPU: exit 78 in every rank, the same table for each machine, and no program has run."""
    if os.geteuid():
        pytest.skip("only root can mask a machine's CPU")
    project.write("t.py", MARK)
    flags = re.sub(r"\b(avx512\w*|avx2) ?", "", Path("/proc/cpuinfo").read_text())
    ended = start(project, 4, "t.py", masked=(3, flags))
    assert [each.code for each in ended] == [78] * 4, ended
    table, one, again, other = (each.err for each in ended)
    assert table == again
    assert "see the message of rank 0, or of the first rank on node1" in one
    assert "see the message of rank 0, or of the first rank on node2" in other
    assert "the machines of the 4 ranks of this job do not match — nothing was run" in table
    assert re.search(r"cpu\.flags +\S.* rank 0-1 \(node1\), 2 \(node2\)\n +\S.* rank 3 \(node2\)", table), table
    assert list(project.folder.glob("mark-*")) == []


def test_a_rank_that_does_not_come_is_named(project: Project) -> None:
    """After the time limit; nothing has run, and the exit code lets a scheduler try again."""
    project.write("t.py", MARK)
    done = project("run", "t.py", ENVBUILD_RANKS_TIMEOUT="1s", **slurm(0, 2, str(uuid.uuid4().int % 10**9)))
    assert done.code == 18
    assert "did not arrive: rank 1 of 2; arrived from: node1" in done.err
    assert list(project.folder.glob("mark-*")) == []


def test_a_rank_that_cannot_start_ends_all(project: Project) -> None:
    """Its own message is printed by all others, at once: here data that is not as locked, in the folder of one node."""
    project.write("data/a.txt", "1")
    with (project.folder / "spec.yaml").open("a") as stream:
        stream.write("inputs: [data]\n")
    project.must("lock")
    project.must("build")
    meeting = project.folder.parent / "meeting"
    meeting.mkdir()
    other = project.copy(project.folder.parent / "other")
    other.write("data/a.txt", "2")
    project.write("t.py", MARK)
    other.write("t.py", MARK)
    job = str(uuid.uuid4().int % 10**9)
    started = [
        each.start("run", "t.py", ENVBUILD_RANKS_FOLDER=str(meeting), **slurm(rank, 2, job, per_node=1))
        for rank, each in enumerate((project, other))
    ]
    ended = [finish(process) for process in started]
    assert [each.code for each in ended] == [78, 78], ended
    assert re.search(r"node2 does not match the lock: input data is not as \S+ locked it: data", ended[0].err), ended
    assert list(project.folder.glob("mark-*")) == list(other.folder.glob("mark-*")) == []


def test_ranks_of_one_machine_build_once(project: Project) -> None:
    """The image is made by one process; the others wait for it and start."""
    with (project.folder / "spec.yaml").open("a") as stream:
        stream.write(f"env: {{NOBODY_HAS: '{uuid.uuid4()}'}}\n")
    project.must("lock")
    project.write("t.py", PROGRAM)
    ended = start(project, 3, "t.py", per_node=3)
    assert [each.code for each in ended] == [0] * 3, ended
    built = [
        each for each in ended if re.search(r"^image .*sha256:", each.err, re.M) and "nothing to do" not in each.err
    ]
    assert len(built) == 1, [each.err for each in ended]


def test_the_rank_that_failed_is_named(project: Project) -> None:
    """Its code is its own; the others' records and lines name it."""
    project.write("t.py", "import os, sys\nsys.exit(3 if os.environ['RANK'] == '1' else 0)\n")
    ended = start(project, 2, "t.py")
    assert [each.code for each in ended] == [0, 3]
    assert "rank 1 on node1 ended with exit 3" in ended[0].err
    assert records(project, 2)[0]["rank"]["codes"] == {"0": 0, "1": 3}


def test_without_a_guard_nobody_waits(project: Project) -> None:
    """One rank alone runs, with its numbers; the record states that nothing was compared."""
    project.write("t.py", PROGRAM)
    done = project("run", "--no-guard", "t.py", **slurm(1, 2, "5"))
    assert done.code == 0, done
    (record,) = records(project, 1)
    assert (record["rank"]["rank"], record["verified"]) == (1, "no")
    assert "start" not in record["rank"]


def test_a_job_is_given_to_sbatch(project: Project) -> None:
    """The script goes to ``sbatch`` as ``--dry-run`` prints it; its answer is the job's number, a refusal is shown."""
    folder = project.folder.parent / "bin"
    folder.mkdir()
    sbatch = folder / "sbatch"
    sbatch.write_text('#!/bin/sh\n[ "$1" = --parsable ] || exit 9\ncat > given\necho "42;cluster"\n')
    sbatch.chmod(0o755)
    path = f"{folder}:{project.environ['PATH']}"
    arguments = ("submit", "--nodes", "2", "--tasks-per-node", "2", "t.py", "--epochs", "3 4")
    done = project.must(*arguments, PATH=path)
    assert re.search(r"^job +42 +its output: \.envbuild/jobs/42\.out$", done.out, re.M), done
    assert (project.folder / ".envbuild" / "jobs").is_dir()
    printed = project.must("submit", "--dry-run", *arguments[1:], PATH=path).out
    assert (project.folder / "given").read_text() == printed
    assert "#SBATCH --nodes=2\n" in printed
    assert printed.endswith(" t.py --epochs '3 4'\n")
    sbatch.write_text("#!/bin/sh\necho 'error: invalid partition' >&2\nexit 1\n")
    done = project(*arguments, PATH=path)
    assert (done.code, "invalid partition" in done.err) == (15, True)
