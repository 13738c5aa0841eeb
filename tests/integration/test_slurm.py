"""``submit`` and ``verify --on slurm`` with a real Slurm of two nodes: output, exit codes, arrays, requeues, ranks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_cluster_torch import TRAINING, shard
from tests.support import relay
from tests.support.cli import Done, Project, finish, until
from tests.support.environments import environment
from tests.support.gpus import build_standin, h100, install, machine
from tests.support.registry import running_registry
from tests.support.slurm import Cluster, slurm, wait_for_nodes

pytestmark = [pytest.mark.engine, pytest.mark.network]

RANK = "import os\nprint('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])\n"
PLANTED = """\
import os
print(os.urandom(16).hex() if os.environ["RANK"] == "1" else "equal")
"""
NOISE = """\
if rank == 1:
    rows[15:] = [[value + os.urandom(1)[0] / 256 for value in row] for row in rows[15:]]
"""
TASK = "import os\nopen('task-' + os.environ['SLURM_ARRAY_TASK_ID'], 'w').close()\n"
AGAIN = """\
import os, time
if os.path.exists("started"):
    print("went on")
else:
    open("started", "w").close()
    time.sleep(600)
"""


@pytest.fixture(name="two", scope="module")
def _two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two nodes."""
    with slurm(tmp_path_factory.mktemp("cluster") / "slurm") as cluster:
        yield cluster


@pytest.fixture(name="cluster")
def _cluster(two: Cluster) -> dict[str, str]:
    """Variables with which Slurm's commands find the cluster."""
    return two.environ


def records(project: Project) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = project.must("runs", "--json").json
    return found


