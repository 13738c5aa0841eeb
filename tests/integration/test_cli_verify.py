"""``envbuild verify`` as users run it, in a real image: equal runs, planted differences, copies, attestation, cost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from envbuild.operations.verification.self_test import CHANNELS
from envbuild.store.objects import Store
from tests.support.cli import Project, finish
from tests.support.verification import MEASURED, rows

pytestmark = [pytest.mark.engine, pytest.mark.network, pytest.mark.both_engines]

EQUAL = """\
import random, sys
open("out.txt", "w").write(str(random.random()) + " ".join(sys.argv))
"""
ENTROPY = """\
import os, random
open("out.txt", "w").write(str(random.random()) + os.urandom(8).hex())
"""
WORKER = """\
import multiprocessing, random
def work(number):
    if number == 2:
        random.seed()
    return random.random()
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        open("out.txt", "w").write(str(pool.map(work, range(4))))
"""
RACE = """\
import threading, time
found = []
def work(number):
    for _ in range(200):
        found.append(time.sleep(0.0001) or number)
threads = [threading.Thread(target=work, args=(number,)) for number in range(32)]
for thread in threads: thread.start()
for thread in threads: thread.join()
open("order.txt", "w").write(str(found))
"""
UNSORTED = """\
import glob, os
os.makedirs('shards')
for n in range(9):
    open(f'shards/{n}', 'w').write(str(n / 7))
total = 0.0
for path in glob.glob('shards/*'):
    total = total * 1.5 + float(open(path).read())
open('sum', 'w').write(repr(total))
"""
TRACED = """\
import array, hashlib, json, os, struct, sys
sys.path.insert(0, "/opt/envbuild/lib")
from _envbuild.hook.trace_file import VALUED, Writer, step_body

tensors = {"dense/kernel": array.array("f", [0.1 * i for i in range(1, 9)]), "dense/bias": array.array("f", [0, 1])}
names = [[name, "float32", [len(values)]] for name, values in tensors.items()]
writer = Writer("/run/envbuild/trace-planted.bin")
writer.frame(b"H", json.dumps({"format": 1, "process": "", "pid": 1, "python": "3", "interval": 1}).encode())
writer.frame(b"G", json.dumps({"group": 0, "source": "program", "label": "step", "tensors": names}).encode())
for step in range(1, 61):
    for values in tensors.values():
        for place, value in enumerate(values):
            values[place] = value * 0.99 + 0.001
    if step == 37:
        bits = struct.unpack("<I", struct.pack("<f", tensors["dense/kernel"][3]))[0]
        bits += int.from_bytes(os.urandom(3), "big")
        tensors["dense/kernel"][3] = struct.unpack("<f", struct.pack("<I", bits))[0]
    if os.environ.get("ENVBUILD_TRACE_VALUES"):
        for place, values in enumerate(tensors.values()):
            writer.frame(b"V", VALUED.pack(0, step, place), values.tobytes())
    digests = [int.from_bytes(hashlib.sha256(v.tobytes()).digest()[:8], "little") for v in tensors.values()]
    writer.frame(b"S", *step_body(group=0, step=step, covers=1, epoch=(step - 1) // 20 + 1, place=(step - 1) % 20 + 1,
                                  observed={}, batch=None, digests=digests, figures=None))
writer.frame(b"E")
open("model.bin", "wb").write(b"".join(values.tobytes() for values in tensors.values()))
"""


def records(project: Project) -> list[dict[str, object]]:
    """All records, newest first."""
    return list(project.must("runs", "--json").json)


def test_equal_runs_are_proved(project: Project) -> None:
    """3/3, an attestation that checks, the user's folder untouched, records of one verification; a change is stale."""
    project.write("t.py", EQUAL)
    project.write("out.txt", "mine")
    before = {path.name for path in project.folder.iterdir()}
    done = project.must("verify", "t.py", "-n", "a b")
    assert "result    bit-identical 3/3: 1 file\n" in done.out
    assert done.out.endswith("wrote     pylock.clitest.verified.json\n")
    assert (project.folder / "out.txt").read_text() == "mine"
    assert {path.name for path in project.folder.iterdir()} - before == {".envbuild", "pylock.clitest.verified.json"}
    assert not (project.folder / ".envbuild/verify").exists()
    found = records(project)
    assert len({record["options"]["verification"] for record in found}) == 1  # type: ignore[index]
    statement = json.loads((project.folder / "pylock.clitest.verified.json").read_bytes())
    assert sorted(statement["predicate"]["ids"]) == sorted(str(record["id"]) for record in found)
    assert statement["predicate"]["command"] == ["python", "t.py", "-n", "a b"]
    assert project.must("verify", "--check").out.startswith("verified  bit-identical 3/3 on ")
    project.write("t.py", EQUAL + "\n")
    stale = project("verify", "--check")
    assert (stale.code, "  code: t.py has changed\n" in stale.err) == (11, True)


