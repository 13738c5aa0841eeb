"""``envbuild report``: the page is written whole, about the runs that were named, with their traces."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envbuild import cli
from envbuild.record import history
from envbuild.record.model import Record, dumps
from envbuild.runtime import fastjson
from envbuild.runtime.hook.trace_file import FORMAT, create, step_body
from tests.support.pages import Page
from tests.support.records import A, B, other_results, parameters, record

ARROW = "\n  → "


@pytest.fixture(autouse=True)
def _project(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A project to stand in, where two runs were made; no git next to it is asked."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("envbuild.operations.run_context.file_at", lambda project, commit, path: None)
    monkeypatch.setattr("envbuild.operations.run_context.changed_between", lambda project, a, b: ())
    history.save(Path(), record())
    history.save(Path(), other_results(parameters=parameters(learning_rate=0.01, epochs=3)))
    return


def traced(identity: str, *distances: float, damaged: bool = False) -> None:
    """Leave the trace of a run whose only tensor is so far from 1 at each step."""
    folder = history.run_folder(Path(), identity) / "process"
    folder.mkdir(exist_ok=True)
    writer = create(str(folder), "")
    writer.frame(b"H", fastjson.dumps({"format": FORMAT, "process": "", "pid": 1, "interval": 1}).encode())
    tensors: Any = [["kernel", "float32", [1]]]
    group = {"group": 0, "source": "keras.fit", "label": "model", "tensors": tensors}
    writer.frame(b"G", fastjson.dumps(group).encode())
    for step, distance in enumerate(distances):
        value = 1.0 + distance
        body = step_body(
            group=0, step=step, covers=1, epoch=1, place=step, observed={}, batch=None,
            digests=[int.from_bytes(struct.pack("<d", value), "little")], figures=[value] * 7,
        )  # fmt: skip
        writer.frame(b"S", *body)
    writer.frame(b"E")
    writer.close()
    if damaged:
        path = next(folder.glob("trace-*.bin"))
        path.write_bytes(b"no trace" + path.read_bytes())


def read(path: str = "report.html") -> Page:
    """The page that was written."""
    return Page(Path(path).read_bytes())


def test_the_two_newest_runs_are_shown_where_none_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Without arguments the newest run is compared with the one before it; a line states what was written."""
    assert cli.main(["report"]) == 0
    out, err = capsys.readouterr()
    size = len(Path("report.html").read_bytes())
    assert (out, err) == (f"report    report.html  2 runs  {size / 1000:.0f} kB\n", "")
    assert "B differs from A because learning_rate 0.1 (default) → 0.01 (default)" in read().text
    assert "01JC000000" in read().text


def test_runs_are_named_by_their_beginning_or_by_a_record(tmp_path: Path) -> None:
    """Any number of runs, in the order in which they were named, into any file; ``--quiet`` reports nothing."""
    far = tmp_path / "far" / "record.json"
    far.parent.mkdir()
    far.write_bytes(dumps(record("01JE" + "0" * 22)))
    assert cli.main(["report", "01jd", "01JC", str(far), "-o", "out/page.html", "--quiet"]) == 0
    assert [text for name, text in read("out/page.html").texts if name == "h1"] == ["B and C differ from A"]
    assert "A python train.py 01JD000000" in read("out/page.html").text


def test_one_run_alone_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """A report of one run compares nothing."""
    assert cli.main(["report", "01JC"]) == 0
    assert "  1 run  " in capsys.readouterr().out
    assert "Differences" not in read().text


def test_traces_become_strips() -> None:
    """Where both runs were traced, the first difference is reported as text and each tensor has a strip."""
    traced(A, 0, 0, 0, 0)
    assert cli.main(["report"]) == 0
    assert "Distance of" not in read().text
    traced(B, 0, 0, 1e-3, 1e-2)
    assert cli.main(["report"]) == 0
    text = read().text
    assert "Distance of B from A First difference: epoch 1, step 2, tensor kernel" in text
    assert "kernel 2 step 2: up to 0.001 step 3: up to 0.0099 0.0099" in text


@pytest.mark.parametrize(
    ("typed", "reported"),
    [
        (["01JC", "01jc0"], f"run {A} is named twice{ARROW}list them: envbuild runs"),
        (["01JX"], "no runs begin with '01JX' in {}" + f"{ARROW}list them: envbuild runs"),
        (["-o", "."], f". is a folder{ARROW}name a file: envbuild report -o report.html"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    typed: list[str], reported: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written, and the next command is named."""
    assert cli.main(["report", *typed]) == 2
    assert capsys.readouterr().err == f"envbuild: {reported.format(tmp_path)}\n"
    assert not Path("report.html").exists()


def test_a_damaged_trace_is_reported_and_hides_nothing_else(tmp_path: Path) -> None:
    """The rest of the page is there; in place of the strips is the reason why there are none."""
    traced(A, 0, 0)
    traced(B, 0, 0, damaged=True)
    assert cli.main(["report"]) == 0
    path = history.run_folder(tmp_path, B) / "process" / "trace-main.bin"
    why = f"{path}: not a step trace: expected it to begin with ENVTRC1"
    assert f"Distance of B from A The traces cannot be compared: {why}. Differences" in read().text


def test_a_page_that_cannot_be_written_leaves_the_earlier_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is whole or as it was."""
    Path("report.html").write_text("earlier")

    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    assert cli.main(["report"]) == 14
    assert Path("report.html").read_text() == "earlier"
    assert [path.name for path in Path().iterdir() if path.is_file()] == ["report.html"]


def test_a_record_that_was_never_compared_reports_nothing_of_the_host(tmp_path: Path) -> None:
    """A run that was killed before anything was known is shown with what there is."""
    bare = Record(
        id="01JE" + "0" * 22, state="running", start="2026-01-02T03:04:05.678Z", lock=record().lock,
        image=record().image, command=("python",), directory="/workspace", environment={}, options=record().options,
    )  # fmt: skip
    history.save(tmp_path, bare)
    assert cli.main(["report", "01JC", "01JE"]) == 0
    assert "B cannot be compared with A" in read().text
    assert read().problems == []
