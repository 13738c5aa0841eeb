"""What processes wrote, brought together for a record."""

from __future__ import annotations

from typing import Any

import msgspec

from envbuild.record.process_facts import facts
from envbuild.record.processes import Parameter, ParameterSet, ProcessRecord, ReadFile, effective

SHA, OTHER = "a" * 64, "b" * 64


def a_set(program: str = "train.py", **values: Any) -> dict[str, Any]:
    """What a parser gave, as a process file has it."""
    table = {name: {"value": value, "source": "default"} for name, value in values.items()}
    return {"parser": "argparse", "program": program, "values": table}


def a_file(path: str, sha256: str | None = SHA) -> dict[str, Any]:
    return {"path": path, "size": 1, "sha256": sha256}


def test_nothing_gives_nothing() -> None:
    """A run whose program was not Python has empty fields."""
    empty = ("processes", "parameters", "configs", "modules", "reads", "objects")
    assert facts([]) == dict.fromkeys(empty, ()) | {"processes_left_out": 0}


def test_files_are_named_from_the_project_and_reported_once() -> None:
    """Workers read what the main process read; a file that changed between them is there with both digests."""
    main = {"pid": 9, "path": "", "modules": [a_file("/workspace/train.py")], "configs": [a_file("/tmp/x.json")]}
    worker = {"pid": 5, "path": "worker 1", "modules": [a_file("/workspace/train.py"), a_file("/workspace/a.py")]}
    late = {"pid": 6, "path": "worker 2", "modules": [a_file("/workspace/a.py", OTHER)]}
    found = facts([late, worker, main])
    assert [(file.path, file.sha256) for file in found["modules"]] == [
        ("train.py", SHA),
        ("a.py", SHA),
        ("a.py", OTHER),
    ]
    assert found["configs"] == (ReadFile(path="/tmp/x.json", size=1, sha256=SHA),)
    assert [process.pid for process in found["processes"]] == [9, 5, 6]
    assert found["processes"][0] == ProcessRecord(pid=9)


def test_inputs_and_modules_are_no_configuration() -> None:
    """A declared input is digested as such; a module that another process opened as text is a module."""
    configs = [a_file(f"/workspace/{name}") for name in ("data/labels.json", "database.json", "a.py", "c.yaml")]
    found = facts([{"configs": configs, "modules": [a_file("/workspace/a.py")]}], ["data", "more/"])
    assert [file.path for file in found["configs"]] == ["database.json", "c.yaml"]


def test_data_that_was_read() -> None:
    """Each file once, by a digest of the host's; not what is declared, configuration, elsewhere or damaged."""

    def read(name: str) -> dict[str, Any]:
        return {"path": name, "size": 3, "mtime_ns": 5}

    names = ("params.txt", "data/a.bin", "c.yaml", "more/x.bin")
    main = {
        "path": "",
        "configs": [a_file("/workspace/c.yaml")],
        "reads": [*(read(f"/workspace/{name}") for name in names), read("/tmp/x"), {"path": "a"}, None],
        "reads_left_out": 2,
    }
    asked = []

    def digest(path: str, size: int, mtime_ns: int) -> str | None:
        asked.append((path, size, mtime_ns))
        return SHA if path == "params.txt" else None

    found = facts([main, {"path": "worker 1", "reads": [read("/workspace/params.txt")]}], ["more"], digest)
    assert found["reads"] == (
        ReadFile(path="params.txt", size=3, sha256=SHA),
        ReadFile(path="data/a.bin", size=3, sha256=None),
    )
    assert asked == [("params.txt", 3, 5), ("data/a.bin", 3, 5)]
    assert found["processes"] == (ProcessRecord(), ProcessRecord(path="worker 1"))


def test_objects() -> None:
    """Loaded objects of all processes, those without a digest too."""
    objects = {"locked": 7, "others": [a_file("/tmp/x.so"), a_file("/tmp/gone.so (deleted)", None)]}
    found = facts([{"objects": objects}, {"objects": objects}])
    assert [(file.path, file.sha256) for file in found["objects"]] == [
        ("/tmp/x.so", SHA),
        ("/tmp/gone.so (deleted)", None),
    ]


def test_ranks_with_equal_parameters_are_reported_once() -> None:
    """A launcher's parameters come first; of the ranks only those that were given something else."""
    processes = [
        {"pid": 3, "path": "rank 1", "parameters": [a_set(lr=0.1)]},
        {"pid": 4, "path": "rank 2", "parameters": [a_set(lr=0.2)]},
        {"pid": 2, "path": "", "parameters": [a_set(lr=0.1)]},
        {"pid": 1, "path": "", "parameters": [a_set("torchrun", nodes=1)]},
    ]
    found = facts(processes)["parameters"]
    assert [(each.program, each.process) for each in found] == [
        ("torchrun", ""),
        ("train.py", ""),
        ("train.py", "rank 2"),
    ]


def test_one_value_for_each_name() -> None:
    """The last parser of the main process decides; another process's value shows if it differs."""

    def of(process: str, **values: Any) -> ParameterSet:
        table = {name: Parameter(value=value, source="default") for name, value in values.items()}
        return ParameterSet(parser="argparse", program="p", process=process, values=table)

    found = effective([of("", lr=1, seed=2), of("rank 1", lr=1, seed=3, own=5), of("", lr=4)])
    assert {name: each.value for name, each in found.items()} == {
        "lr": 4, "seed": 2, "rank 1: lr": 1, "rank 1: seed": 3, "own": 5
    }  # fmt: skip


def test_damaged_files_are_passed_over() -> None:
    """A program can write into the folder too: what does not fit is left out, the rest stays."""
    damaged = {
        "pid": "x",
        "path": 3,
        "parameters": [a_set(lr=1), {"parser": 3}, "x", {"values": {}}],
        "modules": {"path": "a"},
        "configs": [None, {"path": "a"}, a_file("c.yaml"), a_file("d.yaml", "no digest")],
        "objects": ["x"],
    }
    found = facts([damaged, {}])
    assert found["processes"] == (ProcessRecord(),)
    assert [each.program for each in found["parameters"]] == ["train.py"]
    assert [file.path for file in found["configs"]] == ["c.yaml"]
    assert (found["modules"], found["objects"]) == ((), ())


def test_everything_can_be_encoded() -> None:
    """Arguments that are no UTF-8 come as halves of surrogate pairs, which would keep the record from being written."""
    found = facts([{"arguments": ["a\udcff"], "\udcff": 1, "parameters": [a_set(x="ü\udc80")]}])
    assert b"a\\\\udcff" in msgspec.json.encode(found)
    assert found["parameters"][0].values["x"].value == "ü\\udc80"