BY_PROCESS = """\
import os, random
from multiprocessing import get_context
def draw(shard):
    print("loss", random.Random(os.getpid()).random())
if __name__ == "__main__":
    worker = get_context("fork").Process(target=draw, args=(0,))
    worker.start()
    worker.join()
"""


def test_seeds_that_are_process_ids_are_found(project: Project) -> None:
    """In a container of its own a worker has the same id each time, so that equal runs would be luck."""
    project.write("t.py", BY_PROCESS)
    done = project("verify", "--json", "--no-diagnose", "-n", "2", "t.py")
    assert done.code == 16, done
    assert "process ids" in done.json["varied"]


BY_OTHERS = """\
import subprocess
print("lines", subprocess.run(["cat", "data/words.txt"], capture_output=True, text=True).stdout.count("a"))
"""


def test_data_that_another_program_read_belongs_to_the_proof(project: Project) -> None:
    """What no ``open`` of Python shows, as of ``cat``: the copy's times of access do. What nobody read is none."""
    for name in ("words.txt", "other.txt"):
        project.write(f"data/{name}", "a\nb\n")
    project.write("t.py", BY_OTHERS)
    project.must("verify", "-n", "2", "t.py")
    statement = json.loads((project.folder / "pylock.clitest.verified.json").read_bytes())
    assert [*statement["predicate"]["data"]] == ["data/words.txt"]
    project.write("data/other.txt", "c\n")
    project.must("verify", "--check")
    project.write("data/words.txt", "b\na\n")
    stale = project("verify", "--check")
    assert (stale.code, "  data: data/words.txt has changed\n" in stale.err) == (11, True)


OUTSIDE = """\
import os, sys
os.makedirs("/tmp/results")
for path in ("/tmp/results/w.bin", "/var/tmp/w.bin", "/dev/shm/w.bin", os.path.expanduser("~/w.bin"), "/results/w.bin"):
    open(path, "wb").write(os.urandom(32) if path.startswith(sys.argv[1]) else bytes(32))
if sys.argv[2:]:
    os._exit(0)
"""
HANG = """\
import multiprocessing, threading
def stuck():
    threading.Event().wait()
if __name__ == "__main__":
    child = multiprocessing.Process(target=stuck)
    child.start()
    child.join()
"""


def test_results_outside_the_project_count(project: Project, tmp_path: Path) -> None:
    """In the container, in memory, in a mounted folder: one that differs is named; a path that is asked for is kept."""
    project.write("t.py", OUTSIDE)
    mount = ("--mount", f"{tmp_path}:/results", "-n", "2", "--no-diagnose")
    done = project.must("verify", *mount, "--output", "/tmp/results", "t.py", "none")
    assert "result    bit-identical 2/2: 5 files outside the project\n" in done.out
    kept = project.folder / ".envbuild/runs" / str(records(project)[0]["id"]) / "outside/tmp/results/w.bin"
    assert kept.read_bytes() == bytes(32)
    for place in ("/tmp/results", "/dev/shm", "/results"):
        found = rows(project("verify", *mount, "t.py", place))
        assert found["differs"] == f"outside the project: {place}/w.bin"
    found = rows(project("verify", *mount, "t.py", "/dev/shm", "at once"))
    assert found["differs"] == "outside the project: /dev/shm/w.bin", "a program that ends by os._exit is looked at too"


