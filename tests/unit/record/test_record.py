"""The record as a value: JSON, schema, recipe, comparison, summary."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from envbuild.cli.render.run import figures, summary
from envbuild.host.facts import Cpu, GpuFacts, HostFacts, HostGpu
from envbuild.lockfile import layout
from envbuild.record.compare_outputs import compare, different_tensors, same_tensors
from envbuild.record.history import outside_folder
from envbuild.record.model import (
    Git,
    GuardVerdict,
    LockFacts,
    Options,
    Output,
    Point,
    Record,
    RecordError,
    Script,
    Tensor,
    dumps,
    loads,
    recipe,
    record_schema,
    verified,
)
from envbuild.record.printed import Printed
from tests.support.records import verdict

SHA = "ab" * 32


def a_record(**changes: Any) -> Record:
    """A finished run."""
    record = Record(
        id="01JD0000000000000000000000",
        state="finished",
        start="2026-01-02T03:04:05.678Z",
        end="2026-01-02T03:04:06.678Z",
        duration=1.0,
        exit_code=0,
        lock=LockFacts(file="pylock.digits.toml", sha256=SHA),
        image=SHA,
        command=("python", "train.py"),
        directory="/workspace",
        script=Script(path="train.py", sha256=SHA),
        environment={"PYTHONHASHSEED": "0"},
        options=Options(network="none", workspace="rw"),
        git=Git(commit="c" * 40, branch="main", dirty=False, diff_sha256="", untracked=0),
        host=HostFacts(
            kernel="6.1", machine="x86_64", memory=1, cpu=Cpu(model="x", level="x86-64-v3", total=2),
            gpu=GpuFacts(driver="550.54", devices=(HostGpu(name="g", uuid="u", memory=1),)),
        ),
        verified="yes",
        verdict=verdict(duration_ms=41.2),
        outputs=(Output(path="model.keras", change="created", size=3, sha256=SHA),),
    )  # fmt: skip
    return msgspec.structs.replace(record, **changes)


def test_a_record_survives_its_file() -> None:
    """Writing and reading gives an equal record, and keys of a newer envbuild are passed over."""
    record = a_record()
    assert loads(dumps(record)) == record
    assert loads(dumps(record).replace(b'"format": 2,', b'"format": 2, "later": 2,')) == record


def test_no_text_keeps_a_record_from_being_written() -> None:
    """Arguments and names that are no UTF-8 come as halves of surrogate pairs."""
    found = loads(dumps(a_record(command=("python", "a\udcff.py"), environment={"A": "\udcff"}, problem="\udcff")))
    assert (found.command[1], found.environment["A"], found.problem) == ("a\\udcff.py", "\\udcff", "\\udcff")


def test_records_fit_the_published_schema() -> None:
    """The schema accepts what is written and refuses a wrong digest."""
    schema = record_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    document = json.loads(dumps(a_record()))
    jsonschema.validate(document, schema)
    document["image"] = "ABC"
    with pytest.raises(jsonschema.ValidationError, match="does not match"):
        jsonschema.validate(document, schema)


def test_tensors_and_metrics_are_in_the_file_and_its_schema() -> None:
    """Values come back to the bit, those that are no numbers too; a record without them reads as ever."""
    tensor = Tensor(dtype="float32", shape=(2, 3), digest="ab" * 16, low=-0.1, high=1e300, norm=5e-324)
    output = Output(path="m", change="created", size=1, sha256=SHA, tensors={"w": tensor}, content="cd" * 16)
    points: tuple[Point, ...] = ((0, 0.1 + 0.2), (1, "nan"), (2, "-inf"), (-3, -0.0))
    record = a_record(outputs=(output,), metrics={"loss": points}, metric_sources={"loss": "keras"})
    assert loads(dumps(record)) == record
    document = json.loads(dumps(record))
    jsonschema.validate(document, record_schema())
    assert document["outputs"][0]["tensors"]["w"]["shape"] == [2, 3]
    assert set(json.loads(dumps(a_record()))["outputs"][0]) == {"path", "change", "size", "sha256"}
    for wrong in ([0, "much"], [0.5, 1], [0]):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(document | {"metrics": {"loss": [wrong]}}, record_schema())


def test_equal_content_is_distinguished_from_equal_bytes() -> None:
    """Files of equal content agree, are named as such, and of others the tensors that differ are named."""

    def saved(path: str, sha: str, content: str = "", **tensors: str) -> Output:
        made = {name: Tensor(dtype="int8", shape=(), digest=digest * 16) for name, digest in tensors.items()}
        return Output(path=path, change="created", size=1, sha256=sha * 32, content=content, tensors=made)

    one = a_record(outputs=(saved("a", "aa", "x", w="11", v="22"), saved("b", "aa"), saved("c", "aa", "x")))
    two = a_record(outputs=(saved("a", "bb", "x"), saved("b", "bb"), saved("c", "aa", "y")))
    assert (compare(one, two), same_tensors(one, two)) == (("b",), ("a",))
    other = saved("a", "cc", "z", w="11", v="33", u="44")
    assert different_tensors(one.outputs[0], other) == ("v", "u")
    text = summary(msgspec.structs.replace(one, same_bits_as=one.id, same_tensors_in=("a",)))
    assert text.endswith(" · same tensors as run 01JD000000 · other bytes in: a")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "r.json is not a record of this format: Input data was truncated"),
        (dumps(a_record()).replace(b'"format": 2', b'"format": 9'), "r.json: format: expected 2, found 9"),
    ],
)
def test_damaged_records_are_named(data: bytes, message: str) -> None:
    """A damaged record, or one of another format, is an error that names the file."""
    with pytest.raises(RecordError) as caught:
        loads(data, "r.json")
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("field", "value"),
    [("id", "01JD0000000000000000000000"), ("image", SHA), ("start", "2026-01-02T03:04:05.678Z")],
)
def test_a_line_break_is_part_of_no_value(field: str, value: str) -> None:
    """Digests, times and identities are names of files and words of messages: nothing follows them."""
    document = json.loads(dumps(a_record()))
    assert loads(json.dumps(document | {field: value}).encode())
    with pytest.raises(RecordError):
        loads(json.dumps(document | {field: f"{value}\n"}).encode())


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"id": "01JE0000000000000000000000", "git": None, "host": None, "start": "2027-01-02T03:04:05.678Z"}, True),
        ({"options": Options(network="none", workspace="rw", tty=True, user="7:7")}, True),
        ({"command": ("python", "train.py", "--epochs", "3")}, False),
        ({"script": Script(path="train.py", sha256="cd" * 32)}, False),
        ({"lock": LockFacts(file="pylock.digits.toml", sha256="cd" * 32)}, False),
        ({"environment": {"PYTHONHASHSEED": "1"}}, False),
        ({"options": Options(network="none", workspace="rw", controls=False)}, False),
        ({"options": Options(network="none", workspace="rw", guard=False)}, False),
        ({"options": Options(network="none", workspace="rw", allow=("gpu.driver",))}, False),
        ({"options": Options(network="none", workspace="rw", gpus="all")}, False),
        ({"gpus": "2", "verified": "no"}, True),
    ],
)
def test_the_recipe_is_what_was_chosen(changes: dict[str, Any], same: bool) -> None:
    """Only choices decide whether two runs should agree; time, host, terminal and user do not."""
    assert (recipe(a_record(**changes)) == recipe(a_record())) is same


def test_a_recipe_from_before_an_option_stays() -> None:
    """An option of a newer envbuild does not part runs that do not use it from earlier ones of the same recipe."""
    assert recipe(a_record()) == "e05dfa2d6d7fa900e36a52684d6f9b76795119b2947a04473114157fdd19623d"


def test_which_gpus_are_named_is_no_choice() -> None:
    """The guard ensures that GPUs are alike, so their identities are not in the recipe, but their number is."""
    by_name = [
        a_record(options=Options(network="none", workspace="rw", gpus=names))
        for names in ("GPU-1,GPU-2", "GPU-2,GPU-3", "2", "GPU-1")
    ]
    first, second, number, one = (recipe(record) for record in by_name)
    assert first == second == number
    assert one != first


@pytest.mark.parametrize(
    ("state", "found", "text"),
    [
        ("finished", verdict(), "yes"),
        ("finished", verdict(verified="overridden"), "overridden"),
        ("finished", verdict(verified="no"), "no"),
        ("finished", verdict(verified="whatever"), "no"),
        ("refused", verdict(ok=False, verified="no"), "refused"),
        ("finished", None, "no"),
        ("running", None, ""),
        ("failed", None, ""),
        ("interrupted", None, ""),
    ],
)
def test_what_a_verdict_means(state: Any, found: GuardVerdict | None, text: str) -> None:
    """What ran without a verdict, or past a guard that was off, is not verified; what did not run is neither."""
    assert verified(state, found) == text


def test_comparison_names_every_file_that_differs() -> None:
    """Changed digests and files that only one run has are differences; how a file came to be is none."""
    changed = Output(path="model.keras", change="changed", size=3, sha256=SHA)
    assert compare(a_record(outputs=(changed,)), a_record()) == ()
    other = Output(path="log.txt", change="created", size=1, sha256=None)
    assert compare(a_record(outputs=(other,)), a_record()) == ("log.txt", "model.keras")


ALLOWED = verdict(
    {"field": "gpu.driver", "ok": False, "allowed": True}, {"field": "kernel"},
    {"field": "gpu.ecc", "ok": False, "severity": "soft"}, {"field": "gpu.sms", "ok": False, "allowed": True},
    verified="overridden", duration_ms=41.2,
)  # fmt: skip


SHOWN = Output(path=f"{layout.SHOWN_DIR}/1.png", change="created", size=3, sha256=SHA)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"same_bits_as": "01JC" + "0" * 22},
         "run 01JD000000 recorded · guard 41 ms · 1 output · same bits as run 01JC000000"),
        ({"same_bits_as": "01JC" + "0" * 22, "printed": {"stdout": Printed(lines=2, masked={"times": 1, "names": 1})}},
         "run 01JD000000 recorded · guard 41 ms · 1 output · same bits as run 01JC000000, printed times masked"),
        ({"same_bits_as": "01JC" + "0" * 22,
          "printed": {"stdout": Printed(lines=1, names=("ab" * 6,), masked={"names": 1})}},
         "run 01JD000000 recorded · guard 41 ms · 1 output · same bits as run 01JC000000, printed names masked"),
        ({"same_bits_as": "01JC" + "0" * 22, "not_compared": ("printed lines (one run was on a terminal)",)},
         "run 01JD000000 recorded · guard 41 ms · 1 output · same files as run 01JC000000 · "
         "not compared: printed lines (one run was on a terminal)"),
        ({"differs_from": "01JC" + "0" * 22, "differs_in": ("a", "b", "c", "d"), "verdict": None},
         "run 01JD000000 recorded · 1 output · differs from run 01JC000000 in: a, b, c … "
         "(times may be why: envbuild verify leaves them out)"),
        ({"differs_from": "01JC" + "0" * 22, "differs_in": ("a", "standard output"), "verdict": None},
         "run 01JD000000 recorded · 1 output · differs from run 01JC000000 in: a, standard output"),
        ({"differs_from": "01JC" + "0" * 22, "differs_in": ("a", "metric loss"), "verdict": None},
         "run 01JD000000 recorded · 1 output · differs from run 01JC000000 in: a, metric loss"),
        ({"differs_from": "01JC" + "0" * 22, "differs_in": ("w.npy",), "verdict": None},
         "run 01JD000000 recorded · 1 output · differs from run 01JC000000 in: w.npy"),
        ({"state": "refused", "outputs": (), "verified": "refused"}, "run 01JD000000 refused · guard 41 ms"),
        ({"verified": "no"}, "run 01JD000000 recorded · guard 41 ms · not verified · 1 output"),
        ({"verified": "overridden", "verdict": ALLOWED},
         "run 01JD000000 recorded · guard 41 ms · allowed: gpu.driver, gpu.sms · 1 output"),
        ({"out_of_memory": True, "exit_code": 137, "outputs": (), "verdict": None},
         "run 01JD000000 recorded · ran out of memory · no outputs"),
        ({"outside": (SHOWN, msgspec.structs.replace(SHOWN, path="/tmp/w.npy")), "verdict": None},
         "run 01JD000000 recorded · 1 output · 1 outside the project"),
        ({"outside": (SHOWN,), "verdict": None}, "run 01JD000000 recorded · 1 output"),
    ],
)  # fmt: skip
def test_the_summary_reports_what_matters(changes: dict[str, Any], line: str) -> None:
    """One line reports how the run went and whether its bits agree with an earlier one."""
    assert summary(a_record(**changes)) == line


def test_figures_that_were_shown_are_named(tmp_path: Path) -> None:
    """By the folder where their copies are; what lay in memory, or in a mounted folder, was not copied."""
    one = a_record(outside=(SHOWN, msgspec.structs.replace(SHOWN, path="/tmp/w.npy")))
    assert figures(one, tmp_path) == "1 figure shown: compared with those of other runs, not kept"
    copy = outside_folder(tmp_path, one.id) / SHOWN.path.lstrip("/")
    copy.parent.mkdir(parents=True)
    copy.write_bytes(b"png")
    assert figures(one, tmp_path) == f"1 figure shown: {os.path.relpath(copy.parent)}"
    assert figures(a_record(), tmp_path) == figures(a_record(outside=one.outside, state="failed"), tmp_path) == ""


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"outputs": [{"path": "../x", "change": "created", "size": 1, "sha256": None}]}, "outputs[0].path"),
        ({"deleted": ["/etc/passwd"]}, "deleted[0]"),
        ({"inputs": {"a/../../b": "ab" * 32}}, "inputs"),
        ({"script": {"path": "/x.py", "sha256": "ab" * 32}}, "script.path"),
        ({"lock": {"file": "../pylock.x.toml", "sha256": "ab" * 32}}, "lock.file"),
        ({"options": {"network": "none", "workspace": "rw", "mounts": ["x:/y:rw"]}}, "options.mounts[0]"),
    ],
)
def test_a_forged_record_is_not_read(change: dict[str, Any], field: str) -> None:
    """Whatever names a file outside the project, to be read, written or removed, makes a record unreadable."""
    table = json.loads(dumps(a_record())) | change
    with pytest.raises(RecordError, match=re.escape(f"x: {field}: expected")):
        loads(json.dumps(table).encode(), "x")
