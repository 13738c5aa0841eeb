"""Ranks of one job, started as a launcher starts them: real processes, each with its own container.

A real Slurm is not needed: its variables are set by hand (values as ``srun`` of 22.05 sets them).
"""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import Done, Project, finish, until
from tests.support.environments import environment

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
    project: Project,
    world: int,
    *arguments: str,
    masked: tuple[int, str] | None = None,
    own: Mapping[int, Sequence[str]] | None = None,
    way: Mapping[str, str] | None = None,
    **more: Any,
) -> list[Done]:
    """Start a program in all ranks at once, and wait for all.

    Args:
        masked: a rank that sees another ``/proc/cpuinfo``, and its content.
        own: by rank arguments of that rank in place of those of all.
        way: variables that state where ranks meet.
        more: as ``slurm`` has them.
    """
    job = str(uuid.uuid4().int % 10**9)
    started = []
    for rank in range(world):
        prefix: tuple[str, ...] = ()
        if masked is not None and masked[0] == rank:
            file = project.write("cpuinfo", masked[1])
            prefix = ("unshare", "-m", "sh", "-c", f'mount --bind {file} /proc/cpuinfo && exec "$@"', "sh")
        words = (own or {}).get(rank, arguments)
        variables = {**slurm(rank, world, job, **more), **(way or {})}
        started.append(project.start("run", *words, prefix=prefix, **variables))
    return [finish(process) for process in started]


@pytest.fixture(name="tcp")
def _tcp() -> Iterator[dict[str, str]]:
    """Variables with which ranks meet over TCP."""
    with meeting_point() as way:
        yield way


@contextmanager
def meeting_point() -> Iterator[dict[str, str]]:
    """Give variables with which ranks meet at a port that is bound all the time, so that nobody else gets it."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield {
            "ENVBUILD_RANKS_ADDRESS": f"127.0.0.1:{held.getsockname()[1]}",
            "ENVBUILD_RANKS_SECRET": secrets.token_hex(16),
        }


def records(project: Project, count: int) -> list[dict[str, Any]]:
    """The newest records, by rank."""
    return sorted(project.must("runs", "--json").json[:count], key=lambda record: int(record["rank"]["rank"]))


def results(project: Project, world: int) -> list[dict[str, Any]]:
    """What each rank has written."""
    return [json.loads((project.folder / f"rank-{rank}.json").read_bytes()) for rank in range(world)]


DYING = """\
import os, time
open("started", "w").close()
while not os.path.exists("go"):
    time.sleep(0.05)