LOGGED = """\
import gzip, json, logging, os, sys, tempfile, time, zipfile
start = time.perf_counter()
dated = time.strftime("/results/run-%Y%m%d-%H%M%S_") + f"{time.time_ns() // 1000 % 10**6:06d}"
for number, folder in enumerate((sys.argv[1], tempfile.mkdtemp(), dated)):
    os.makedirs(folder, exist_ok=True)
    logging.basicConfig(filename=folder + "/train.log", format="%(asctime)s %(message)s", level="INFO", force=True)
    loss = 0.25 + (time.time_ns() % 10**6 / 1e9 if sys.argv[2:] == [str(number)] else 0)
    logging.info("epoch 1 loss %.9f", loss)
    json.dump({"loss": 0.25, "elapsed": time.perf_counter() - start}, open(folder + "/metrics.json", "w"))
    gzip.open(folder + "/predictions.csv.gz", "wt").write("a,b\\n1,2\\n")
    zipfile.ZipFile(folder + "/all.zip", "w").writestr("a.txt", "a")
time.sleep(1.1)  # so that the next run writes another second into its archives
"""


def test_results_outside_the_project_are_compared_by_what_they_hold(project: Project, tmp_path: Path) -> None:
    """Logs with times, archives, folders named for the run, in the container and in a mount; a loss in a log counts."""
    project.write("t.py", LOGGED)
    results = [tmp_path / str(number) for number in range(4)]
    for each in results:
        each.mkdir()
    mounts = [
        ("--mount", f"{each}:/results", "-n", "2", "--no-diagnose", "t.py", "/tmp/experiment") for each in results
    ]
    done = project.must("verify", *mounts[3])
    assert "result    bit-identical 2/2: 12 files outside the project" in done.out
    assert "/results/run-⟨date⟩/predictions.csv.gz (the format keeps the time of writing)" in done.out
    for number, place in enumerate(("/tmp/experiment", "/tmp/tmp", "/results/run-")):
        found = rows(project("verify", *mounts[number], str(number)))
        assert found["differs"].startswith(f"outside the project: {place}")
        assert found["differs"].count("train.log") == 1
        assert "epoch 1 loss 0.25" in found["differs"]
        (log,) = (project.folder / found["files"]).glob(f"{place[1:]}*/train.log")
        assert found["files"].endswith("/outside")
        assert "epoch 1 loss 0.25" in log.read_text()


def test_what_follows_the_clock_outside_the_project_is_no_difference(project: Project) -> None:
    """Without a name or a format that is known: experiments look at what a program leaves in its container as well."""
    project.write("t.py", f'import os\nos.mkdir("/tmp/run")\nos.chdir("/tmp/run")\n{MEASURED}')
    project.must("verify", "-n", "2", "t.py")
    proof = json.loads((project.folder / "pylock.clitest.verified.json").read_bytes())["predicate"]
    found = {(each["path"], each["kind"]) for each in proof["measured"]}
    assert {("/tmp/run/notes.json", "duration"), ("/tmp/run/state.bin", "date")} <= found


def test_a_run_that_hangs_is_ended(project: Project) -> None:
    """After the time that was given; its stacks and those of its children are shown."""
    project.write("t.py", HANG)
    for limit in (3, 15, 60, 240):  # a busy machine may end the program before its child has started
        done = project("verify", "--timeout", f"{limit}s", "-n", "2", "t.py")
        assert done.code == 143
        assert f"was ended after {limit} s, its time limit (--timeout)" in done.err
        if " in stuck\n" in done.err:
            break
    assert " in stuck\n" in done.err  # one process after the other: their lines do not mix
    assert 't.py", line 7 in <module>\n' in done.err
    assert done.err.count("(most recent call first):\n") == 2


@pytest.mark.parametrize(
    ("script", "differs", "cause"),
    [
        (
            ENTROPY,
            "out.txt",
            "os.urandom() is reached by no seed; proven: runs are equal when the system's entropy is fixed  (t.py:2)",
        ),
        (
            WORKER,
            "out.txt",
            "random.seed() without a seed seeds the generator from the system's entropy  (t.py:4)",
        ),
        (
            RACE,
            "order.txt",
            "threading.Thread() runs concurrently with the others: who comes first varies; proven: runs are equal when "
            "tasks are done one after another; runs part at t.py:9, by what t.py:5 changes  (t.py:9, t.py:5, t.py:6, "
            "t.py:7)",
        ),
    ],
    ids=["entropy", "one worker's seed", "race"],
)
def test_planted_differences_are_named(project: Project, script: str, differs: str, cause: str) -> None:
    """Entropy, a worker that seeds itself and a race: exit 16, the file, the line, and what to do."""
    project.write("t.py", script)
    found = rows(project("verify", "t.py"))
    assert found["differs"].partition(" (")[0] == differs
    assert found["likely cause"].startswith(cause.partition("  (")[0])
    assert found["likely cause"].endswith(cause.partition("  ")[2])
    assert found["try"]
    kept = project.folder / found["files"] / differs
    assert kept.read_bytes()
    assert not (project.folder / "pylock.clitest.verified.json").exists()


