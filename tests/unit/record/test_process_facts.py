"""Process files of any size, damaged on purpose: the record is written all the same, in bounded memory."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from envbuild.core.digest import sha256_bytes
from envbuild.record import model as records
from envbuild.record.process_facts import ProcessFacts
from envbuild.record.processes import json_table
from envbuild.runs.observations import FileDigests, observations
from tests.support.records import record

ROOT = Path(__file__).parents[3]
MIB = 1 << 20


def a_process(number: int, *names: str) -> dict[str, object]:
    """One process that has loaded modules."""
    modules = [{"path": name, "size": 1, "sha256": sha256_bytes(name.encode())} for name in names]
    return {"pid": number, "path": f"worker {number:02}", "modules": modules}


@pytest.mark.parametrize("depth", [101, 600, 5_000, 200_000])
def test_nested_too_deeply_is_left_out(tmp_path: Path, depth: int) -> None:
    """As deep as a parser can follow, or deeper: the process is missing and counted, the others are there."""
    (tmp_path / "process-1.json").write_bytes(b'{"pid": 1, "x": ' + b"[" * depth + b"]" * depth + b"}")
    (tmp_path / "process-2.json").write_bytes(b'{"pid": 2}')
    found = observations(tmp_path, (), FileDigests(tmp_path))
    assert [each.pid for each in found["processes"]] == [2]
    assert found["processes_left_out"] == 1
    assert records.loads(records.dumps(record(**found))).processes_left_out == 1


def test_what_has_no_room_is_left_out() -> None:
    """Lists that processes share take room once; a process too many is counted."""
    names = [f"m{number}.py" for number in range(100)]
    merged = ProcessFacts(room=200_000)
    for number in range(50):
        merged.add(a_process(number, *names))
    merged.add(a_process(50, *(f"other{number}.py" for number in range(1000))))
    merged.add(a_process(51, "one.py"))
    found = merged.result((), lambda path, size, mtime_ns: None)
    assert [each.pid for each in found["processes"]] == [*range(50), 51]
    assert [file.path for file in found["modules"]] == [*names, "one.py"]
    assert merged.left_out == 1


def test_paths_that_no_file_has_are_left_out() -> None:
    """Longer than Linux takes them."""
    merged = ProcessFacts()
    merged.add(a_process(1, "a" * 4096, "b/" * 5000))
    assert [len(file.path) for file in merged.result((), lambda path, size, mtime_ns: None)["modules"]] == [4096]


def test_numbers_that_nothing_can_encode() -> None:
    """Whatever JSON can hold, the record can be written."""
    text = """{"pid": HUGE, "seed": HUGE, "modules": [{"path": "a", "size": HUGE, "sha256": null}], "parameters":
        [{"parser": "p", "program": "q", "values": {"x": {"value": [NaN, HUGE, 1e999], "source": "s"}}}]}"""
    merged = ProcessFacts()
    merged.add(json_table(text.replace("HUGE", "1" + "0" * 40).encode()))
    assert records.dumps(record(**merged.result((), lambda path, size, mtime_ns: None)))


@pytest.mark.subprocess
def test_all_files_together_take_less_than_512_mb(tmp_path: Path) -> None:
    """Many values, wide characters, many files: 48 MiB of each kind, read and put into a record."""
    emoji, entry = b"\\ud83d\\ude00", b'{"path": "%d-%d", "size": 1, "sha256": null},'
    for number in range(6):
        lists = b'{"parameters": [' + b"[]," * (8 * MIB // 3 - 10) + b"0]}"
        wide = b'{"arguments": ["' + emoji + b"x" * (8 * MIB - 100) + b'"]}'
        files = b"".join(entry % (number, each) for each in range(70_000))
        (tmp_path / f"process-1{number}.json").write_bytes(lists)
        (tmp_path / f"process-2{number}.json").write_bytes(wide)
        (tmp_path / f"process-3{number}.json").write_bytes(b'{"modules": [' + files + b"{}]}")
    program = """
import resource, sys
from pathlib import Path
from envbuild.record import model
from envbuild.runs.observations import FileDigests, observations
folder = Path(sys.argv[1])
found = observations(folder, (), FileDigests(folder))
print(found["processes_left_out"], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path], cwd=ROOT, capture_output=True, text=True, check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30)),
    )  # fmt: skip
    left_out, kibibytes = map(int, done.stdout.split())
    assert left_out >= 6
    assert kibibytes < 512_000