"""


@dataclass(frozen=True, kw_only=True)
class Waits:
    """Jobs of which a rank waits half a minute for another one, while other tests run.

    Attributes:
        left: rank 0 of a job whose rank 1 and its envbuild were killed.
        strangers: two ranks with another secret each.
    """

    left: tuple[Project, subprocess.Popen[bytes]]
    strangers: tuple[Project, list[subprocess.Popen[bytes]]]


@pytest.fixture(name="waits", scope="module")
def _waits(made: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Waits]:
    """Start them."""
    with ExitStack() as stack:

        def start(project: Project, *words: str, **environ: str) -> subprocess.Popen[bytes]:
            process = project.start(*words, **environ)
            stack.callback(_end, process)
            return process

        root = tmp_path_factory.mktemp("strangers")
        project = made.copy(root)
        project.write("t.py", MARK)
        job, way = str(uuid.uuid4().int % 10**9), stack.enter_context(meeting_point())
        other = {**way, "ENVBUILD_RANKS_SECRET": secrets.token_hex(16)}
        strangers = [
            start(project, "run", "t.py", ENVBUILD_RANKS_TIMEOUT="8s", **each, **slurm(rank, 2, job))
            for rank, each in enumerate((way, other))
        ]

        lead = made.copy(tmp_path_factory.mktemp("left"))
        lead.write("t.py", DYING)
        follow = lead.copy(lead.folder.parent / "other")
        job, way = str(uuid.uuid4().int % 10**9), stack.enter_context(meeting_point())
        left, killed = (
            start(each, "run", "t.py", **way, **slurm(rank, 2, job, per_node=1))
            for rank, each in enumerate((lead, follow))
        )
        until((follow.folder / "started").exists)
        killed.kill()
        finish(killed)
        (lead.folder / "go").touch()
        yield Waits(left=(lead, left), strangers=(project, strangers))


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        process.communicate()


@pytest.mark.usefixtures("waits")
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


@pytest.mark.parametrize("over", ["folder", "tcp"])
def test_one_other_machine_stops_all(project: Project, tcp: dict[str, str], over: str) -> None:
    """A node with another CPU: exit 78 in every rank, the same table for each machine, and no program has run."""
    if os.geteuid():
        pytest.skip("only root can mask a machine's CPU")
    project.write("t.py", MARK)
    flags = re.sub(r"\b(avx512\w*|avx2) ?", "", Path("/proc/cpuinfo").read_text())
    ended = start(project, 4, "t.py", masked=(3, flags), way=tcp if over == "tcp" else {})
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


@pytest.mark.parametrize("over", ["folder", "tcp"])
def test_a_rank_that_cannot_start_ends_all(project: Project, tcp: dict[str, str], over: str) -> None:
    """Its own message is printed by all others, at once: here data that is not as locked, in the folder of one node."""
    project.write("data/a.txt", "1")
    with (project.folder / "spec.yaml").open("a") as stream:
        stream.write("inputs: [data]\n")
    project.must("lock")
    project.must("build")
    meeting = project.folder.parent / "meeting"
    meeting.mkdir()
    way = tcp if over == "tcp" else {"ENVBUILD_RANKS_FOLDER": str(meeting)}
    other = project.copy(project.folder.parent / "other")
    other.write("data/a.txt", "2")
    project.write("t.py", MARK)
    other.write("t.py", MARK)
    job = str(uuid.uuid4().int % 10**9)
    started = [
        each.start("run", "t.py", **way, **slurm(rank, 2, job, per_node=1))
        for rank, each in enumerate((project, other))
    ]
    ended = [finish(process) for process in started]
    assert [each.code for each in ended] == [78, 78], ended
    assert re.search(r"node2 does not match the lock: input data is not as \S+ locked it: data", ended[0].err), ended
    assert list(project.folder.glob("mark-*")) == list(other.folder.glob("mark-*")) == []


def test_nodes_that_share_no_folder(project: Project, tcp: dict[str, str]) -> None:
    """Each rank in a copy of the project: they start together, learn how all ended, and rank 0 has all records."""
    secret = tcp["ENVBUILD_RANKS_SECRET"]
    text = "import os, sys\nopen('env', 'w').write(repr(os.environ))\nsys.exit(3 if os.environ['RANK'] == '1' else 0)\n"
    project.write("t.py", text)
    other = project.copy(project.folder.parent / "other")
    for _ in range(2):
        job = str(uuid.uuid4().int % 10**9)
        started = [
            each.start("run", "t.py", **tcp, **slurm(rank, 2, job, per_node=1))
            for rank, each in enumerate((project, other))
        ]
        ended = [finish(process) for process in started]
        assert [each.code for each in ended] == [0, 3], ended
        assert "rank 1 on node2 ended with exit 3" in ended[0].err
    found = records(project, 2)
    assert found[1] == records(other, 1)[0]
    assert found[0]["rank"]["start"] == found[1]["rank"]["start"] != ""
    assert found[0]["rank"]["hosts"] == found[1]["rank"]["hosts"] == ["node1", "node2"]
    assert found[0]["rank"]["codes"] == {"0": 0, "1": 3}
    assert project.must("runs").out.count("rank 1 exit 3, of 2 ranks") == 2
    shown = project.must("show", "--json", found[0]["id"]).json
    assert (shown["world"], shown["missing"], len(shown["ranks"])) == (2, [], 2)
    assert "no record of rank 0" in other.must("runs").out
    for each in (project, other):
        assert secret not in (each.folder / "env").read_text()
        assert secret not in json.dumps(records(each, 2))


def test_training_steps_are_compared_without_a_shared_folder(project: Project, tcp: dict[str, str]) -> None:
    """Step traces come with the records: the first difference names rank and step on rank 0's machine."""
    project.write("t.py", STEPS)
    other = project.copy(project.folder.parent / "other")
    jobs = []
    for value in ("1", "2"):
        other.write("value", value)
        project.write("value", "1")
        job = str(uuid.uuid4().int % 10**9)
        words = ("run", "--trace", "--mount", f"{environment('torch', '3.11')}:/frameworks:ro", "t.py")
        started = [
            each.start(*words, **tcp, **slurm(rank, 2, job, per_node=1)) for rank, each in enumerate((project, other))
        ]
        ended = [finish(process) for process in started]
        assert [each.code for each in ended] == [0, 0], ended
        jobs.append(str(records(project, 2)[0]["id"]))
    first = project("diff", "--json", *jobs).json["first"]
    assert (first["process"], first["kind"], first["step"]) == ("rank 1", "step", 3), first