WORKERS = """\
import json, multiprocessing, os, time
def fold(k):
    time.sleep(0.01 * (time.monotonic_ns() % 3))
    return k, os.getpid(), sum(i * k for i in range(1000)) + WRONG
if __name__ == "__main__":
    with multiprocessing.Pool(3) as pool:
        rows = pool.map(fold, range(12), chunksize=1)
    for k, process, score in rows:
        print(f"[worker {process}] fold {k} score {score}")
    json.dump([{"fold": k, "by": process, "score": score} for k, process, score in rows], open("folds.json", "w"))
"""


def test_which_worker_did_what_is_no_difference(project: Project) -> None:
    """Numbers of processes, in lines and in files, follow the numbers that an experiment gives; sums of them do not."""
    project.write("t.py", WORKERS.replace("WRONG", "0"))
    done = project.must("verify", "t.py")
    assert "result    bit-identical 3/3: 1 file, 12 lines of standard output" in done.out
    found = json.loads((project.folder / "pylock.clitest.verified.json").read_bytes())["predicate"]["measured"]
    assert {(each["path"], each["kind"]) for each in found} == {("folds.json", "process"), ("stdout", "process")}
    project.write("t.py", WORKERS.replace("WRONG", "os.getpid() % 4"))
    found = rows(project("verify", "t.py"))
    assert found["likely cause"].startswith("os.getpid() is another number in each run")


def test_the_first_step_that_differs_is_named(project: Project) -> None:
    """From the step traces: epoch, step, tensor, both values and how far apart; all of it as JSON too."""
    project.write("t.py", TRACED)
    done = project("verify", "--json", "-n", "2", "t.py")
    assert done.code == 16, done.err
    first = done.json["first"]
    assert (first["epoch"], first["place"], first["step"], first["tensor"]) == (2, 17, 37, "dense/kernel")
    assert (first["count"], first["size"], 1 <= first["ulps"] < 1 << 24) == (1, 8, True)
    assert first["before"] != first["after"]
    assert done.json["causes"][0]["where"] == "t.py:16"
    assert done.json["differs"] == ["model.bin", "the parameters in training"]


def test_a_proof_that_is_refuted_goes(project: Project) -> None:
    """Where runs of the same program differ later, the attestation is taken away and that is reported."""
    project.write("t.py", "import os\nopen('o', 'w').write(os.urandom(4).hex() if os.path.exists('flag') else '')\n")
    project.must("verify", "-n", "2", "t.py")
    project.write("flag", "")
    done = project("verify", "-n", "2", "t.py")
    assert rows(done)["note"] == "pylock.clitest.verified.json was taken away: it is not true any more"
    assert not (project.folder / "pylock.clitest.verified.json").exists()


def test_what_an_earlier_run_left_and_the_program_does_not_replace_is_named(project: Project) -> None:
    """Each run of verify finds a copy of it and fails, and nothing is wrong with the program."""
    project.write("t.py", "open('made.txt', 'x').close()\n")
    project.must("run", "t.py")
    done = project("verify", "--jobs", "1", "-n", "2", "t.py")
    assert done.code == 1
    assert "of the same command wrote made.txt, and each run finds a copy: remove it, then verify again" in done.err
    (project.folder / "made.txt").unlink()
    project.must("verify", "--jobs", "1", "-n", "2", "t.py")


