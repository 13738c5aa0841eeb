"""Which process this is, and its seed."""

from __future__ import annotations

import hashlib

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
    """Where a launcher tells a process its number on the node only, the node's number tells nodes apart."""
    assert lineage.place(variables, 7, ["python"]) == place


def test_children() -> None:
    """A child of a Python of the run is told apart by its arguments, a re-exec is the same process."""
    parent = {lineage.VARIABLE: lineage.announce({}, 7, "")}
    one = lineage.place(parent, 8, ["python", "worker.py", "1"])
    assert one.startswith("exec ")
    assert one == lineage.place(parent, 9, ["/other/python", "worker.py", "1"])
    assert one != lineage.place(parent, 8, ["python", "worker.py", "2"])
    assert lineage.place(parent, 7, ["python", "-m", "again"]) == ""


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
    assert lineage.worker(place, (2, 1)) == "rank 1/worker 2.1"
    assert lineage.worker(lineage.fork("rank 1", 4), (2,)) == "rank 1/worker 2"
    assert lineage.worker("", (1,)) == "worker 1"


def test_path_with_colons_survives() -> None:
    """The path is the last part and may hold anything."""
    assert lineage.place({lineage.VARIABLE: "7::a:b"}, 7, []) == "a:b"
    assert lineage.place({lineage.VARIABLE: "nonsense"}, 7, []) == ""
