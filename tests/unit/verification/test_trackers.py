"""Experiments of Comet and Neptune: what the program gave them counts, what they note of themselves does not."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from envbuild.verification.content import Content, compare, leaves, read, read_file
from envbuild.verification.content.mlflow import metric_of
from envbuild.verification.content.names import common_names, drawn_names
from envbuild.verification.masking.masks import Masks

_NOW = 1_795_769_130.0
_IDENTITIES = ("3e61da6016684d73898deb86833ed98b", "58ea837e240b469192cdf205d75c370a")


def _masks() -> Masks:
    return Masks(_NOW)


def _metric(name: str, value: Any, step: int | None = None) -> dict[str, Any]:
    return {"metric": {"epoch": None, "metricName": name, "metricValue": value, "step": step}}


def _comet(
    run: int = 0,
    *,
    metrics: dict[str, Any] | None = None,
    lr: float = 0.1,
    file: bytes = b"a = 1\n",
    printed: tuple[str, ...] = ("loss", " ", "0.5", "\n"),
    more: tuple[tuple[str, dict[str, Any]], ...] = (),
    extra: tuple[tuple[str, bytes], ...] = (),
) -> bytes:
    """Return the archive of one of two runs, whose members, identities and times differ."""
    drawn = f"tmp{run}abcdefg"
    upload = {
        "additional_params": {"assetId": _IDENTITIES[1 - run], "fileName": "a.py", "type": "source_code"},
        "file_path": drawn,
        "upload_type": "source_code",
    }
    messages: list[tuple[str, dict[str, Any]]] = [
        ("file_upload", upload),
        *[("metric_msg", _metric("sys.ram.used", 1000 + at)) for at in range(run + 1)],
        ("parameter_msg", {"param": {"paramName": "lr", "paramValue": lr, "source": "manual"}}),
        *[("metric_msg", _metric(name, value)) for name, value in (metrics or {"loss": 2.5}).items()],
        *[("standard_output", {"output": text, "stderr": False}) for text in printed],
        *more,
    ]
    lines = [
        {"payload": {**payload, "message_id": at, "local_timestamp": int(_NOW * 1000) + at * 7 + run}, "type": kind}
        for at, (kind, payload) in enumerate(messages, 1)
    ]
    facts = {"offline_id": _IDENTITIES[run], "start_time": int(_NOW * 1000) + run, "project_name": "p"}
    members = [
        (drawn, file),
        ("experiment.json", json.dumps(facts).encode()),
        ("messages.json", "".join(f"{json.dumps(line)}\n" for line in lines).encode()),
        *extra,
    ]
    stored = io.BytesIO()
    with zipfile.ZipFile(stored, "w") as archive:
        for name, data in reversed(members) if run else members:
            archive.writestr(zipfile.ZipInfo(name, (2026, 11, 27, 8, run, 0)), data)
    return stored.getvalue()


def _operation(kind: str, path: list[str], **values: Any) -> dict[str, Any]:
    return {"type": kind, "path": path, **values}


def _points(*points: Any, run: int = 0) -> dict[str, Any]:
    return {"values": [{"value": each, "step": None, "ts": _NOW + at + run / 7} for at, each in enumerate(points)]}


def _neptune(
    run: int = 0,
    *,
    loss: float = 2.5,
    lr: float = 0.1,
    tags: tuple[str, ...] = ("a", "b"),
    printed: tuple[str, ...] = ("loss", " ", "0.5", "\n"),
    more: tuple[dict[str, Any], ...] = (),
) -> bytes:
    """Return the log of operations of one of two runs."""
    process = ("ebfdacdc", "cc831b12")[run]
    operations = [
        _operation("AssignString", ["monitoring", process, "hostname"], value=("envbuild", "envbu001")[run]),
        _operation("AssignString", ["monitoring", process, "tid"], value=("139970698727488", "140492664381504")[run]),
        _operation("AssignFloat", ["parameters", "lr"], value=lr),
        _operation("ConfigFloatSeries", ["monitoring", process, "cpu"], min=0.0, max=100.0 + run, unit="%"),
        _operation("ClearFloatLog", ["monitoring", process, "cpu"]),
        *[_operation("LogFloats", ["monitoring", process, "cpu"], **_points(50.0 + run)) for _ in range(run + 1)],
        _operation("LogFloats", ["train", "loss"], **_points(loss, run=run)),
        _operation("AddStrings", ["sys", "tags"], values=sorted(tags, reverse=bool(run))),
        *[_operation("LogStrings", ["monitoring", process, "stdout"], **_points(text, run=run)) for text in printed],
        *more,
    ]
    return "".join(
        f"{json.dumps({'obj': each, 'version': at, 'at': _NOW + at / 10 + run / 3})}\n"
        for at, each in enumerate(operations, 1)
    ).encode()


def _read(data: bytes) -> Content:
    content = read(data, _masks())
    assert content is not None
    return content


def _why(one: bytes, other: bytes) -> str:
    """Return why files differ; empty if they do not."""
    found = compare(_read(one), _read(other))
    return "" if found.same else found.why


@pytest.mark.parametrize("make", [_comet, _neptune])
def test_equal_runs_have_equal_content(make: Any) -> None:
    """Identities, times, what was noted of the machine, and the order of members make no difference."""
    found = compare(_read(make(0)), _read(make(1)))
    assert found.same, found.why
    assert not any(_read(make(0)).exact.values())


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"metrics": {"loss": 2.25}}, "messages.json.metric_msg[0].loss: 2.5 → 2.25"),
        (
            {"metrics": {"sys.loss": 2.5}},
            "messages.json.metric_msg[0].loss in one, messages.json.metric_msg[0].sys.loss",
        ),
        ({"metrics": {"sys.load.rmse": 2.5}}, "messages.json.metric_msg[0].sys.load.rmse"),
        ({"metrics": {"loss": "2.5"}}, "messages.json.metric_msg[0].loss: 2.5 → a text"),
        ({"metrics": {"loss": 2.5, "acc": 1}}, "messages.json.metric_msg[1].acc in one"),
        ({"lr": 0.2}, "messages.json.parameter_msg[0].lr: 0.1 → 0.2"),
        ({"file": b"a = 2\n"}, "messages.json.file_upload[0].the file, line 1: a = 1 → a = 2"),
        ({"printed": ("loss", " ", "0.75", "\n")}, "messages.json.stdout, line 1: loss 0.5 → loss 0.75"),
        ({"more": (("log_other", {"key": "note", "value": "x"}),)}, "messages.json.log_other[0] in one"),
        ({"extra": (("w.bin", b"\0\1"),)}, "w.bin"),
    ],
)
def test_results_in_archives_of_comet_count(changed: dict[str, Any], why: str) -> None:
    """What the program gave is named with both values."""
    assert why in _why(_comet(0), _comet(1, **changed)) or why in _why(_comet(1, **changed), _comet(0))


def test_identities_of_files_in_other_files_are_those_of_the_run() -> None:
    """A projection has the identities of its vectors; another one than that of a file counts."""
    one, other = (_comet(run, file=b'{"path": "?assetId=%s"}' % _IDENTITIES[1 - run].encode()) for run in (0, 1))
    assert _why(one, other) == ""
    third = _comet(1, file=b'{"path": "?assetId=%s"}' % b"0123456789abcdef0123456789abcdef")
    assert "path" in _why(one, third)


def test_messages_of_other_threads_of_comet_come_in_any_order() -> None:
    """Whole lines of two of its messages are left out, one with more in it is not."""
    begun = (
        "COMET INFO: The process of logging environment details (conda environment, git patch) is underway. "
        "Please be patient as this may take some time.\n"
    )
    lacking = (
        "COMET INFO: Couldn't find a Git repository in '/workspace' nor in any parent directory. "
        "Set `COMET_GIT_DIRECTORY` if your Git Repository is elsewhere.\n"
    )
    assert _why(_comet(0, printed=(begun, lacking, "a\n")), _comet(1, printed=(lacking, "a\n", begun))) == ""
    assert _why(_comet(0, printed=(lacking, "a\n")), _comet(1, printed=("b\n", lacking)))
    assert _why(_comet(0, printed=(begun, "a\n")), _comet(1, printed=(f"{begun[:-1]} loss 1\n", "a\n")))
    assert _why(_comet(0, printed=("COMET INFO: a\n", "b\n")), _comet(1, printed=("b\n", "COMET INFO: a\n")))


def test_the_order_of_a_metric_counts() -> None:
    """Two values of a metric that changed places are another curve."""
    one, other = ("metric_msg", _metric("loss", 1.0)), ("metric_msg", _metric("loss", 2.0))
    assert _why(_comet(0, more=(one, other)), _comet(1, more=(other, one)))


def test_archives_that_are_not_comets_count_as_such() -> None:
    """A message of another form makes it an archive like any other: the order of members counts."""
    strange = {"metric": 1}
    assert _why(_comet(0, more=(("x", strange),)), _comet(1, more=(("x", strange),))) == ""
    stored = io.BytesIO()
    with zipfile.ZipFile(stored, "w") as archive:
        archive.writestr("experiment.json", '{"offline_id": "a"}')
        archive.writestr("messages.json", '{"loss": 1}\n')
    assert ("experiment.json.offline_id", "a") in [*leaves(stored.getvalue(), _masks())]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"loss": 2.25}, "train/loss: 2.5 → 2.25"),
        ({"lr": 0.2}, "parameters/lr: 0.1 → 0.2"),
        ({"tags": ("a", "c")}, "sys/tags: b → c"),
        ({"printed": ("loss", " ", "0.75", "\n")}, "monitoring/⟨process 0⟩.stdout, line 1: loss 0.5 → loss 0.75"),
        ({"more": (_operation("AssignFloat", ["monitoring", "score"], value=1.0),)}, "monitoring/score"),
        ({"more": (_operation("AssignFloat", ["monitoring", "ebfdacdc", "loss"], value=1.0),)}, "⟩/loss"),
        ({"more": (_operation("LogFloats", ["monitoring", "x", "memory_loss"], **_points(1.0)),)}, "memory_loss"),
        ({"more": (_operation("AssignFloat", ["monitoring", "x", "memory"], value=1.0),)}, "monitoring/x/memory"),
        ({"more": (_operation("DeleteAttribute", ["train", "loss"]),)}, "train/loss"),
    ],
)
def test_results_in_logs_of_neptune_count(changed: dict[str, Any], why: str) -> None:
    """What the program gave is named with both values."""
    assert why in _why(_neptune(0), _neptune(1, **changed))


def test_names_of_uploaded_texts_have_times() -> None:
    """The time in the name of a file is left out, its field and its kind are not."""
    stamps = ("1795769936.952002-2026-11-27_08.58.56.952002", "1795769940.730204-2026-11-27_08.59.00.730204")
    one, other, third = (
        _operation("UploadFile", ["text"], ext="txt", tmp_file_name=f"{name}-{stamp}.txt")
        for name, stamp in (("text", stamps[0]), ("text", stamps[1]), ("other", stamps[1]))
    )
    assert _why(_neptune(0, more=(one,)), _neptune(1, more=(other,))) == ""
    assert "⟨date⟩" in _why(_neptune(0, more=(one,)), _neptune(1, more=(third,)))


def test_the_number_of_the_last_operation_goes_with_the_log(tmp_path: Path) -> None:
    """It counts what was noted of the machine too; a file that has something else in it counts."""
    log = tmp_path / "data-1.log"
    log.write_bytes(_neptune(0))
    last = str(_neptune(0).count(b"\n"))
    for text, parts in ((last, {"last_put_version"}), (f"{last}0", set()), ("7", set())):
        (tmp_path / "last_put_version").write_text(text)
        content = read_file(log, _masks())
        assert content is not None
        assert content.parts == parts


def test_what_a_program_logs_below_monitoring_counts() -> None:
    """The use of the machine is next to the name of the host, which Neptune notes with it."""
    one, other = (
        _neptune(run, more=(_operation("LogFloats", ["monitoring", "drift", "memory"], **_points(run / 4)),))
        for run in (0, 1)
    )
    assert "monitoring/drift/memory: 0.0 → 0.25" in _why(one, other)


@pytest.mark.parametrize(
    "line",
    [
        '{"obj": 1}',
        '{"obj": {"type": "A", "path": ["a"]}, "version": 1e999, "at": 1.0}',
        '{"obj": {"type": "A", "path": ["a"]}, "version": 7, "at": "0.75"}',
    ],
)
def test_other_lines_count_by_their_bytes(line: str) -> None:
    """A log with a line of another form is not opened, nor one whose number or time are none."""
    assert read(_neptune(0) + line.encode() + b"\n", _masks()) is None


def test_experiments_in_mlflows_store_of_files() -> None:
    """The folder of an experiment has a drawn number, which its notes name; any other folder of digits is one."""
    runs = ["3e8b1d4ef076480ab125607d46270404", "b39c1f59e6eb4229b85d8fbde95460c6"]
    drawn = ["450789293367769443", "743508352896250613"]
    paths = [
        [f"mlruns/{experiment}/meta.yaml", f"mlruns/{experiment}/{run}/metrics/acc", "mlruns/0/meta.yaml"]
        for experiment, run in zip(drawn, runs, strict=True)
    ]
    masks = [Masks(1_795_704_610.0).with_files(drawn_names(each), dict) for each in paths]
    one, other = common_names([*zip(paths, masks, strict=True)])
    assert [*one.values()] == [*other.values()] == ["mlruns/⟨name⟩/meta.yaml", "mlruns/⟨name⟩/⟨name⟩/metrics/acc"]
    texts = [each.mask(f"experiment_id: '{experiment}'").text for each, experiment in zip(masks, drawn, strict=True)]
    assert texts == ["experiment_id: '⟨name⟩'"] * 2
    assert not drawn_names(
        ["data/450789293367769443/x.npy", "mlruns/45078929336776944/meta.yaml", "450789293367769443"]
    )


_RUN = "184497e5d36a4bcdac34e7c02218ef56"
_BEGAN = 1_795_704_610


@pytest.mark.parametrize(
    ("name", "one", "other", "equal"),
    [
        ("mean_fit_time", f"{_BEGAN}333 0.0652 0\n", f"{_BEGAN}777 0.0793 0\n", True),
        ("epoch_time", f"{_BEGAN}333 1.5 0\n{_BEGAN}444 1.75 1\n", f"{_BEGAN}345 1.25 0\n{_BEGAN}456 2.0 1\n", True),
        ("loss", f"{_BEGAN}333 0.5 0\n", f"{_BEGAN}777 0.5 0\n", True),
        ("loss", f"{_BEGAN}333 0.5 0\n", f"{_BEGAN}333 0.25 0\n", False),
        ("loss", f"{_BEGAN}333 nan 0\n", f"{_BEGAN}333 inf 0\n", False),
        ("survival_time", f"{_BEGAN}333 0.5 0\n", f"{_BEGAN}333 0.25 0\n", False),
        ("epoch_time", f"{_BEGAN}333 1.5 0\n", f"{_BEGAN}333 1.5 1\n", False),
        ("epoch_time", f"{_BEGAN}333 1.5 0\n", f"{_BEGAN}333 1.5 0\n{_BEGAN}444 1.5 1\n", False),
        ("epoch_time", f"{_BEGAN}333 1.5 0\n", f"{_BEGAN}333 -1.5 0\n", False),
        ("epoch_time", "1395704610333 1.5 0\n", "1395704610444 1.5 0\n", False),
        ("fit_time", f"{_BEGAN}333 1.5 0 {_RUN} data 2bf3ace3\n", f"{_BEGAN}333 1.5 0 {_RUN} data 3bf3ace3\n", False),
        ("epoch_time", f"{_BEGAN}333 1.5 0\nnote 1\n", f"{_BEGAN}333 1.5 0\nnote 2\n", False),
    ],
)
def test_metrics_in_mlflows_store_of_files(tmp_path: Path, name: str, one: str, other: str, *, equal: bool) -> None:
    """The file's name is the metric's: times are left out by it, and when any value was noted."""
    found = []
    for number, text in enumerate((one, other)):
        file = tmp_path / str(number) / _RUN / "metrics" / name
        file.parent.mkdir(parents=True)
        file.write_text(text)
        content = read_file(file, Masks(float(_BEGAN)))
        assert content is not None
        found.append(content)
    assert compare(*found).same == equal
    assert metric_of(Path(f"/x/{_RUN}/metrics/train/loss")) == "train/loss"
    assert not metric_of(Path("/x/run/metrics/loss"))


def test_names_of_runs_of_mlflow_count() -> None:
    """A program may have chosen them; those that MLflow draws repeat unless a thread of its own draws meanwhile."""
    one, other = (
        read(f"run_name: {name}\nlr: 0.1\n".encode(), Masks(float(_BEGAN))) for name in ("a-net-50", "b-net-50")
    )
    assert one is not None
    assert other is not None
    assert not compare(one, other).same