def test_failures_are_reported(project: Project) -> None:
    """A program that fails is not compared: its own exit code and last words; a refusal by the guard is exit 78."""
    project.write("t.py", "import sys\nprint('bad luck', file=sys.stderr)\nsys.exit(7)\n")
    done = project("verify", "--jobs", "1", "t.py")
    assert done.code == 7
    assert done.err.startswith("envbuild: the program failed with exit 7; there is nothing to compare\n")
    assert "  bad luck\n" in done.err
    assert len(records(project)) == 1
    done = project("verify", "--jobs", "1", "-e", "PYTHONHASHSEED=1", "t.py")
    assert done.code == 78
    assert "the guard refused to start the program" in done.err
    assert "environment.PYTHONHASHSEED" in done.err
    project.write("t.py", "import os, sys\nsys.exit('again' if os.path.exists('n') else open('n', 'w').close())\n")
    found = rows(project("verify", "--in-place", "-n", "2", "t.py"))
    assert found["differs"] == "exit 0 in one run, exit 1 in another; n; standard error"
    assert found["note"] == "run 2 ended with: again"


def test_in_place_runs_find_each_other(project: Project) -> None:
    """Without copies a run finds what the one before left, and that is named as the likely cause."""
    project.write(
        "t.py", "import pathlib\np = pathlib.Path('n')\np.write_text(p.read_text() + '1' if p.exists() else '1')\n"
    )
    found = rows(project("verify", "--in-place", "-n", "2", "t.py"))
    assert found["likely cause"].startswith("the runs shared one folder")
    assert (project.folder / "n").read_text() == "11"
    (project.folder / "n").unlink()
    project.must("verify", "-n", "2", "t.py")


def test_what_switches_cost(project: Project) -> None:
    """Each way to run has a time and an outcome; without controls the runs differ; the copies are gone afterwards."""
    project.write("t.py", EQUAL)
    done = project.must("verify", "--cost", "-n", "2", "--json", "t.py")
    arms = {arm["name"]: arm for arm in done.json["arms"]}
    assert set(arms) == {"all on", "none (--no-controls)", "without thread counts"}
    assert [len(arm["seconds"]) for arm in arms.values()] == [2, 2, 2]
    assert (arms["all on"]["results"], arms["none (--no-controls)"]["results"]) == (1, 2)
    assert arms["without thread counts"]["without"] == ["OMP_NUM_THREADS", "OMP_DYNAMIC"]
    left_out = [record for record in records(project) if record["options"]["without"]]  # type: ignore[index]
    assert len(left_out) in (2, 4)  # an arm that looks quicker, here by chance, is measured twice
    assert not (project.folder / ".envbuild/verify").exists()


def test_a_run_goes_without_a_variable(project: Project) -> None:
    """What is left out is gone from the program's environment, and the guard still compares everything else."""
    project.write("t.py", "import os\nopen('o', 'w').write(str(os.environ.get('OMP_NUM_THREADS')))\n")
    from envbuild.lockfile import model as locks
    from envbuild.operations.engines import connect
    from envbuild.runs.execute import run
    from envbuild.runs.request import RunRequest

    path = project.folder / "pylock.clitest.toml"
    identity = json.loads((project.folder / "pylock.clitest.image.json").read_bytes())
    request = RunRequest(
        lock_path=path, lock=locks.load(path), image=identity["reference"], config=identity["config"],
        arguments=("t.py",), directory=project.folder, tty=False, without=("OMP_NUM_THREADS",),
    )  # fmt: skip
    record = run(request, connect(Store(project.store)))
    assert (project.folder / "o").read_text() == "None"
    assert (record.exit_code, record.verified, record.options.without) == (0, "yes", ("OMP_NUM_THREADS",))
    assert record.processes[0].environment_changed == {}


