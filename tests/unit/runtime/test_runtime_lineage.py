"""Which process this is, and its seed."""

from __future__ import annotations

import hashlib
import sys
import types

import pytest

from envbuild.runtime.hook import lineage


def test_main_process_has_the_root_seed() -> None:
    """The seed of the spec is the seed a script would have set itself."""
    assert lineage.derive(42, "") == 42


def test_derivation_is_as_documented() -> None:
    """Others get the first 32 bits of SHA-256 over root, path and inherited draw."""
    assert lineage.derive(42, "rank 1") == int(hashlib.sha256(b"42/rank 1").hexdigest()[:8], 16)
    assert lineage.derive(42, "fork 1", "7") == int(hashlib.sha256(b"42/fork 1/7").hexdigest()[:8], 16)
    assert lineage.derive(42, "", "7") == int(hashlib.sha256(b"42/7").hexdigest()[:8], 16)


@pytest.mark.parametrize("name", lineage.RANKS)
def test_ranks(name: str) -> None:
    """Every launcher's variable counts; rank 0 is the main process."""
    assert lineage.place({name: "3"}, 7, ["python"]) == "rank 3"
    assert lineage.place({name: "0"}, 7, ["python"]) == ""
    assert lineage.place({name: "x"}, 7, ["python"]) == ""


@pytest.mark.parametrize(
    ("task", "place"),
    [('{"type": "worker", "index": 1}', "rank 2"), ('{"type": "chief", "index": 0}', ""), ("7", ""), ("", "")],
)
def test_tensorflow_cluster(task: str, place: str) -> None:
    """TF_CONFIG gives a rank where no launcher does; nonsense in it gives none."""
    assert lineage.place({"TF_CONFIG": f'{{"task": {task}}}'}, 7, ["python"]) == place


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({"LOCAL_RANK": "2"}, "rank 2"),
        ({"LOCAL_RANK": "2", "NODE_RANK": "0"}, "rank 2"),
        ({"LOCAL_RANK": "0", "NODE_RANK": "1"}, "rank 1.0"),
        ({"LOCAL_RANK": "0", "NODE_RANK": "0"}, ""),
        ({"LOCAL_RANK": "2", "NODE_RANK": "1", "RANK": "6"}, "rank 6"),
        ({"NODE_RANK": "1"}, ""),
        ({"LOCAL_RANK": "x", "NODE_RANK": "1"}, ""),
    ],
)
def test_local_ranks(variables: dict[str, str], place: str) -> None:
    """Where a launcher gives a process its number on the node only, the node's number distinguishes nodes."""
    assert lineage.place(variables, 7, ["python"]) == place


def child(parent: str, started: str, *arguments: str) -> str:
    """The place of a child that a process at ``parent`` has started."""
    return lineage.place({lineage.VARIABLE: lineage.announce({}, 7, parent, started)}, 8, arguments)


def test_children() -> None:
    """A program that a Python starts is distinguished by its name and by the order of starts, not by its arguments."""
    counts: dict[str, int] = {}
    commands = [["python", "worker.py", "1"], ["/other/python", "-u", "lib/worker.py", "/tmp/x"], ["python", "b.py"]]
    started = [lineage.started(counts, command, ordered=True) for command in commands]
    assert started == ["worker.py.1", "worker.py.2", "b.py.1"]
    assert child("", started[1], *commands[1]) == "exec worker.py.2"
    assert child("rank 1", started[2], *commands[2]) == "rank 1/exec b.py.1"
    assert lineage.place({lineage.VARIABLE: lineage.announce({}, 7, "")}, 7, ["python", "-m", "again"]) == ""


def test_children_of_threads() -> None:
    """Threads may start programs in any order: the arguments distinguish those, without their volatile parts."""
    counts: dict[str, int] = {}
    command = ["python", "-m", "kernel", "-f", "/run/kernel-0e1f87c2-93d1-4f0e-a2b7-8d5c2f3b9a10.json", "--index=1"]
    (one, two, three, four) = (
        lineage.started(counts, command if change is None else [*command[:-1], change], ordered=False)
        for change in (None, "--index=2", None, "--index=1")
    )
    assert one.startswith("kernel ")
    assert one != two
    assert one.rpartition(".")[0] == three.rpartition(".")[0] == four.rpartition(".")[0]
    assert child("", one, *command) == f"exec {one}"


def test_children_of_other_programs() -> None:
    """A Python that a shell started has the shell's place, its name and the digest of its arguments."""
    started = lineage.started({}, ["/bin/sh", "-c", "python a.py 1; python a.py 2"], ordered=True)
    one, two = (child("", started, "python", "a.py", number) for number in "12")
    assert one.startswith(f"exec {started}/a.py ")
    assert one != two
    assert child("", "", "python", "a.py", "1").startswith("exec a.py ")


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python train.py --epochs 3", "train.py"),
        ("/usr/bin/python3.11 -I -W error -X dev -u src/train.py", "train.py"),
        ("python -Werror -Xdev train.py", "train.py"),
        ("python --check-hash-based-pycs never train.py", "train.py"),
        ("python -um package.train -c x", "package.train"),
        ("python -mpackage.train", "package.train"),
        ("python -", "-"),
        ("python", "python"),
        ("bash -eo pipefail run.sh 1", "run.sh"),
        ("/opt/env/bin/torchrun --standalone train.py", "torchrun"),
        ("python /tmp/tmpk3j2l1m0.py", "_.py"),
        ("python a:b/c d", "c"),
        ("", ""),
    ],
)
def test_names_of_programs(command: str, name: str) -> None:
    """The script, the module, or the program itself; options of the interpreter and their values are neither."""
    assert lineage.program(command.split()) == name.replace("_.py", "*.py")


