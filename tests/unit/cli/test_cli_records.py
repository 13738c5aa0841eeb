"""``runs`` and ``show``: what people see of records."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from envbuild import cli
from envbuild.host.facts import Cpu, GpuFacts, HostFacts, HostGpu
from envbuild.record import history
from envbuild.record.model import Git, LockFacts, Options, Output, Point, Record, Script, Tensor, dumps, record_schema
from envbuild.record.printed import Printed, Stream
from envbuild.record.processes import ProcessRecord, RefusedOperation, SwitchRecord
from tests.support.records import verdict

SHA = "ab" * 32
OTHER = "01JC" + "0" * 22


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A project to stand in, and a clock two hours ahead of UTC."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "TST-2")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def saved(**changes: Any) -> Record:
    """A recorded run."""
    record = Record(
        id="01JD0000000000000000000000", state="finished", start="2026-01-02T03:04:05.678Z", duration=1.25, exit_code=0,
        lock=LockFacts(file="pylock.digits.toml", sha256=SHA), image="cd" * 32, command=("python", "train.py", "a b"),
        directory="/workspace", environment={}, options=Options(network="none", workspace="rw"),
    )  # fmt: skip
    record = msgspec.structs.replace(record, **changes)
    history.save(Path(), record)
    return record


def test_runs_are_a_table_newest_first(capsys: pytest.CaptureFixture[str]) -> None:
    """Columns line up whatever is in them, times are the caller's, and each way to end has its word."""
    ids = [f"01JD00000{number}" + "0" * 16 for number in range(7)]
    saved(id=ids[0])
    saved(id=ids[1], same_bits_as=ids[0], duration=61.9)
    saved(id=ids[2], differs_from=ids[0], differs_in=("a",), duration=7384.0)
    saved(id=ids[3], exit_code=3, command=("sh", "-c", "a\nb\x1b"))
    saved(id=ids[4], exit_code=137, out_of_memory=True)
    saved(id=ids[5], exit_code=78, state="refused")
    saved(id=ids[6], exit_code=None, state="running", duration=None)
    saved(id=f"01JD000007{'0' * 16}", verified="no")
    saved(id=f"01JD000008{'0' * 16}", options=Options(network="none", workspace="rw", verification="x"))
    assert cli.main(["runs"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out == (
        "RUN         STARTED              TOOK       RESULT            BITS                     COMMAND\n"
        "01JD000008  2026-01-02 05:04:05  1.2 s      ok, by verify                              python train.py 'a b'\n"
        "01JD000007  2026-01-02 05:04:05  1.2 s      ok, not verified                           python train.py 'a b'\n"
        "01JD000006  2026-01-02 05:04:05             running                                    python train.py 'a b'\n"
        "01JD000005  2026-01-02 05:04:05  1.2 s      refused                                    python train.py 'a b'\n"
        "01JD000004  2026-01-02 05:04:05  1.2 s      out of memory                              python train.py 'a b'\n"
        "01JD000003  2026-01-02 05:04:05  1.2 s      exit 3                                     sh -c 'a\\nb\\x1b'\n"
        "01JD000002  2026-01-02 05:04:05  2 h 3 min  ok                differs from 01JD000000  python train.py 'a b'\n"
        "01JD000001  2026-01-02 05:04:05  1 min 1 s  ok                same as 01JD000000       python train.py 'a b'\n"
        "01JD000000  2026-01-02 05:04:05  1.2 s      ok                                         python train.py 'a b'\n"
    )


def test_runs_that_verify_found_identical_are_not_listed_as_different(capsys: pytest.CaptureFixture[str]) -> None:
    """Of one verification; a run that differs from an older one still does."""
    mine, other = (Options(network="none", workspace="rw", verification=name) for name in "ab")
    ids = [f"01JD00000{number}" + "0" * 16 for number in range(3)]
    saved(id=ids[0], options=other, judged="identical")
    saved(id=ids[1], options=mine, judged="identical", differs_from=ids[0], differs_in=("a",))
    saved(id=ids[2], options=mine, judged="identical", differs_from=ids[1], differs_in=("a",))
    assert cli.main(["runs"]) == 0
    newest, second, _ = capsys.readouterr().out.splitlines()[1:]
    assert "ok, by verify  identical for verify to 01JD000001  python" in newest
    assert "ok, by verify  differs from 01JD000000             python" in second
    assert cli.main(["show", ids[2]]) == 0
    assert "\nverify    found its runs identical\n" in capsys.readouterr().out


def test_a_record_that_was_edited_is_shown_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    """What contradicts itself comes first; the rest is what the record states."""
    record = saved(recipe="0" * 64)
    assert cli.main(["show", record.id]) == 0
    assert (
        "edited    the record contradicts itself: its recipe is not that of its lock, image, script, command, "
        "environment and options\n"
    ) in capsys.readouterr().out


def test_show_without_a_run_shows_the_newest(capsys: pytest.CaptureFixture[str]) -> None:
    """As ``diff`` and ``report`` do; without any the next command is named."""
    assert cli.main(["show"]) == 2
    assert re.fullmatch(
        r"envbuild: nothing to show: .* has no runs\n  → start one: envbuild run train\.py\n", capsys.readouterr().err
    )
    ids = [f"01JD00000{number}" + "0" * 16 for number in range(2)]
    for each in ids:
        saved(id=each)
    assert cli.main(["show"]) == 0
    assert capsys.readouterr().out.startswith(f"run       {ids[1]}  ok\n")


def test_runs_as_json_are_the_records(capsys: pytest.CaptureFixture[str]) -> None:
    """A program gets every field."""
    record = saved()
    assert cli.main(["runs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [json.loads(dumps(record))]


FULL: dict[str, Any] = {
    "script": Script(path="train.py", sha256=SHA),
    "git": Git(commit="e" * 40, branch="main", dirty=True, diff_sha256=SHA, untracked=2),
    "host": HostFacts(
        kernel="6.1", machine="x86_64", memory=8 * 10**9, cpu=Cpu(model="Some CPU", level="x86-64-v3", total=2),
        gpu=GpuFacts(driver="550.54", devices=(HostGpu(name="Some GPU", uuid="u", memory=1),)),
    ),
    "gpus": "2",
    "verified": "overridden",
    "engine": {"name": "Docker", "version": "20.10.24", "storage": "overlay2", "api": "1.41"},
    "options": Options(
        network="bridge", workspace="ro", controls=False, allow=("gpu.driver",), gpus="2", cpus=1.5, cpuset="0-1",
        memory=10**9, mounts=("/a:/b:ro",),
    ),
    "verdict": verdict(
        {"field": "cpu"},
        {"field": "cpus", "ok": False, "severity": "soft", "locked": "4 threads", "found": "2 CPUs"},
        {"field": "gpu.driver", "ok": False, "allowed": True, "locked": "550.1", "found": "550.54"},
        verified="overridden",
        duration_ms=41.2,
        gpu={
            "devices": [
                {"name": "G1", "uuid": "GPU-1", "mig": "none"}, {"name": "G1", "uuid": "MIG-2", "mig": "3g.40gb"},
            ],
        },
    ),
    "processes": (
        ProcessRecord(
            pid=7, seed=42, frameworks={"numpy": "2.4.6", "keras": "3.15.1"},
            switches=(SwitchRecord(name="a", ok=True), SwitchRecord(name="b", ok=False)),
        ),
        ProcessRecord(pid=9),
    ),
    "outputs": (
        Output(path="model.keras", change="created", size=1234567, sha256=SHA),
        Output(path="x", change="changed", size=3, sha256=None),
    ),
    "deleted": ("old",),
    "differs_from": OTHER,
    "differs_in": ("model.keras", "x"),
}  # fmt: skip


def test_a_record_is_reported_in_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """All that a person looks for, aligned, and nothing that is not there."""
    saved(**FULL)
    assert cli.main(["show", "01jd"]) == 0
    assert capsys.readouterr() == (
        "run       01JD0000000000000000000000  ok, allowed: gpu.driver\n"
        "command   python train.py 'a b'  in /workspace\n"
        "started   2026-01-02 05:04:05  took 1.2 s\n"
        "options   network bridge  workspace ro  controls off  allow gpu.driver  gpus 2  "
        "1.5 CPUs  CPUs 0-1  memory 1.0 GB  /a:/b:ro\n"
        "gpus      2  G1 GPU-1  G1 3g.40gb MIG-2\n"
        "lock      pylock.digits.toml  sha256:abababababab…\n"
        "image     sha256:cdcdcdcdcdcd…\n"
        "script    train.py  sha256:abababababab…\n"
        "git       eeeeeeeeeeee  main  with changes sha256:abababababab…  2 untracked\n"
        "host      Some CPU  2 CPUs  8.0 GB  kernel 6.1  Some GPU (driver 550.54)\n"
        "engine    Docker  20.10.24  overlay2\n"
        "guard     allowed: gpu.driver  3 checks  41 ms\n"
        "          cpus: locked 4 threads, found 2 CPUs\n"
        "          allowed: gpu.driver: locked 550.1, found 550.54\n"
        "process   7  numpy 2.4.6, keras 3.15.1  seed 42  1 of 2 switches read back as set  not b\n"
        "process   9\n"
        "output    model.keras  created   1.2 MB  sha256:abababababab…\n"
        "output    x            changed      3 B  unreadable\n"
        "deleted   old\n"
        f"bits      differ from run {OTHER} in: model.keras, x\n",
        "",
    )


def test_a_failed_run_reports_why(capsys: pytest.CaptureFixture[str]) -> None:
    """A run that never came to its program shows the problem, and that no guard spoke."""
    saved(state="failed", exit_code=None, duration=None, problem="no such network")
    assert cli.main(["show", "01JD"]) == 0
    assert capsys.readouterr().out == (
        "run       01JD0000000000000000000000  failed\n"
        "command   python train.py 'a b'  in /workspace\n"
        "started   2026-01-02 05:04:05\n"
        "problem   no such network\n"
        "options   network none  workspace rw\n"
        "lock      pylock.digits.toml  sha256:abababababab…\n"
        "image     sha256:cdcdcdcdcdcd…\n"
        "guard     left no verdict\n"
    )


def test_a_record_as_json_is_its_file(capsys: pytest.CaptureFixture[str]) -> None:
    """``--json`` prints the whole record and nothing else."""
    record = saved(**FULL)
    assert cli.main(["show", "01JD", "--json"]) == 0
    out, err = capsys.readouterr()
    assert (json.loads(out), err) == (json.loads(dumps(record)), "")


def test_the_schema_of_records_is_published(capsys: pytest.CaptureFixture[str]) -> None:
    """``show --schema`` needs no run and no project."""
    assert cli.main(["show", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(record_schema()))


def test_tensors_and_metrics_are_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    """The last value of each metric, how many tensors a saved model has, and why some are not known."""
    tensor = Tensor(dtype="float32", shape=(2, 3), digest="ab" * 16)
    outputs = (
        Output(path="m.keras", change="created", size=9, sha256=SHA, tensors={"a": tensor, "b": tensor}),
        Output(path="n.pt", change="created", size=9, sha256=SHA, unread="a damaged\nheader"),
    )  # fmt: skip
    metrics: dict[str, tuple[Point, ...]] = {"loss": ((0, 0.5), (1, 0.1 + 0.2)), "val_acc": ((7, "nan"),), "none": ()}
    saved(outputs=outputs, same_bits_as=OTHER, same_tensors_in=("m.keras",), metrics=metrics)
    assert cli.main(["show", "01jd"]) == 0
    assert capsys.readouterr().out.splitlines()[-7:] == [
        "metric    loss     0.30000000000000004  step 1  2 values",
        "metric    val_acc  nan                  step 7  1 value",
        "          1 more: envbuild show RUN --json",
        "output    m.keras  created      9 B  sha256:abababababab…  2 tensors",
        "output    n.pt     created      9 B  sha256:abababababab…  tensors not read: a damaged\\nheader",
        f"bits      same as run {OTHER}",
        "          same tensors in other bytes: m.keras",
    ]


def test_printed_lines_are_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    """How many lines there were and what was masked in them; what could not be compared is no part of the bits."""
    printed: dict[Stream, Printed] = {"stdout": Printed(lines=3, sha256=SHA, unordered=SHA, masked={"times": 2})}
    saved(printed=printed, same_bits_as=OTHER, not_compared=("printed lines",))
    assert cli.main(["show", "01jd"]) == 0
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "printed   3 lines of standard output (2 with times masked)",
        f"files     same as run {OTHER}",
        "          not compared: printed lines",
    ]


def test_refused_operations_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """The operation, the line, why, and the first way out; control characters are escaped."""
    refused = RefusedOperation(
        op="torch.put_", file="/workspace/t\x1b.py", line=7, why="a race", ways=("index_put", "no")
    )
    saved(processes=(ProcessRecord(pid=9, refused_ops=(refused,)),))
    assert cli.main(["show", "01JD"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("refused"))
    assert lines[at].split() == ["refused", "torch.put_", "/workspace/t\\x1b.py:7", "a", "race"]
    assert lines[at + 1].strip() == "try: index_put"


def test_a_record_that_cannot_be_read_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """It is in no table, and must not be missing without a word."""
    saved()
    damaged = saved(id=OTHER)
    path = Path(".envbuild", "runs", damaged.id, "record.json")
    path.write_bytes(path.read_bytes()[:100])
    assert cli.main(["runs"]) == 0
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 2
    assert printed.err == f"envbuild: 1 record cannot be read; why: envbuild show {OTHER}\n"
    assert cli.main(["show", OTHER]) == 2
    assert "\n  → " in capsys.readouterr().err