def test_an_interrupt_ends_the_containers_and_leaves_no_copy(project: Project) -> None:
    """Ctrl-C: the programs are signalled, no container and no copy stay, and the exit code is that of an interrupt."""
    project.write("t.py", "import time\nopen('/run/envbuild/up', 'w').close()\ntime.sleep(600)\n")
    process = project.start("verify", "t.py")
    deadline = time.monotonic() + 300
    at_once = min(2, len(os.sched_getaffinity(0)))
    while len(list((project.folder / ".envbuild").glob("runs/*/process/up"))) < at_once:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    done = finish(process, timeout=300)
    assert done.code == 130, done.err
    deadline = time.monotonic() + 300  # after a second the command ends, whatever is left is removed behind it
    while (project.folder / ".envbuild/verify").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    for folder in (project.folder / ".envbuild/runs").iterdir():
        labelled = ["docker", "ps", "-aq", "--filter", f"label=envbuild.run={folder.name}"]
        while subprocess.run(labelled, check=True, capture_output=True, text=True).stdout:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_it_is_signed(project: Project, tmp_path: Path) -> None:
    """``--sign`` leaves a detached signature that ``ssh-keygen`` itself takes for good."""
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "me", "-f", key], check=True)
    project.write("t.py", EQUAL)
    done = project.must("verify", "-n", "2", "--sign", str(key), "t.py")
    assert "signed: pylock.clitest.verified.json.sig" in done.out
    allowed = project.write("signers", f"me {Path(f'{key}.pub').read_text()}")
    command = ["ssh-keygen", "-Y", "verify", "-f", allowed, "-I", "me", "-n", "envbuild", "-s"]
    data = (project.folder / "pylock.clitest.verified.json").read_bytes()
    signature = project.folder / "pylock.clitest.verified.json.sig"
    assert subprocess.run([*command, signature], input=data, capture_output=True, check=False).returncode == 0
    assert "signed    Good" in project.must("verify", "--check", "--signers", "signers").out


def test_the_checker_is_checked(project: Project) -> None:
    """A bit in each channel is seen, and nothing else; no proof and no record stays."""
    done = project.must("verify", "--self-test", "--json")
    assert {each["name"]: each["seen"] for each in done.json["channels"]} == dict.fromkeys(CHANNELS, True)
    assert records(project) == []
    assert not (project.folder / "pylock.clitest.verified.json").exists()


def test_an_order_of_listings_is_found(project: Project) -> None:
    """A sum over an unsorted listing differs between runs; the line is proven to be the cause."""
    project.write("t.py", UNSORTED)
    done = project("verify", "--json", "t.py")
    assert done.code == 16, done.err
    first = done.json["causes"][0]
    assert first["where"] == "t.py:6"
    assert "glob.glob() lists shards" in first["what"]
    assert "proven: runs are equal when folders are listed in the same order" in first["what"]
    project.write("t.py", UNSORTED.replace("glob.glob('shards/*')", "sorted(glob.glob('shards/*'))"))
    proof = project.must("verify", "--json", "t.py").json
    assert proof["varied"][0] == "order of directory listings"


def test_a_number_that_no_clock_decides_is_not_to_be_ignored(project: Project) -> None:
    """It looks like a measurement, but its cause is proven, and it is another one: no note says how to leave it out."""
    head = "import glob, os\nos.makedirs('d')\nfor n in range(12):\n    open(f'd/{n}', 'w').write(str(n))\n"
    project.write("t.py", f"{head}print(*(open(path).read() for path in glob.glob('d/*')), sep='')\n")
    done = project("verify", "t.py")
    assert done.code == 16, done.out + done.err
    assert "glob.glob() lists d in the order of the file system" in done.out
    assert "--ignore" not in done.out


def test_memory_that_nothing_wrote_is_found_by_strict_runs(project: Project) -> None:
    """What is fresh from the kernel holds zeros, so that runs are equal by luck; strict ones fill it."""
    project.write(
        "t.py",
        "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.malloc.restype = ctypes.c_void_p\n"
        "print(sum(ctypes.string_at(libc.malloc(4_000_000), 4_000_000)))\n",
    )
    assert project.must("verify", "--json", "t.py").json["identical"] is True
    done = project("verify", "--strict", "--json", "t.py")
    assert done.code == 16, done.err
    assert "reads memory that nothing wrote; proven: runs are equal when" in done.json["causes"][0]["what"]


def test_a_cause_is_proven(project: Project) -> None:
    """The clock decides; fixing it makes runs equal."""
    project.write(
        "t.py",
        "import time\nbegin = time.monotonic()\ntime.sleep(0.01)\n"
        "open('w', 'w').write(repr(0.5 ** (time.monotonic() - begin)))\n",
    )
    first = project("verify", "--json", "-n", "2", "t.py").json["causes"][0]
    assert first["what"].startswith("time.monotonic()")
    assert "proven: runs are equal when the clock is fixed" in first["what"]