STEPS = """\
import sys
sys.path.insert(0, "/frameworks")
import torch
net = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(5):
    optimizer.zero_grad()
    scale = float(open("value").read()) if step == 2 else 1.0
    net(torch.ones(1, 2) * scale).sum().backward()
    optimizer.step()
open("result", "wb").write(net.weight.detach().numpy().tobytes())
"""


PLANTED = """\
import argparse, os, pathlib, random, sys
parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
options = parser.parse_args()
rank = os.environ["RANK"]
number = __import__("part" + rank).NUMBER
sys.path.insert(0, f"/workspace/of-{rank}/site-packages")
number += __import__("library").NUMBER
if pathlib.Path("/extra/package.py").exists():
    exec(pathlib.Path("/extra/package.py").read_text())
data = pathlib.Path("shards", rank + ".txt").read_text()
pathlib.Path("out-" + rank).write_text(f"{data} {number} {random.Random(options.seed).random()}")
"""


def test_one_ranks_difference_is_named(project: Project) -> None:
    """Argument, data shard, module, package: each with its rank, before other causes; the number of ranks too."""
    project.write("t.py", PLANTED)
    for rank in range(3):
        project.write(f"part{rank}.py", f"NUMBER = {rank}\n")
        project.write(f"shards/{rank}.txt", f"shard {rank}")
        project.write(f"of-{rank}/site-packages/library.py", "__version__ = '1.0'\nNUMBER = 0\n")
    extra = project.folder.parent / "extra"
    extra.mkdir()
    (extra / "package.py").write_text("number += 1\n")

    def job(*, world: int = 2, own: Sequence[str] = ()) -> str:
        for path in project.folder.glob("out-*"):
            path.unlink()  # what an earlier job left would be a cause
        ended = start(project, world, "t.py", own={1: own} if own else {})
        assert [each.code for each in ended] == [0] * world, ended
        return str(records(project, world)[0]["id"])

    def chief(other: str) -> dict[str, Any]:
        done = project("diff", "--json", first, other)
        assert (done.code, done.json["outcome"]) == (16, "different"), done
        cause: dict[str, Any] = done.json["causes"][0]
        return {key: cause.get(key) for key in ("what", "ranks")}

    first = job()
    assert project.must("diff", first, job()).out.count("bit-identical") == 1
    assert chief(job(own=("t.py", "--seed", "7"))) == {"what": "seed", "ranks": [1]}
    assert chief(job(own=("--mount", f"{extra}:/extra:ro", "t.py"))) == {"what": "/extra/package.py", "ranks": [1]}
    project.write("shards/1.txt", "another shard")
    assert chief(job()) == {"what": "shards/1.txt", "ranks": [1]}
    project.write("shards/1.txt", "shard 1")
    project.write("part1.py", "NUMBER = 9\n")
    assert chief(job()) == {"what": "part1.py", "ranks": [1]}
    project.write("part1.py", "NUMBER = 1\n")
    project.write("of-1/site-packages/library.py", "__version__ = '2.0'\nNUMBER = 1\n")
    assert chief(job()) == {"what": "library (not in the image)", "ranks": [1]}
    project.write("of-1/site-packages/library.py", "__version__ = '1.0'\nNUMBER = 0\n")
    done = project("diff", "--json", first, job(world=3))
    assert (done.json["causes"][0]["sentence"]).startswith("number of ranks: 2 → 3"), done.out


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


def test_a_rank_with_another_secret_takes_no_part(waits: Waits) -> None:
    """Rank 0 names it among those that it refused; nothing has run."""
    project, started = waits.strangers
    lead, follow = (finish(process) for process in started)
    assert (lead.code, follow.code) == (18, 18)
    assert "did not arrive: rank 1 of 2" in lead.err
    assert list(project.folder.glob("mark-*")) == []


def test_a_rank_that_dies_is_named_and_holds_nobody_up(waits: Waits) -> None:
    """Rank 1 and its envbuild are killed: rank 0 ends by itself, and names the record that it does not have."""
    project, process = waits.left
    done = finish(process)
    assert done.code == 0, done
    assert re.search(r"no record of rank 1 \(node2\), .*: its end was not reported", done.err), done
    assert re.search(r"  no record of rank 1", project.must("runs").out)