def test_names_of_code() -> None:
    """Code on the command line is named by its digest, whatever temporary names are in it."""
    one, two, other = (
        lineage.program(["python", "-c", code])
        for code in ("open('/tmp/tmpabc_1234')", "open('/tmp/tmpxyz_5678')", "import sys")
    )
    assert one == two != other
    assert one.startswith("-c-")
    assert lineage.program(["sh", "-c", "import sys"]) == f"sh{other}"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("kernel-0e1f87c2-93d1-4f0e-a2b7-8d5c2f3b9a10.json", "kernel-*.json"),
        ("/tmp/tmpk3j2l1m0/out", "/tmp/*/out"),
        ("runs/20261122-074510", "runs/*"),
        ("2026-11-22_07:45:10", "*_*"),
        ("/tmp/ray/session_2026-11-27_01-38-10_332576_2/logs", "/tmp/ray/session_*_*_2/logs"),
        ("tcp://127.0.0.1:43127", "tcp://127.0.0.1:*"),
        ("--lr=0.001 --epochs 30 --seed 12345", "--lr=0.001 --epochs 30 --seed 12345"),
        ("deadbeef training", "deadbeef training"),
        ("0123abcdef", "*"),
    ],
)
def test_masks(text: str, masked: str) -> None:
    """What varies between runs is masked, values of a program's own are not."""
    assert lineage.mask(text) == masked


def test_launched_by_python() -> None:
    """A launcher written in Python (torchrun) gives ranks: its rank 0 has the root seed."""
    parent = {lineage.VARIABLE: lineage.announce({}, 7, "")}
    assert lineage.place({**parent, "RANK": "0"}, 8, ["python", "train.py"]) == ""
    assert lineage.place({**parent, "RANK": "1"}, 9, ["python", "train.py"]) == "rank 1"


def test_multiprocessing_children() -> None:
    """The arguments of a multiprocessing child are descriptors and do not count; its identity does."""
    parent = {lineage.VARIABLE: lineage.announce({"RANK": "1"}, 7, "rank 1"), "RANK": "1"}
    arguments = ["python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(pipe_handle=9)"]
    place = lineage.place(parent, 8, arguments)
    assert place == "rank 1/worker"
    assert not lineage.is_worker(["python", "train_multiprocessing.py"])
    assert lineage.worker(place, (2, 1)) == "rank 1/worker 2.1"
    assert lineage.worker(lineage.fork("rank 1", "4"), (2,)) == "rank 1/worker 2"
    assert lineage.worker("", (1,)) == "worker 1"


def test_children_by_number() -> None:
    """A pool's workers are counted apart; what a task or a forked child makes is below that."""
    place = lineage.worker_of("rank 1", "2", pooled=False)
    assert place == "rank 1/worker 2"
    assert lineage.worker_of(place, "1", pooled=False) == "rank 1/worker 2.1"
    assert lineage.worker_of(place, "1", pooled=True) == "rank 1/worker 2/pool worker 1"
    assert lineage.worker_of("task 3.1", "1 of threads", pooled=False) == "task 3.1/worker 1 of threads"
    assert lineage.worker_of("pool worker 1", "1", pooled=False) == "pool worker 1/worker 1"


def test_a_child_without_its_ranks_variable_is_the_ranks() -> None:
    """It would be the main process of the job; another rank is another process."""
    parent = {lineage.VARIABLE: lineage.announce({"RANK": "1"}, 7, "rank 1", "a.py.1")}
    assert lineage.place(parent, 8, ["python", "a.py"]) == "rank 1/exec a.py.1"
    assert lineage.place({**parent, "RANK": "2"}, 8, ["python", "a.py"]) == "rank 2"
    assert lineage.place({lineage.VARIABLE: lineage.UNSEEN}, 8, ["python", "a.py", "1"]).startswith("exec a.py ")


def test_pythons_by_name() -> None:
    """By the name of the program, with or without its folder."""
    assert lineage.is_python(["/opt/env/bin/python3.11"])
    assert lineage.is_python(["sh", "/usr/bin/pypy3"])
    assert not lineage.is_python(["/opt/python/bin/sh", "ipython"])


def test_path_with_colons_survives() -> None:
    """The path is the last part and may hold anything."""
    assert lineage.place({lineage.VARIABLE: "7:::a:b"}, 7, []) == "a:b"
    assert lineage.place({lineage.VARIABLE: "nonsense"}, 7, []) == ""


@pytest.mark.parametrize(
    ("current", "path"), [((2, 1), "rank 1/interpreter 2"), (2, "rank 1/interpreter 2"), (0, "rank 1")]
)
@pytest.mark.parametrize("name", ["_interpreters", "_xxsubinterpreters"])
def test_interpreters_of_one_process_have_places_of_their_own(
    name: str, current: object, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They share its number and its variables; the first one has number 0, also after ``exec``."""
    for each in ("_interpreters", "_xxsubinterpreters"):
        module = types.SimpleNamespace(get_current=lambda: current) if each == name else None
        monkeypatch.setitem(sys.modules, each, module)
    variables = {"RANK": "1", lineage.VARIABLE: "7:1::rank 1"}
    assert lineage.place(variables, 7, ["python", "train.py"]) == path
    assert lineage.is_beside(path) == (current != 0)
    assert not lineage.is_beside("rank 1/interpreter 2/exec train.py.1")


def test_a_python_without_interpreters_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither module is part of the language."""
    for each in ("_interpreters", "_xxsubinterpreters"):
        monkeypatch.setitem(sys.modules, each, None)
    assert lineage.place({lineage.VARIABLE: "7:::fork 1"}, 7, ["python"]) == "fork 1"
