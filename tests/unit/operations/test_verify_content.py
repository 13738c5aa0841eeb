"""``verify`` opens files whose bytes differ: equal content is equal and reported, results differ, hints work."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import sqlite3
import struct
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from envbuild.cli.render.verify import different, identical
from envbuild.core.tfrecord import crc32c
from envbuild.operations.diff import diff
from envbuild.operations.run_context import Side
from envbuild.operations.verification.verify import Verification
from envbuild.record import history
from tests.support.traces import make_trace
from tests.unit.operations.test_verify_channels import Container, verified
from tests.unit.verification.test_wandb import message


@pytest.fixture(autouse=True)
def _no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """Git is another process; its facts have their own test."""
    monkeypatch.setattr("envbuild.record.git.git_state", lambda project: None)


def now(found: Verification) -> str:
    """Return the day of a verification as programs write it into names."""
    return found.runs[0].record.start[:10].replace("-", "")


def test_what_a_program_cannot_measure_is_quoted(tmp_path: Path) -> None:
    """If nothing in the sources asks a clock, or for memory, names show nothing."""

    def program(run: Container, number: int) -> int:
        table = {"tokens_per_second": 1234.5 + number, "peak_memory_mb": 300 + number}
        (run.project / "summary.json").write_text(json.dumps(table))
        return 0

    (computed := tmp_path / "computed").mkdir()
    (measured := tmp_path / "measured").mkdir()
    assert verified(measured, program).verdict.undecided == ()
    assert verified(computed, program, source="import json").verdict.undecided == (
        "summary.json: tokens_per_second: 1234.5 → 1235.5",
        "summary.json: peak_memory_mb",
    )


def test_equal_content_is_identical_and_the_reason_is_named(tmp_path: Path) -> None:
    """A time in a file is left out, named in verdict and proof, and ``diff`` agrees."""

    def program(run: Container, number: int) -> int:
        table = {"train_runtime": 1.5 + number, "accuracy": 0.91}
        (run.project / "summary.json").write_text(json.dumps(table))
        return 0

    found = verified(tmp_path, program)
    assert identical(found.verdict) == (
        "bit-identical 2/2: 1 file",
        "same content, other bytes: summary.json (train_runtime differs)",
    )
    assert found.verdict.masked == ("summary.json: train_runtime",)
    assert found.attestation is not None
    (result,) = json.loads(found.attestation.read_text())["predicate"]["outputs"]
    assert (result["path"], "sha256" in result, len(result["content"])) == ("summary.json", False, 64)
    one, other = (Side(record=history.find_run(tmp_path, run.record.id), project=tmp_path) for run in found.runs)
    assert diff(one, other).equal


def test_diff_opens_files_that_are_still_there(tmp_path: Path) -> None:
    """Runs of different results keep their files; those of equal content are no difference there."""

    def program(run: Container, number: int) -> int:
        (run.project / "log.json").write_text(json.dumps({"elapsed": 1.5 + number}))
        (run.project / "w.txt").write_text(str(number))
        return 0

    found = verified(tmp_path, program)
    assert found.verdict.differing_files == ("w.txt",)
    assert found.verdict.volatile == ("log.json",)
    one, other = (Side(record=history.find_run(tmp_path, run.record.id), project=tmp_path) for run in found.runs)
    assert "log.json" not in [each.what for each in diff(one, other).difference.results]


def test_folders_named_by_the_time_match(tmp_path: Path) -> None:
    """Equal files under names of the moment are equal, and the verdict states under which name they were compared."""
    first = verified(tmp_path, lambda run, number: 0)

    def program(run: Container, number: int) -> int:
        folder = run.project / "runs" / f"{now(first)}-10150{number}_ab12cd3{number}"
        folder.mkdir(parents=True)
        (folder / "w.txt").write_text("0.5")
        return 0

    found = verified(tmp_path, program)
    assert found.verdict.outcome == "identical"
    assert identical(found.verdict)[1] == "equal under another name: runs/⟨date⟩_⟨name⟩/w.txt"
    one, two = (Side(record=history.find_run(tmp_path, run.record.id), project=tmp_path) for run in found.runs)
    compared = diff(one, two)
    assert compared.equal
    assert len(compared.renamed) == 2, "a file and its folder"

    def other(run: Container, number: int) -> int:
        program(run, number)
        (file,) = run.project.glob("runs/*/w.txt")
        file.write_text(f"0.{number}")
        return 0

    found = verified(tmp_path, other)
    assert found.verdict.differing_files == ("runs/⟨date⟩_⟨name⟩/w.txt",)
    one, two = (Side(record=history.find_run(tmp_path, run.record.id), project=tmp_path) for run in found.runs)
    (finding,) = diff(one, two).difference.results
    assert (finding.what, "only in" in finding.sentence) == (one.record.outputs[0].path, False)


def test_three_runs_are_compared_though_copies_go(tmp_path: Path) -> None:
    """A result that was seen before is recognised in a run whose bytes are new."""

    def program(run: Container, number: int) -> int:
        text = {"elapsed": number, "loss": 0.5 if number != 2 else 0.25}
        (run.project / "m.json").write_text(json.dumps(text))
        return 0

    found = verified(tmp_path, program, count=4)
    assert found.verdict.groups == ((0, 1, 3), (2,))
    assert found.verdict.differs == ("m.json (loss: 0.5 → 0.25)",)


@pytest.mark.parametrize("damaged", [False, True])
def test_what_is_called_as_an_event_file_and_is_none_counts_by_its_bytes(tmp_path: Path, damaged: bool) -> None:
    """Files of that name are in no table of files: other bytes there were no difference at all."""

    def program(run: Container, number: int) -> int:
        event = b"\x09" + struct.pack("<d", 1_795_247_763.0 + number) + b"\x1a\x0dbrain.Event:2"
        head = struct.pack("<Q", len(event))
        data = head + struct.pack("<I", crc32c(head)) + event + struct.pack("<I", crc32c(event) ^ damaged)
        (run.project / f"events.out.tfevents.179524776{number}.envbuild").write_bytes(data)
        (run.project / "events.out.tfevents.1795247763.host").write_bytes(b"\xff\0" + bytes([number if damaged else 7]))
        return 0

    found = verified(tmp_path, program, count=3)
    assert found.verdict.outcome == ("different" if damaged else "identical")


@pytest.mark.parametrize("changed", ["", "data", "run"])
def test_the_folder_of_a_saved_dataset_has_a_name_of_chance(tmp_path: Path, changed: str) -> None:
    """``tf.data.Dataset.save`` draws it for each run, and notes it; the data count, and that it is the folder's."""

    def program(run: Container, number: int) -> int:
        name = f"1319163074468721011{number}"
        shard = run.project / "ds" / name / "00000000.shard"
        shard.mkdir(parents=True)
        (shard / "00000000.snapshot").write_bytes(b"\xff\0" + bytes([number if changed == "data" else 7]))
        noted = name if changed != "run" else f"17{number}"
        fields: list[tuple[int, int | str]] = [(2, noted), (3, time.time_ns() // 1000), (4, 2), (1000, 1)]
        (run.project / "ds" / "snapshot.metadata").write_bytes(message(*fields))
        return 0

    found = verified(tmp_path, program)
    assert found.verdict.outcome == ("different" if changed else "identical")


@pytest.mark.parametrize("changed", ["", "value", "exchanged", "missing", "further", "name"])
def test_files_of_a_cache_count_by_the_rows_that_name_them(tmp_path: Path, changed: str) -> None:
    """diskcache draws their names; each is the value of its key. A file that no row names is one as any other."""

    def program(run: Container, number: int) -> int:
        folder = run.project / "cache"
        folder.mkdir()
        other = changed if number else ""
        with sqlite3.connect(folder / "cache.db") as database:
            columns = "key, raw, store_time REAL, access_count, mode, filename TEXT, value"
            database.execute(f"CREATE TABLE Cache ({columns})")
            for key in (0, 1):
                drawn = hashlib.sha256(f"{number} {key}".encode()).hexdigest()
                name = f"{drawn[:2]}/{drawn[2:4]}/{drawn[4:32]}.val"
                if changed == "name":
                    name = f"{number}.val"
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                if (other, key) != ("missing", 1):
                    value = 1 - key if other == "exchanged" else 5 if (other, key) == ("value", 1) else key
                    (folder / name).write_bytes(bytes([0, 255, value]))
                row = (key, 1, time.time(), 0, 2, name, None)
                database.execute("INSERT INTO Cache VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        database.close()
        if other == "further":
            more = folder / "ab" / "cd" / f"{'0' * 28}.val"
            more.parent.mkdir(parents=True)
            more.write_bytes(b"\0\xff")
        return 0

    found = verified(tmp_path, program)
    assert found.verdict.outcome == ("different" if changed else "identical")


def test_equal_training_is_the_headline(tmp_path: Path) -> None:
    """Where trace and tensors agree, that comes first, and then the file that differs and what in it does."""

    def program(run: Container, number: int) -> int:
        make_trace(run.process, [{"w": [1.0]}, {"w": [2.0]}])
        (run.project / "summary.json").write_text(json.dumps({"accuracy": 0.5 + number / 4}))
        return 0

    found = verified(tmp_path, program)
    assert found.verdict.outcome == "different"
    head = different(found).splitlines()[0]
    assert head == "training identical; only this differs: summary.json (accuracy: 0.5 → 0.75)"

    def untrained(run: Container, number: int) -> int:
        (run.project / "summary.json").write_text(json.dumps({"accuracy": 0.5 + number / 4}))
        return 0

    assert different(verified(tmp_path, untrained)).startswith("not identical")


def _metric(run: Container, number: int) -> None:
    run.say(json.dumps({"step": 1, "loss": 0.5, "quality": 0.25 + number}) + "\n")


def _line(run: Container, number: int) -> None:
    run.say(f"loss 0.5\nworker {number} was first\n")


def _file(run: Container, number: int) -> None:
    (run.project / "a b.log").write_text(f"at {5 + number} s\nvalue {number}\n")


@pytest.mark.parametrize(
    ("leave", "patterns"),
    [
        (_metric, ("metric:qual*", "stdout:quality")),
        (_line, ("stdout:worker * was first",)),
        (_line, ("stdout:was first",)),
        (_file, ("a b.log",)),
    ],
)
def test_what_is_ignored_is_not_compared(
    leave: Callable[[Container, int], None], patterns: tuple[str, ...], tmp_path: Path
) -> None:
    """Metrics, lines and files can be left out; without that they differ."""

    def program(run: Container, number: int) -> int:
        (run.project / "w.txt").write_text("1")
        leave(run, number)
        return 0

    assert verified(tmp_path, program).verdict.outcome == "different"
    assert verified(tmp_path, program, ignore=patterns).verdict.outcome == "identical"
    assert verified(tmp_path, program, ignore=("other", "metric:other", "stdout:other")).verdict.outcome == "different"


@pytest.mark.parametrize("channel", ["file", "stdout", "stderr"])
def test_the_hint_works_when_followed(channel: str, tmp_path: Path) -> None:
    """What a hint states to ignore, ignored, makes the runs equal."""
    # Dates that are not about when the run was: nothing masks them.
    moments = ["at 2019-03-01 10:00 started", "at 2019-03-02 11:00 started"]

    def program(run: Container, number: int) -> int:
        (run.project / "w.txt").write_text("1")
        if channel == "file":
            (run.project / "my log.txt").write_text(moments[number % 2] + "\n")
        else:
            run.say(moments[number % 2] + "\n", stream=1 if channel == "stdout" else 2)
        return 0

    found = verified(tmp_path, program)
    assert found.verdict.outcome == "different"
    hints = [hint for cause in found.causes if (hint := re.search(r"--ignore (.+)", cause.attempt))]
    assert hints
    (pattern,) = shlex.split(hints[0][1])
    assert verified(tmp_path, program, ignore=(pattern,)).verdict.outcome == "identical"


def test_the_place_of_a_difference_far_into_a_file_is_named(tmp_path: Path) -> None:
    """Only the first entries of a file are kept to be shown: where these are equal, the file is read again."""

    def program(run: Container, number: int) -> int:
        values = [float(at) for at in range(30_000)]
        values[29_000] = -number - 0.5
        (run.project / "table.json").write_text(json.dumps(values))
        (run.project / "longer.json").write_text(json.dumps(list(range(25_000 + number))))
        return 0

    found = verified(tmp_path, program)
    assert "table.json ([29000]: -0.5 → -1.5)" in found.verdict.differs[0]
    assert "longer.json (" in found.verdict.differs[0]


def test_times_in_a_file_are_no_cause_where_something_else_in_it_differs(tmp_path: Path) -> None:
    """As in notebooks, whose first line that differs is the time at which a cell was run."""

    now = datetime.now(timezone.utc)  # a time that is far from the run's own is no time of the run

    def program(run: Container, number: int) -> int:
        table = {"executed": f"{now + timedelta(seconds=number):%Y-%m-%dT%H:%M:%S}.867000Z", "weight": number / 7}
        (run.project / "done.json").write_text(json.dumps(table, indent=1))
        return 0

    found = verified(tmp_path, program)
    assert not [cause.what for cause in found.causes if "holds a time" in cause.what]


@pytest.mark.parametrize("written", ["aab", "aba", "abb"])
def test_each_run_has_the_content_of_its_files(written: str, tmp_path: Path) -> None:
    """Also if another one wrote the same bytes, so that no copy of its own is there any more."""

    def program(run: Container, number: int) -> int:
        (run.project / "tour.json").write_text(
            json.dumps({"total_time": {"a": 41.123456, "b": 87.654321}[written[number]]})
        )
        return 0

    found = verified(tmp_path, program, count=3)
    assert found.verdict.outcome == "identical"
    assert [each.contents["tour.json"].numbers for each in found.runs] == [
        {"total_time": {"a": "41.123456", "b": "87.654321"}[each]} for each in written
    ]