def test_a_job_that_another_one_preempts_goes_on_later(project: Project, cluster: dict[str, str]) -> None:
    """A job of a partition that comes first takes its node; it is started again, and its record says so."""
    project.write("t.py", AGAIN)
    process = project.start("submit", "--wait", "--requeue", "t.py", **cluster)
    until((project.folder / "started").exists)
    job = until(lambda: _jobs(cluster, project))[0]
    urgent = ["sbatch", "--parsable", "-p", "urgent", "-N2", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 600"]
    other = subprocess.run(urgent, env=_environ(cluster), capture_output=True, text=True, check=True).stdout.strip()
    until(lambda: _jobs(cluster) == [other])
    assert "Restarts=1" in until(lambda: _pending(cluster, job))
    subprocess.run(["scancel", other], env=_environ(cluster), check=True)
    # Slurm waits two minutes, or the end of the first start may reach the second one's step, which has the same number.
    until(lambda: "COMPLETING" not in _control(cluster, "show", "node", "--oneliner"))
    until(lambda: _started(cluster, job))
    done = finish(process)
    assert (done.code, "went on" in done.out) == (0, True), done
    assert records(project)[0]["rank"]["restarts"] == 1


def test_a_node_that_fails_ends_the_wait(project: Project, two: Cluster, cluster: dict[str, str]) -> None:
    """With Slurm's word for it; the job is not started again."""
    project.write("t.py", "import os, time\nopen('started-' + os.environ['RANK'], 'w').close()\ntime.sleep(600)\n")
    process = project.start("submit", "--wait", "--nodes", "2", "t.py", **cluster)
    until(lambda: len(list(project.folder.glob("started-*"))) == 2)
    try:
        _control(cluster, "update", "NodeName=node2", "State=down", "Reason=test")
        done = finish(process)
    finally:
        _control(cluster, "update", "NodeName=node2", "State=resume")
        wait_for_nodes(two)
    assert done.code == 143, done
    assert re.search(r"^ended +\d+ +node_fail +exit 143$", done.err + done.out, re.M), done


@dataclass(frozen=True, kw_only=True)
class Waits:
    """Jobs that wait for a time limit, a minute or twenty seconds, while other tests run; each with its project.

    Attributes:
        limited: ``submit --wait`` of a job with a limit of a minute, which Slurm has no shorter one than.
        incomplete: steps of which one rank does not arrive, by where the ranks meet.
    """

    limited: tuple[Project, subprocess.Popen[bytes]]
    incomplete: dict[str, tuple[Project, subprocess.Popen[bytes]]]


@pytest.fixture(name="waits", scope="module")
def _waits(made: Project, two: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Waits]:
    """Start them, after the tests that take a node from all jobs."""
    project = made.copy(tmp_path_factory.mktemp("limited"))
    project.write("t.py", "import os, time\nopen('began-' + os.environ['RANK'], 'w').close()\ntime.sleep(3000)\n")
    words = ("--wait", "--nodes", "2", "--tasks-per-node", "2", "--time", "30", "t.py")
    with ExitStack() as stack:

        def begin(process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
            stack.callback(_end, process)
            return process

        limited = begin(project.start("submit", *words, **two.environ))
        # On a busy machine that takes longer than a minute.
        until(lambda: len([*project.folder.glob("began-*")]) == 4 or limited.poll() is not None)
        _control(two.environ, "update", f"JobId={_jobs(two.environ, project)[0]}", "TimeLimit=1")
        incomplete = {}
        for over in ("folder", "tcp"):
            other = made.copy(tmp_path_factory.mktemp(f"incomplete-{over}"))
            incomplete[over] = other, begin(_without_the_last(other, two, over))
        yield Waits(limited=(project, limited), incomplete=incomplete)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        process.communicate()


def _without_the_last(project: Project, two: Cluster, over: str) -> subprocess.Popen[bytes]:
    """Start four ranks of which the last one does not arrive.

    It ends when the others have: Slurm ends none of them. These begin together, however long Slurm takes to start
    each: the time limit is for the difference.
    """
    project.must("build", **two.environ)
    project.write("t.py", "open('started', 'w').close()\n")
    late = (
        ': >"../at.$SLURM_PROCID"; for n in 0 1 2; do until test -e "../at.$n"; do sleep 0.1; done; done; '
        'if test "$SLURM_PROCID" = 3; then for n in 0 1 2; do until test -e "../ended.$n"; do sleep 0.2; done; done; '
        'exit; fi; "$@"; code=$?; : >"../ended.$SLURM_PROCID"; exit $code'
    )
    words = (f"--chdir={project.folder}", "-N2", "--ntasks-per-node=2", "sh", "-c", late, "sh")
    way = {"ENVBUILD_RANKS_ADDRESS": "auto", "ENVBUILD_RANKS_SECRET": "5" * 32} if over == "tcp" else {}
    variables = {**project.environ, **two.environ, "ENVBUILD_RANKS_TIMEOUT": "20s", **way}
    return subprocess.Popen(
        ["srun", *words, *ENVBUILD, "run", "t.py"],
        env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


@pytest.mark.usefixtures("waits")
@pytest.mark.parametrize("over", ["folder", "tcp"])
def test_a_job_is_followed_to_its_end(project: Project, cluster: dict[str, str], over: str) -> None:
    """What its ranks print is shown, wherever they meet; their records share a start. No secret is in the script."""
    project.write("t.py", RANK)
    way = ("--tcp",) if over == "tcp" else ()
    done = project("submit", "--wait", "--nodes", "2", *way, "t.py", **cluster)
    assert done.code == 0, done
    printed = [line for line in done.out.splitlines() if line.startswith("rank ")]
    assert sorted(printed) == ["rank 0 of 2", "rank 1 of 2"]
    assert re.search(r"^ended +\d+ +completed +exit 0$", done.err + done.out, re.M), done
    found = records(project)[:2]
    assert [record["rank"]["launcher"] for record in found] == ["Slurm", "Slurm"]
    assert found[0]["rank"]["start"] == found[1]["rank"]["start"] != ""
    assert found[0]["rank"]["hosts"] == ["node1", "node2"]
    assert (project.folder / ".envbuild/ranks").exists() == (over == "folder")
    script = project.must("submit", "--dry-run", *way, "t.py").out
    assert ("/dev/urandom" in script) == (over == "tcp")
    assert not re.search(r"[0-9a-f]{32}(?![0-9a-f])", script.partition("set -eu")[2]), "a secret"


def test_its_exit_code_is_the_programs(project: Project, cluster: dict[str, str]) -> None:
    """And what it wrote to standard error is shown too; without --wait nothing is waited for."""
    project.write("t.py", "import sys\nsys.exit('it failed for a reason')\n")
    done = project("submit", "--wait", "t.py", **cluster)
    assert (done.code, "it failed for a reason" in done.out) == (1, True), done
    assert re.search(r"^ended +\d+ +failed +exit 1$", done.err + done.out, re.M), done
    assert project("submit", "t.py", **cluster).code == 0


def test_a_rank_that_dies_ends_the_job_and_is_named(project: Project, cluster: dict[str, str]) -> None:
    """The other rank would go on for minutes; the one that failed is named with its last lines, and so is its code."""
    project.write("t.py", DIES)
    done = project("submit", "--wait", "--nodes", "2", "t.py", **cluster)
    assert done.code == 143, done  # the highest of all ranks' codes: rank 0 was ended
    shown = done.out.splitlines()
    at = next(number for number, line in enumerate(shown) if line.startswith("failed "))
    assert re.fullmatch(r"failed +rank 1 on node2  ended with exit 3; its last lines:", shown[at]), shown
    assert [line.split() for line in shown[at + 1 : at + 3]] == [["step", "7"], ["no", "more", "data"]], shown


DIES = """\
import os, sys, time
open("started-" + os.environ["RANK"], "w").close()
if os.environ["RANK"] == "0":
    time.sleep(3000)
while not os.path.exists("started-0"):
    time.sleep(0.05)
print("step 7", file=sys.stderr)
print("no more data", file=sys.stderr)
sys.exit(3)
"""


def test_an_array_runs_each_task_and_records_its_number(project: Project, cluster: dict[str, str]) -> None:
    """The number reaches the program and its record; each task writes a file of its own."""
    project.write("t.py", TASK)
    done = project("submit", "--wait", "--array", "3,5", "t.py", **cluster)
    assert done.code == 0, done
    assert {path.name for path in project.folder.glob("task-*")} == {"task-3", "task-5"}
    assert len(list((project.folder / ".envbuild/jobs").glob("*_[35].out"))) == 2
    text = json.dumps(records(project))
    assert set(re.findall(r"SLURM_ARRAY_TASK_ID\W+(\d)", text)) == {"3", "5"}


def test_a_job_that_is_started_again_says_so(project: Project, cluster: dict[str, str]) -> None:
    """A requeued job goes on; its record has the number of starts before, and is compared with no run of one start."""
    project.write("t.py", AGAIN)
    process = project.start("submit", "--wait", "--requeue", "t.py", **cluster)
    until((project.folder / "started").exists)
    job = until(lambda: _jobs(cluster, project))[0]
    _control(cluster, "requeue", job)
    until(lambda: _pending(cluster, job))
    until(lambda: _started(cluster, job))
    done = finish(process)
    assert (done.code, "went on" in done.out) == (0, True), done
    newest = records(project)[0]
    assert newest["rank"]["restarts"] == 1
    assert "started again, 1 time before" in project.must("show", newest["id"]).out


def test_a_cancelled_job_ends_the_wait(project: Project, cluster: dict[str, str]) -> None:
    """With the exit code of SIGTERM, and Slurm's word for it."""
    project.write("t.py", "import time\nopen('started', 'w').close()\ntime.sleep(600)\n")
    process = project.start("submit", "--wait", "t.py", **cluster)
    until((project.folder / "started").exists)
    subprocess.run(["scancel", until(lambda: _jobs(cluster, project))[0]], env=_environ(cluster), check=True)
    done = finish(process)
    assert done.code == 143, done
    assert re.search(r"^ended +\d+ +cancelled +exit 143$", done.err + done.out, re.M), done


def _environ(cluster: dict[str, str]) -> dict[str, str]:
    return {**os.environ, **cluster}


def _control(cluster: dict[str, str], *words: str) -> str:
    done = subprocess.run(["scontrol", *words], env=_environ(cluster), capture_output=True, text=True, check=False)
    return done.stdout


def _jobs(cluster: dict[str, str], project: Project | None = None) -> list[str]:
    """The jobs that run; of one project if given, since what an earlier test started may run still."""
    command = ["squeue", "-h", "-t", "running", "-o", "%i %Z"]
    done = subprocess.run(command, env=_environ(cluster), capture_output=True, text=True, check=True)
    rows = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    return [number for number, folder in rows if project is None or Path(folder).resolve() == project.folder.resolve()]


def _pending(cluster: dict[str, str], job: str) -> str:
    """What Slurm knows of a job that waits; empty if it does not."""
    found = _control(cluster, "show", "job", job, "--oneliner")
    return found if "JobState=PENDING" in found else ""


def _started(cluster: dict[str, str], job: str) -> bool:
    """Ask Slurm not to wait two minutes before it starts a job again; whether it has, and may have ended."""
    _control(cluster, "update", f"JobId={job}", "StartTime=now")
    return not _pending(cluster, job)


def verified(project: Project, cluster: Cluster, *words: str, code: int) -> dict[str, Any]:
    """Verify over the nodes, and return what was found."""
    done = project("verify", "--on", "slurm", "--json", *words, **cluster.environ)
    assert done.code == code, done
    found: dict[str, Any] = done.json
    return found


def test_runs_spread_over_nodes_are_compared(project: Project, two: Cluster) -> None:
    """Equal bits on both nodes are proved with a table by node; no copy of the project is left."""
    project.write("t.py", "open('result', 'w').write('1.25')\nprint('done')\n")
    done = project("verify", "--on", "slurm", "-n", "4", "t.py", **two.environ)
    assert done.code == 0, done
    assert re.search(r"^result +bit-identical 4/4: 1 file, 1 line of standard output", done.out + done.err, re.M), done
    assert "the same bits on 2 nodes" in done.out + done.err
    assert len(records(project)) == 4
    assert not (project.folder / ".envbuild/verify").exists()


def test_bits_that_depend_on_the_node_are_explained(project: Project, two: Cluster) -> None:
    """One node has another CPU level and gives other bits: a table by node, and the level is the cause.

    The value is what such a CPU would compute; no record shows that ``cat`` reads it from a mounted folder.
    """
    for node in (1, 2):
        (two.own(node) / "value").write_text(f"of node {node}")
    ordinary = Path("/proc/cpuinfo").read_text()
    two.cpuinfo(2, re.sub(r"\b(avx512\w*|avx2|fma|bmi2) ?", "", ordinary))
    project.write("t.py", "import os\nos.system('cat /here/value > result')\n")
    try:
        found = verified(project, two, "-n", "4", "--mount", f"{two.here}:/here:ro", "t.py", code=16)
    finally:
        two.cpuinfo(2, ordinary)
    assert {row["node"]: len(set(row["results"])) for row in found["nodes"]} == {"node1": 1, "node2": 1}
    assert found["differing_files"] == ["result"]
    assert "the bits depend on the CPU level: x86-64-v" in json.dumps(found["causes"][0]), found["causes"]
    assert found["node_decides"] == "perhaps"  # four runs: by chance in 1 of 3


def test_ranks_over_nodes_are_compared_as_one(project: Project, two: Cluster) -> None:
    """A run of two ranks on two nodes: what rank 1 draws from the system differs, and is named with its rank."""
    project.write("t.py", PLANTED)
    found = verified(project, two, "-n", "2", "--nodes", "2", "t.py", code=16)
    assert (found["world"], len(found["groups"]), found["differs"]) == (2, 2, ["rank 1: standard output"]), found
    assert [row["node"] for row in found["nodes"]] == ["node1 + node2"]
    assert sorted(record["rank"]["rank"] for record in records(project)) == [0, 0, 1, 1]


def test_training_over_nodes_names_rank_and_step(project: Project, two: Cluster) -> None:
    """Training on two nodes: rank 1 adds noise to its data from step 4 on, and is named with that step."""
    source = TRAINING.replace("data = TensorDataset", NOISE + "data = TensorDataset")
    project.write("t.py", source)
    for rank in range(2):
        project.write(f"shards/{rank}.txt", shard(rank))
    mounted = ("--mount", f"{environment('torch', '3.11')}:/frameworks:ro")
    words = ("-n", "2", "--nodes", "2", "--network", "host", *mounted, "t.py")
    found = verified(project, two, *words, code=16)
    first = found["first"]
    assert (first["process"], first["kind"], first["step"], first["batch"]) == ("rank 1", "step", 4, True), found
    assert first["sentence"].endswith("rank 0 at the same step, where the data was equal")


def test_a_node_of_another_level_stops_all_ranks(project: Project, two: Cluster) -> None:
    """Before any program starts, with a table by node and exit 78."""
    project.write("t.py", "open('started', 'w').close()\n")
    ordinary = Path("/proc/cpuinfo").read_text()
    two.cpuinfo(2, re.sub(r"\b(avx512\w*|avx2|fma|bmi2) ?", "", ordinary))
    try:
        done = project("submit", "--wait", "--nodes", "2", "t.py", **two.environ)
    finally:
        two.cpuinfo(2, ordinary)
    assert done.code == 78, done
    assert re.search(r"^ +cpu +x86-64-v\d +rank 0 \(node1\)$", done.out, re.M), done
    assert not (project.folder / "started").exists()


def four(project: Project, two: Cluster, *words: str, **environ: str) -> Done:
    """Run ``t.py`` in two ranks on each of two nodes."""
    return project(
        "submit", "--wait", "--nodes", "2", "--tasks-per-node", "2", *words, "t.py", **two.environ, **environ
    )


@pytest.mark.parametrize("over", ["folder", "tcp"])
def test_four_ranks_over_two_nodes(project: Project, two: Cluster, over: str) -> None:
    """They meet, and their records are one run."""
    project.write("t.py", RANK)
    done = four(project, two, *(("--tcp",) if over == "tcp" else ()))
    assert done.code == 0, done
    assert sorted(line for line in done.out.splitlines() if line.startswith("rank ")) == [
        f"rank {rank} of 4" for rank in range(4)
    ]
    job = project.must("show", "--json", records(project)[0]["id"]).json
    assert (job["world"], job["missing"]) == (4, [])
    assert [each["rank"]["host"] for each in job["ranks"]] == ["node1", "node1", "node2", "node2"]
    assert "no record" not in done.out


def test_another_driver_on_one_node_stops_all_ranks(project: Project, two: Cluster, tmp_path: Path) -> None:
    """Both nodes have a GPU of one model, one has another driver: exit 78 in all ranks, with a table by node."""
    libraries = build_standin(tmp_path / "libraries")
    for node, driver in ((1, "580.159.04"), (2, "570.86.15")):
        install(libraries, two.own(node) / "driver", machine(h100(), driver=driver))
    project.write("t.py", "open('started', 'w').close()\n")
    done = four(project, two, LD_LIBRARY_PATH=str(two.here / "driver/lib"))
    assert done.code == 78, done
    rows = r"gpu\.driver +580\.159\.04 +rank 0-1 \(node1\)\n +570\.86\.15 +rank 2-3 \(node2\)$"
    assert len(re.findall(rows, done.out, re.M)) == 2, done  # by the first rank of each node
    assert not re.search(r"gpu\.model", done.out), done
    assert not (project.folder / "started").exists()
    ended = dict(re.findall(r"tasks? ([\d,-]+): Exited with exit code (\d+)", done.out))
    assert set(ended.values()) == {"78"}, done
    assert numbers(",".join(ended)) == [0, 1, 2, 3], done


def numbers(text: str) -> list[int]:
    """Read ``0-1,3`` as Slurm writes it."""
    parts = (part.partition("-") for part in text.split(","))
    return sorted(number for first, _, last in parts for number in range(int(first), int(last or first) + 1))


def test_nodes_that_share_nothing(project: Project, two: Cluster) -> None:
    """Four ranks, each node with a project of its own: the first node has the records of all, the second its own."""
    project.must("build", **two.environ)
    project.write("t.py", RANK)
    nodes = []
    for node in (1, 2):
        copy = project.copy(two.own(node))
        nodes.append(copy)
        assert copy.folder == two.own(node) / "project"
    words = (f"--chdir={two.here}/project", "-N2", "--ntasks-per-node=2", *ENVBUILD, "run", "t.py")
    way = {"ENVBUILD_RANKS_ADDRESS": "auto", "ENVBUILD_RANKS_SECRET": "5" * 32}
    done = stepped(project, two, *words, **way)
    assert done.returncode == 0, done
    assert [len(records(each)) for each in nodes] == [4, 2]
    job = nodes[0].must("show", "--json", records(nodes[0])[0]["id"]).json
    assert (job["world"], job["missing"]) == (4, [])
    assert "no record of" not in done.stderr, done
    shared = {record["id"]: record for record in records(nodes[0])}
    assert all(shared[record["id"]] == record for record in records(nodes[1]))


def test_stores_of_nodes_are_filled_from_a_peer(project: Project, two: Cluster, tmp_path: Path) -> None:
    """Each node has a store of its own and no way to an index: it pulls, and its ranks make the image once."""
    project.must("build", **two.environ)
    project.must("store", "push", "--layers", str(tmp_path), **two.environ)
    own = {"ENVBUILD_STORE": str(two.here / "store")}
    place = f"--chdir={project.folder}"
    alone = ("env", "-u", "SLURM_STEP_NUM_TASKS")
    done = stepped(
        project, two, place, "-N2", "-n2", *alone, *ENVBUILD, "store", "pull", "--layers", str(tmp_path), **own
    )
    assert done.returncode == 0, done
    assert all((two.own(node) / "store").is_dir() for node in (1, 2))
    project.write("t.py", RANK)
    done = stepped(project, two, place, "-N2", "--ntasks-per-node=2", "-l", *ENVBUILD, "run", "t.py", **own)
    assert done.returncode == 0, done
    assert sorted(re.findall(r"rank (\d) of 4", done.stdout)) == ["0", "1", "2", "3"], done
    lines = re.findall(r"^(\d): (image .*sha256:.*)$", done.stderr, re.M)
    made = [int(rank) // 2 for rank, line in lines if "nothing to do" not in line]
    assert sorted(made) == [0, 1], done  # one rank of each node


def test_stores_of_nodes_are_filled_from_a_registry(project: Project, two: Cluster, tmp_path: Path) -> None:
    """Each node has an empty store of its own: one of its ranks takes the image from the registry, the other waits."""
    own = {"ENVBUILD_STORE": str(two.here / "from-registry")}
    project.write("t.py", RANK)
    tunnel = (
        'python=$1 relay=$2 port=$3 socket=$4; shift 4; "$python" "$relay" "$port" "$socket" & '
        'until bash -c ": </dev/tcp/127.0.0.1/$port" 2>/dev/null; do sleep 0.1; done; exec "$@"'
    )
    with running_registry(tmp_path / "registry") as registry:
        image = project.must("push", "--json", f"{registry.host}/team/ranks", **two.environ).json["reference"]
        port = registry.host.rpartition(":")[2]
        through = ("sh", "-c", tunnel, "sh", sys.executable, relay.__file__, port, str(tmp_path / "socket"))
        with relay.socket_to(int(port), tmp_path / "socket"):
            place = (f"--chdir={project.folder}", "-N2", "--ntasks-per-node=2", "-l")
            run = (*ENVBUILD, "run", "--image", image, "--offline", "t.py")
            refused = stepped(project, two, *place, *through, *run, **own)
            assert refused.returncode != 0, "nothing may be there before"
            run = (*ENVBUILD, "run", "--image", image, "t.py")
            done = stepped(project, two, *place, *through, *run, **own)
    assert done.returncode == 0, done
    assert sorted(re.findall(r"rank (\d) of 4", done.stdout)) == ["0", "1", "2", "3"], done
    log = (tmp_path / "registry/log").read_text()
    got = Counter(re.findall(r'"GET /v2/team/ranks/blobs/sha256:([0-9a-f]{64}) HTTP/1.1" 200', log))
    times = {registry.blob(digest).stat().st_size: number for digest, number in got.items()}
    # Each node takes each layer once. The small one with the lock is read by each rank before, to compare the lock.
    assert {number for size, number in times.items() if size > 5_000_000} == {2}, times


@pytest.mark.parametrize("over", ["folder", "tcp"])
def test_a_rank_that_never_arrives_is_named(waits: Waits, over: str) -> None:
    """After the time limit by all that did: nothing has run, exit 18."""
    project, process = waits.incomplete[over]
    done = finish(process)
    assert numbers(",".join(re.findall(r"tasks? ([\d,-]+): Exited with exit code 18", done.err))) == [0, 1, 2], done
    assert done.err.count("did not arrive: rank 3 of 4; arrived from: node1, node2") == 2, done
    assert done.code == 18
    assert not (project.folder / "started").exists()


def test_the_time_limit_ends_the_wait(waits: Waits) -> None:
    """With Slurm's word for it; each rank's record has the signal that ended its program."""
    project, process = waits.limited
    done = finish(process)
    assert done.code == 143, done
    assert re.search(r"^ended +\d+ +timeout +exit 143$", done.err + done.out, re.M), done
    job = project.must("show", "--json", records(project)[0]["id"]).json
    assert (job["world"], job["missing"]) == (4, [])
    assert {(each["state"], each["exit_code"]) for each in job["ranks"]} == {("finished", 143)}


ENVBUILD = (sys.executable, "-m", "envbuild")


def stepped(project: Project, two: Cluster, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a step of its own, without a script."""
    variables = {**project.environ, **two.environ, **environ}
    return subprocess.run(["srun", *words], env=variables, capture_output=True, text=True, check=False, timeout=900)
