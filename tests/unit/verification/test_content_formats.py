"""Formats of tools around a training: columns, metrics, traces, profiles, reports. Results in them always count."""

from __future__ import annotations

import base64
import cProfile
import io
import json
import marshal
import math
import pickle
import sqlite3
import struct
import zipfile
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from envbuild.core.tfrecord import crc32c
from envbuild.verification.content import Content, Difference, compare, leaves, read, read_file
from envbuild.verification.content.boosting import is_time_of_iteration
from envbuild.verification.content.canonical import Canonical
from envbuild.verification.content.columns import Numbers, leave_out_numbers
from envbuild.verification.content.names import own_names
from envbuild.verification.content.values import number
from envbuild.verification.masking.masks import Masks
from tests.support.formats import (
    ARROW_DICTIONARY,
    ARROW_STREAM,
    ARROW_VIEWS,
    FEATHER,
    FEATHER_PACKED,
    HASH_FILE,
    LZ4,
    NOTES_OF_LENGTHS,
    PARQUET,
    PARQUET_PACKED,
    PARQUET_TEXTS,
)

MASKS = Masks(1_795_247_763.0)
"""Of a run that began on 2026-11-21 at 07:56:03 UTC."""


def compared(one: bytes, other: bytes) -> Difference:
    """Compare two files, which must be of a format that is opened."""
    mine, theirs = read(one, MASKS), read(other, MASKS)
    assert mine is not None
    assert theirs is not None
    return compare(mine, theirs)


MOMENT = 1_795_248_000_000_000
"""2026-11-21 08:00 in microseconds."""


def altered(data: bytes, before: float | bytes, after: float | bytes) -> bytes:
    """Put another value in all places of a file."""
    old, new = (
        each if isinstance(each, bytes) else struct.pack("<d" if isinstance(each, float) else "<q", each)
        for each in (before, after)
    )
    assert old in data
    return data.replace(old, new)


def with_note(data: bytes, before: bytes, after: bytes) -> bytes:
    """Put another note into a Parquet file, and into Arrow's schema, of which it has a copy in base64."""
    start = data.index(b"ARROW:schema")
    start = data.index(b"/////", start)
    end = start
    while data[end : end + 1].isalnum() or data[end : end + 1] in b"+/=":
        end += 1
    schema = base64.b64encode(base64.b64decode(data[start:end]).replace(before, after))
    return data.replace(before, after)[:start] + schema + data.replace(before, after)[end:]


def with_pickled(data: bytes, before: float, after: float) -> bytes:
    """Put another number into a pickle, which has the first byte first."""
    return altered(data, struct.pack(">d", before), struct.pack(">d", after))


def array_pickled(data: bytes) -> bytes:
    """Write an array of bytes as NumPy pickles it."""
    head = b"\x80\x04cnumpy._core.multiarray\n_reconstruct\n)R(K\x01K%c\x85cnumpy\ndtype\n\x8c\x02u1\x85R\x89"
    return head % len(data) + b"C%c%b" % (len(data), data) + b"tb."


def scalar_pickled(data: bytes) -> bytes:
    """Write one number as NumPy pickles it."""
    return b"\x80\x04cnumpy._core.multiarray\nscalar\n(cnumpy\ndtype\n\x8c\x02f8\x85RC%c%btR." % (len(data), data)


def blob(data: bytes) -> bytes:
    """Write a database with one value."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "db"  # Connection.serialize is of Python 3.11
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE t (a)")
            connection.execute("INSERT INTO t VALUES (?)", (data,))
            connection.commit()
        return path.read_bytes()


def stored(data: bytes) -> bytes:
    """Write a zip archive as PyTorch does, with numbers of a tensor."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("m/data.pkl", pickle.dumps(1))
        archive.writestr("m/data/0", data)
    return stream.getvalue()


def numbered(data: bytes) -> bytes:
    """Give a hash file of Berkeley DB's the number of another one."""
    return data[:52] + bytes(20) + data[72:]


def report(
    time: str = "0.012", score: str = "0.5", date: str = "2026-11-21T08:00:00", attribute: str = "time"
) -> bytes:
    return (
        f'<?xml version="1.0"?><testsuite name="folds" timestamp="{date}" hostname="box1"><testcase name="fold0" '
        f'{attribute}="{time}"><properties><property name="score" value="{score} s"/></properties>'
        f"<system-out>score={score}</system-out></testcase></testsuite>"
    ).encode()


def pmml(date: str = "2026-11-21T08:00:00Z", slope: str = "0.25", time: str = "5.5") -> bytes:
    return (
        f'<PMML version="4.4"><Header><Timestamp>{date}</Timestamp></Header><!-- {date} -->'
        f'<NumericPredictor name="x" coefficient="{slope}" time="{time}"/><time>{time}</time></PMML>'
    ).encode()


def metrics(loss: str = "0.5", begin: str = "1795247763.25", spent: str = "0.25", label: str = "0") -> bytes:
    return (
        f"# HELP train_loss Last loss.\n# TYPE train_loss gauge\ntrain_loss {loss}\n"
        f"process_start_time_seconds {begin}\n"
        f'process_cpu_seconds_total {spent}\nepoch_seconds_sum{{epoch="{label}"}} {spent}\nepoch_seconds_count 3\n'
    ).encode()


def event(**changes: Any) -> dict[str, Any]:
    return {"name": "step", "ph": "X", "ts": 5.25, "dur": 1.5, "pid": 7, "tid": 9, "args": {"loss": 0.5}} | changes


def trace(*events: dict[str, Any]) -> bytes:
    data = json.dumps(events)
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms", "trace_id": f"{len(data):X}"}).encode()


def profile(calls: int = 3, spent: float = 0.25, name: str = "fit", *, turned: bool = False) -> bytes:
    """As ``cProfile`` dumps it, in either order of functions, with and without references."""
    fit, main = ("train.py", 3, name), ("train.py", 9, "<module>")
    functions = [
        (main, (1, 1, spent, spent, {})),
        (fit, (calls, calls, spent, spent, {main: (calls, calls, 0.5, spent)})),
    ]
    return marshal.dumps(dict(functions[:: -1 if turned else 1]), 2 if turned else 4)


def database(path: Path, value: bytes, column: str = "value") -> bytes:
    with sqlite3.connect(path) as connection:
        connection.execute(f"create table dict (key blob, {column} blob)")
        connection.execute("insert into dict values (?, ?)", (b"trial", value))
    connection.close()
    return path.read_bytes()


DATE = b"2026-11-21T08:00:00Z"


def boosted(spent: float = 0.25, loss: float = 0.5, **more: float) -> bytes:
    """As CatBoost's ``catboost_training.json``."""
    each = {"learn": [loss], "iteration": 0, "passed_time": spent, "remaining_time": 2 * spent, **more}
    return json.dumps({"meta": {"launch_mode": "Train", "iteration_count": 1}, "iterations": [each]}).encode()


def flat(text: bytes) -> bytes:
    """A text as FlatBuffers store it: its length, itself, zeros up to a multiple of four."""
    return len(text).to_bytes(4, "little") + text + bytes(4 - len(text) % 4)


def model(identity: bytes = b"ceac2205-ecc0c300-a115db99-3980ed05", date: bytes = DATE, leaf: float = 0.5) -> bytes:
    """As CatBoost's models end."""
    named = flat(identity) + flat(b"model_guid") + bytes(8) + flat(date) + flat(b"train_finish_time")
    return b"CBM1" + struct.pack("<d", leaf) + flat(b"params") + named


SAME = {
    "parquet, a time": (PARQUET, altered(PARQUET, MOMENT, MOMENT + 5_000_000), "[0].created_at differs"),
    "parquet, a duration": (PARQUET, altered(altered(PARQUET, 0.25, 0.125), 0.125, 0.375), "[0].fit_seconds differs"),
    "parquet, texts": (
        PARQUET_TEXTS,
        altered(PARQUET_TEXTS, b"T08:00:0", b"T08:01:0"),
        "[0].created_at[0], [0].created_at[1], [0].created_at[2] differ",
    ),
    "parquet, a note": (PARQUET, with_note(PARQUET, b"08:00:00", b"08:00:09"), "created differs"),
    "feather, a note": (FEATHER, altered(FEATHER, b"08:00:00", b"08:00:09"), "created differs"),
    "feather, a time": (FEATHER, altered(FEATHER, MOMENT, MOMENT + 5_000_000), "[0].created_at differs"),
    "feather, a duration": (FEATHER, altered(altered(FEATHER, 0.25, 0.125), 0.125, 0.375), "[0].fit_seconds differs"),
    "feather, packed": (*FEATHER_PACKED, "[1].created_at, [1].started[0], [1].started[1] and 6 more differ"),
    "a stream of Arrow's, a time": (
        ARROW_STREAM,
        altered(ARROW_STREAM, MOMENT, MOMENT + 5_000_000),
        "[0].created_at differs",
    ),
    "a stream of Arrow's, a text": (
        ARROW_STREAM,
        altered(ARROW_STREAM, b"T08:00:01", b"T08:01:07"),
        "[0].started[0] differs",
    ),
    "lz4": (LZ4, altered(LZ4, b"7763.5", b"7769.5"), "time differs"),
    "xml, elapsed": (
        b"<fit><epoch elapsed='0.25'><loss>1</loss></epoch></fit>",
        b"<fit><epoch elapsed='0.31'><loss>1</loss></epoch></fit>",
        "fit.epoch.elapsed differs",
    ),
    "junit": (
        report(),
        report("1.5", date="2026-11-21T08:00:09"),
        "testsuite.timestamp, testsuite.testcase.time differ",
    ),
    "pmml": (pmml(), pmml("2026-11-21T09:00:00Z"), "PMML.Header.Timestamp, comment differ"),
    "prometheus": (
        metrics(),
        metrics(begin="1795247799.5", spent="9.5"),
        'process_start_time_seconds, process_cpu_seconds_total, epoch_seconds_sum{epoch="0"} differ',
    ),
    "prometheus, when it was": (
        b"# TYPE a gauge\na 1 1795247763000\n",
        b"# TYPE a gauge\na 1 1795247769000\n",
        "a timestamp differs",
    ),
    "trace": (
        trace(event(), event(tid=10)),
        trace(event(ts=6, dur=2, pid=70, tid=90), event(pid=70, tid=91)),
        "trace_id, traceEvents[0].ts, traceEvents[0].dur and 4 more differ",
    ),
    "profile": (
        profile(),
        profile(spent=0.75, turned=True),
        "train.py:3 fit, train.py:9 <module> differ",
    ),
    "berkeley db": (HASH_FILE, numbered(with_pickled(HASH_FILE, 0.25, 0.75)), "[b'fold'].elapsed differs"),
    "berkeley db, the file's number": (HASH_FILE, numbered(HASH_FILE), "only the container's bytes differ"),
    "catboost": (
        boosted(),
        boosted(0.75),
        "iterations[0].passed_time, iterations[0].remaining_time differ",
    ),
    "catboost, its table": (
        b"iter\tPassed\tRemaining\n0\t45\t410\n1\t90\t360\n",
        b"iter\tPassed\tRemaining\n0\t46\t411\n1\t91\t361\n",
        "Passed, Remaining differ",
    ),
    "catboost, a model": (
        model(),
        model(b"7cea23e9-ed4f219e-67f9462-974ca17c", b"2026-11-21T09:10:11Z"),
        "model_guid, train_finish_time differ",
    ),
    "a process": (b'{"writer_pid": 7}', b'{"writer_pid": 8}', "writer_pid differs"),
}


@pytest.mark.parametrize("case", SAME)
def test_measurements_make_no_difference(case: str) -> None:
    """Times that tools note are left out, and named."""
    one, other, why = SAME[case]
    assert one != other
    found = compared(one, other)
    assert (found.same, found.why) == (True, why)


@pytest.mark.parametrize(("one", "other"), PARQUET_PACKED.values(), ids=PARQUET_PACKED)
def test_texts_in_packed_pages(one: bytes, other: bytes) -> None:
    """Times in them are left out, as in other texts; damaged ones are read without an error, or not at all."""
    assert compared(one, other).same
    for at in range(4, len(one) - 8):
        read(one[:at] + bytes([one[at] ^ 0x15]) + one[at + 1 :], MASKS)


OTHER = {
    "parquet, a value": (PARQUET, altered(PARQUET, 1.0, 1.0000000000000002)),
    "parquet, a duration that is no number": (
        PARQUET,
        altered(PARQUET, struct.pack("<2d", 0.5, 0.25), struct.pack("<2d", math.nan, 0.25)),
    ),
    "parquet, a time of another year": (
        altered(PARQUET, MOMENT, MOMENT // 2),
        altered(PARQUET, MOMENT, MOMENT // 2 + 1),
    ),
    "parquet, texts of another year": (
        altered(PARQUET_TEXTS, b"2026-11-21T08:00:0", b"2019-11-21T08:00:0"),
        altered(PARQUET_TEXTS, b"2026-11-21T08:00:0", b"2019-11-22T08:00:0"),
    ),
    "parquet, something in a text": (PARQUET_TEXTS, altered(PARQUET_TEXTS, b"T08:00:02", b"T08:00:0a")),
    "parquet, texts under another name": (
        altered(PARQUET_TEXTS, b"created_at", b"prediction"),
        altered(altered(PARQUET_TEXTS, b"created_at", b"prediction"), b"T08:00:0", b"T08:01:0"),
    ),
    "parquet, which texts are none": (PARQUET_TEXTS, altered(PARQUET_TEXTS, b"\x03\x0d", b"\x03\x0b")),
    "parquet, a value next to texts": (PARQUET_TEXTS, altered(PARQUET_TEXTS, 0.5, 0.5000000000000001)),
    "parquet, a negative duration": (altered(PARQUET, 0.25, -0.25), altered(PARQUET, 0.25, -0.5)),
    "parquet, a note": (PARQUET, with_note(PARQUET, b"best_epoch\x18\x017", b"best_epoch\x18\x018")),
    "parquet, the name of a column": (
        altered(PARQUET, b"fit_seconds", b"fit_quality"),
        altered(altered(PARQUET, b"fit_seconds", b"fit_quality"), 0.25, 0.125),
    ),
    "feather, a value": (FEATHER, altered(FEATHER, 1.0, 1.0000000000000002)),
    "feather, a value next to those that are packed": (
        FEATHER_PACKED[0],
        altered(FEATHER_PACKED[1], b"\0\0\0\x1c@", b"\0\0\0\x1d@"),
    ),
    "feather, a date that is data": (
        altered(FEATHER, MOMENT, MOMENT // 2),
        altered(FEATHER, MOMENT, MOMENT // 2 + 1),
    ),
    "feather, a negative duration": (altered(FEATHER, 0.25, -0.25), altered(FEATHER, 0.25, -0.5)),
    "feather, a duration that is no number": (
        altered(FEATHER, 0.25, float("nan")),
        altered(
            altered(FEATHER, 0.25, float("nan")),
            struct.pack("<dd", 0.5, float("nan")),
            struct.pack("<dd", 0.75, float("nan")),
        ),
    ),
    "feather, the name of a column": (FEATHER, altered(FEATHER, b"fit_seconds", b"fit_secrets")),
    "feather, a column with the name of a result": (
        altered(FEATHER, b"fit_seconds", b"fit_quality"),
        altered(altered(FEATHER, b"fit_seconds", b"fit_quality"), 0.25, 0.125),
    ),
    "a stream of Arrow's, a value": (ARROW_STREAM, altered(ARROW_STREAM, 0.5, 0.5000000000000001)),
    "a stream of Arrow's, something in a text": (ARROW_STREAM, altered(ARROW_STREAM, b"T08:00:01", b"T08:00:0a")),
    "a stream of Arrow's, something behind it": (ARROW_STREAM, ARROW_STREAM + b"1"),
    "feather, a note": (FEATHER, altered(FEATHER, b"\x01\0\0\x007\0", b"\x01\0\0\x008\0")),
    "lz4": (LZ4, altered(LZ4, b'"loss": 1', b'"loss": 2')),
    "junit, what was printed": (report(), report(score="0.6")),
    "junit, another attribute": (report(attribute="weight"), report("0.013", attribute="weight")),
    "junit, a date in data": (report(date="2019-03-01"), report(date="2019-03-02")),
    "xml, a value": (pmml(), pmml(slope="0.26")),
    "xml, a time in data": (pmml(), pmml(time="6.5")),
    "xml, a lone duration in data": (b"<a duration='6.5'/>", b"<a duration='7.5'/>"),
    "xml, a text": (b"<a>1<b/>2</a>", b"<a>1<b/>3</a>"),
    "xml, where a text is": (b"<a>1<b/></a>", b"<a><b/>1</a>"),
    "xml, an element": (b"<a><b/><c/></a>", b"<a><b><c/></b></a>"),
    "xml, an entity": (b'<!DOCTYPE a [<!ENTITY e "1">]><a>&e;</a>', b'<!DOCTYPE a [<!ENTITY e "2">]><a>&e;</a>'),
    "prometheus, a value": (metrics(), metrics(loss="0.5000000000000001")),
    "prometheus, a time of another year": (
        b"# TYPE a gauge\na 1 1551398400000\n",
        b"# TYPE a gauge\na 1 1551398401000\n",
    ),
    "prometheus, a label": (metrics(), metrics(label="1")),
    "prometheus, a count": (metrics(), metrics().replace(b"count 3", b"count 4")),
    "trace, an argument": (trace(event()), trace(event(args={"loss": 0.25}))),
    "trace, a name": (trace(event()), trace(event(name="stop"))),
    "trace, an event": (trace(event()), trace(event(), event())),
    "trace, whose event": (trace(event(), event(tid=10)), trace(event(), event())),
    "dur outside of a trace": (b'[{"dur": 1}]', b'[{"dur": 2}]'),
    "samples of water": (trace(event(ph="7.2")), trace(event(ph="7.2", dur=2))),
    "samples, numbered": (trace(event(ph=["X"])), trace(event(ph=["X"], dur=2))),
    "profile, calls": (profile(), profile(calls=4)),
    "profile, a name": (profile(), profile(name="fit_all")),
    "berkeley db, a value": (HASH_FILE, with_pickled(HASH_FILE, 0.5, 0.75)),
    "berkeley db, a long value": (HASH_FILE, altered(HASH_FILE, b"abababab", b"abababac")),
    "berkeley db, a key": (HASH_FILE, altered(HASH_FILE, b"\x01fold", b"\x01folk")),
    "catboost, a loss": (boosted(), boosted(loss=0.25)),
    "catboost, a leaf": (model(), model(leaf=0.5000000000000001)),
    "catboost, a date in data": (model(date=b"2019-03-01T08:00:00Z"), model(date=b"2019-03-02T08:00:00Z")),
    "catboost, no identity": (model(b"ceac2205"), model(b"ceac2206")),
    "catboost, a value next to the times": (boosted(horizon=1), boosted(0.75, horizon=1)),
    "a time that is predicted": (b'{"remaining_time": 1.5}', b'{"remaining_time": 2.5}'),
    "a time that is predicted, by iteration": (
        b'{"iteration": 0, "passed_time": 1, "remaining_time": 1.5}',
        b'{"iteration": 0, "passed_time": 1, "remaining_time": 2.5}',
    ),
    "a table of what remains": (b"iter\tRemaining\n0\t45\n", b"iter\tRemaining\n0\t46\n"),
    "a number of no process": (b'{"grouppid": 7}', b'{"grouppid": 8}'),
    "the best of several trials": (b'{"best_trial_id": "resnet18"}', b'{"best_trial_id": "resnet50"}'),
    "the best of several runs": (b'{"best": {"run_id": "adam-lr3"}}', b'{"best": {"run_id": "adam-lr4"}}'),
    "the best of Ray's trials": (b'{"trial_id": "3f2a1_00003"}', b'{"trial_id": "3f2a1_00004"}'),
    "a trial that was counted": (b'{"trial_id": "trial_07"}', b'{"trial_id": "trial_08"}'),
    "an experiment by its number": (b'{"experiment_id": "fold12"}', b'{"experiment_id": "fold13"}'),
    "a table with a negative duration": (b"id,fit_time\na,-1\n", b"id,fit_time\na,-2\n"),
    "a table without a duration": (b"id,fit_time\na,nan\n", b"id,fit_time\na,1.5\n"),
    "blanks at the end of a line": (b"hello\nworld\n", b"hello \nworld\n"),
    "empty cells at the end of a line": (b"a\tb\n1\t\n", b"a\tb\n1\n"),
    "the last line break": (b"a\nb", b"a\nb\n"),
    "lines that end as those of old Macs": (b"a,b\r1,2\r3,4\r", b"a,b\r1,3\r3,4\r"),
    "what was written over in a file": (b"step 1 loss 5\rstep 2 loss 4\n", b"step 1 loss 6\rstep 2 loss 4\n"),
    "numbers of an array that are a text": (
        array_pickled(bytes((32, 65, 13, 66, 32))),
        array_pickled(bytes((32, 67, 13, 66, 9))),
    ),
    "numbers of an array that are a time": (array_pickled(b"took 1.5 s"), array_pickled(b"took 2.5 s")),
    "a number of NumPy's that is a text": (scalar_pickled(b"took 1 s"), scalar_pickled(b"took 2 s")),
    "bytes that are no text": (pickle.dumps([bytes((5, 13, 7, 8))]), pickle.dumps([bytes((6, 13, 7, 8, 8))])),
    "large whole numbers": (pickle.dumps(1 << 64), pickle.dumps(10**16)),
    "values of a database that are no text": (blob(bytes((5, 13, 7))), blob(bytes((6, 13, 7)))),
    "a tensor's numbers in a zip archive": (stored(b"a\rb "), stored(b"c\rb")),
}


@pytest.mark.parametrize("data", [bytes((5, 13, 7, 8, 2, 32)), bytes(range(1, 100))])
def test_small_numbers_byte_by_byte_are_no_text(data: bytes) -> None:
    """Labels of classes from 1 on are a text in UTF-8, of which a terminal would lose some: they count as bytes."""
    assert read(data, MASKS) is None


def test_progress_bars_in_files_are_what_they_show_at_last() -> None:
    """How often one is drawn depends on the clock; what has a time in it, and is written over, does not count."""
    bar = b"1/2 [00:00<00:01, 1.2it/s, loss=3]\r2/2 [00:01<00:00, 1.2it/s, loss=4]  \n"
    assert compared(bar, b"0/2 [00:00<?, ?it/s]\r" + bar).same
    assert not compared(bar, bar.replace(b"loss=4", b"loss=5")).same


@pytest.mark.parametrize("case", OTHER)
def test_a_result_always_counts(case: str) -> None:
    """One changed value, name or place of what a training computes is a difference, in every format."""
    one, other = OTHER[case]
    assert one != other
    assert not compared(one, other).same


def test_values_of_a_database_are_opened(tmp_path: Path) -> None:
    """Python's own ``dbm.sqlite3`` keeps pickles: times in them do not count, under the name of a result they do."""
    values = [
        json.dumps({"score": score, "elapsed": spent}).encode() for score, spent in ((1, 2.5), (1, 3.5), (2, 2.5))
    ]
    first, later, other = (database(tmp_path / str(at), value) for at, value in enumerate(values))
    assert compared(first, later).why == "dict.value.elapsed differs"
    assert not compared(first, other).same
    named = [database(tmp_path / f"n{at}", value, "score") for at, value in enumerate(values[:2])]
    assert not compared(*named).same


def test_a_real_profile_is_read(tmp_path: Path) -> None:
    """What this Python's profiler dumps is read, whatever references it holds."""
    found = []
    for name in ("a", "b"):
        profiler = cProfile.Profile()
        profiler.runcall(sorted, range(50), key=lambda number: -number)
        profiler.dump_stats(tmp_path / name)
        found.append((tmp_path / name).read_bytes())
    assert compared(*found).same


HOSTILE = {
    "parquet without a footer": b"PAR1" + b"\xff" * 40 + b"PAR1",
    "parquet with a list of everything": b"PAR1\x29\xfc\xff\xff\xff\xff\x0f\x00\x08\0\0\0PAR1",
    "parquet, a column beyond the end": PARQUET[:4] + PARQUET[300:],
    "arrow without a schema": b"ARROW1\0\0" + b"\xff" * 40 + b"ARROW1",
    "arrow, a footer that leads to itself": b"ARROW1\0\0" + bytes(64) + struct.pack("<I", 64) + b"ARROW1",
    "a stream of Arrow's that ends too early": ARROW_STREAM[:-100],
    "a stream of Arrow's whose columns are billions": altered(ARROW_STREAM, b"\x03\0\0\0", b"\xff\xff\xff\xff"),
    "a stream of Arrow's, buffers that share what they have": altered(
        ARROW_STREAM, struct.pack("<qqqq", 40, 12, 56, 19), struct.pack("<qqqq", 0, 80, 0, 80)
    ),
    "a stream of Arrow's, a buffer beyond the end": altered(
        ARROW_STREAM, struct.pack("<qq", 56, 19), struct.pack("<qq", 56, 1 << 40)
    ),
    "a stream of Arrow's, a buffer before the beginning": altered(
        ARROW_STREAM, struct.pack("<qq", 56, 19), struct.pack("<qq", -8, 19)
    ),
    "lz4, a match before the beginning": LZ4[:15] + b"\x04\0\0\0\x10a\xff\xff\0\0\0\0",
    "lz4 that ends too early": LZ4[:30],
    "lz4 of zeros": LZ4[:15] + struct.pack("<I", 700_000) + b"\x1f\0\x01\0" + b"\xff" * 699_996,
    "a hash file that ends too early": HASH_FILE[:6000],
    "a hash file with a value on a page that is none": altered(
        HASH_FILE, b"\x03\0\0\0\x88\x13\0\0", b"\x01\0\0\0\x88\x13\0\0"
    ),
    "a profile of tuples in tuples": b"{" + b")\x01" * 100_000 + b"0",
    "a profile with a tuple of 4 billion": b"{(\xff\xff\xff\x7f0",
    "a profile that refers to itself": b"{\xa9\x01r\0\0\0\x000",
    "a profile of other things": marshal.dumps({("a", 1): 2}),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_count_by_their_bytes(case: str) -> None:
    """Damage, endless nesting and counts that are too large end no verification: the file is not opened."""
    assert read(HOSTILE[case], MASKS) is None


def test_entities_are_not_expanded() -> None:
    """A document that would grow by the billion is compared as a text."""
    laugh = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    data = f'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY e0 "ha">{laugh}]><a>&e11;</a>'.encode()
    assert not compared(data, data.replace(b"ha", b"ho")).same


def test_elements_in_elements_are_a_text() -> None:
    """A document that is nested too deep is compared by its lines."""
    data = b"<a>" * 5000 + b"1" + b"</a>" * 5000
    assert not compared(data, data.replace(b"1", b"2")).same


def test_event_files_without_a_version() -> None:
    """As CatBoost writes them: the time of an event does not count, its value does; other bytes are no such file."""

    def events(moment: float, *values: float) -> bytes:
        found = b""
        for value in values:
            tagged = b"\n\x03Acc\x15" + struct.pack("<f", value)
            event = b"\x09" + struct.pack("<d", moment) + b"*" + bytes([len(tagged) + 2]) + b"\n" + bytes([len(tagged)])
            event += tagged
            head = struct.pack("<Q", len(event))
            found += head + struct.pack("<I", crc32c(head)) + event + struct.pack("<I", crc32c(event))
        return found

    one = events(1_795_247_763.5, 0.5, 0.25)
    assert compared(one, events(1_795_247_799.5, 0.5, 0.25)).same
    assert not compared(one, events(1_795_247_763.5, 0.5, 0.26)).same
    assert not compared(one, events(1_795_247_763.5, 0.5)).same
    assert read(one[:8] + b"\0\0\0\0" + one[12:], MASKS) is None
    assert read(one + b"junk", MASKS) is None
    assert read(events(0.5, 0.5), MASKS) is None  # scores of a message of another kind


def hparams_of(moment: float, *entries: tuple[bytes, bytes]) -> bytes:
    """An event file with the hyperparameters of a session, as ``add_hparams`` writes it; ``entries``: with values."""

    def field(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2, len(data)]) + data

    session = b"".join(field(1, field(1, key) + field(2, value)) for key, value in entries)
    session += b"\x29" + struct.pack("<d", moment)
    plugin = field(1, b"hparams") + field(2, field(3, session))
    value = field(1, b"_hparams_/session_start_info") + field(9, field(1, plugin))
    found = b""
    for part in (field(3, b"brain.Event:2"), field(5, field(1, value))):
        event = b"\x09" + struct.pack("<d", moment) + part
        head = struct.pack("<Q", len(event))
        found += head + struct.pack("<I", crc32c(head)) + event + struct.pack("<I", crc32c(event))
    return found


def test_hyperparameters_in_event_files() -> None:
    """A learning rate that was drawn counts, in any order; when the session began, and what is timed, do not."""
    rate, other = ((b"lr", b"\x11" + struct.pack("<d", value)) for value in (0.01, 0.02))
    layers, took = (b"kind", b"\x1a\x04conv"), (b"fit_time", b"\x11" + struct.pack("<d", 3.25))
    one = hparams_of(1_795_247_763.5, rate, layers)
    assert compared(one, hparams_of(1_795_247_799.5, layers, rate)).same
    assert not compared(one, hparams_of(1_795_247_763.5, other, layers)).same
    assert not compared(one, hparams_of(1_795_247_763.5, rate, (b"kind", b"\x1a\x04dens"))).same
    assert not compared(one, hparams_of(1_795_247_763.5, rate)).same
    assert compared(hparams_of(0.5, took), hparams_of(0.5, (b"fit_time", b"\x11" + struct.pack("<d", 3.5)))).same


FINGERPRINT = (
    bytes.fromhex(
        "08ab90c6aed395aeb8aa0110d4fbe7ecb79eb1e55518fad5b4c0b1d8e1e49f0120c6cad6c4affc9589b90128e5b7b98d84b8f382b901"
        "32020804"
    )
    + b":'154926127477878583131234567890123456789"
)
"""The file that TensorFlow 2.21 writes next to a SavedModel."""


def test_the_uuid_of_a_saved_model_does_not_count() -> None:
    """Its hashes do; a message that is none counts by its bytes."""
    assert compared(FINGERPRINT, FINGERPRINT.replace(b":'1549", b":'1550")).same
    assert not compared(FINGERPRINT, FINGERPRINT.replace(b"\x08\xab", b"\x08\xac")).same
    assert not compared(FINGERPRINT, FINGERPRINT.replace(b"2\x02\x08\x04", b"2\x02\x08\x05")).same
    assert read(FINGERPRINT.replace(b":'1549", b":'a549"), MASKS) is None
    assert read(FINGERPRINT + FINGERPRINT, MASKS) is None


def test_names_of_a_table_are_not_read_again_for_each_of_its_numbers() -> None:
    """A file of JSON with many numbers takes time in proportion to its size."""

    def never() -> Iterator[str]:
        raise AssertionError("all names were read for one number")
        yield ""

    assert not is_time_of_iteration("neuron_17", never())
    number(Canonical(masks=MASKS), "neuron_17", "neuron_17", 0.25, "0.25", never())


def as_duckdb(identity: bytes, *, value: int = 1, flags: int = 0, wrong: int = 0) -> bytes:
    """Make the headers of a database of DuckDB, and a block."""
    head = bytearray(4096)
    head[8:12], head[12:20], head[20:28] = b"DUCK", struct.pack("<Q", 67), struct.pack("<Q", flags)
    head[124:140] = identity
    total = 5381
    for (word,) in struct.iter_unpack("<Q", head[8:]):
        total ^= word * 0xBF58476D1CE4E5B9 % (1 << 64)
    head[:8] = struct.pack("<Q", total ^ wrong)
    return bytes(head) + bytes(8192) + struct.pack("<Q", value) * 512


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (as_duckdb(b"1234567890abcdef"), True),
        (as_duckdb(b"1234567890abcdef", value=2), False),
        (as_duckdb(b"1234567890abcdef", flags=1), False),  # encrypted
        (as_duckdb(b"1234567890abcdef", wrong=1), False),
    ],
)
def test_the_identity_of_a_duckdb_file_does_not_count(other: bytes, *, same: bool) -> None:
    """A database of DuckDB has 16 drawn bytes, and a checksum with them; all else counts, a wrong checksum too."""
    mine, theirs = read(as_duckdb(b"fedcba0987654321"), MASKS), read(other, MASKS)
    assert mine is not None
    assert (theirs is not None and compare(mine, theirs).same) is same


def test_a_duckdb_file_without_an_identity_counts_by_its_bytes() -> None:
    """Older versions draw none."""
    assert read(as_duckdb(bytes(16)), MASKS) is None


def as_avro(marker: bytes, *, record: bytes = b"\x02", last: bytes = b"", schema: bytes = b"1") -> bytes:
    """Make a file of Avro with two blocks of one record each."""
    head = b"Obj\x01\x02\x16avro.schema" + bytes([2 * len(schema)]) + schema + b"\0"
    return head + marker + (b"\x02\x02" + record + marker) + (b"\x02\x02\x04" + (last or marker))


MARKER, OTHERS = b"0123456789abcdef", b"fedcba9876543210"


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (as_avro(OTHERS), True),
        (as_avro(OTHERS, record=b"\x04"), False),
        (as_avro(OTHERS, schema=b"2"), False),
        (as_avro(OTHERS, last=MARKER), False),  # another marker at the end
        (as_avro(OTHERS)[:-1], False),
        (as_avro(OTHERS) + b"\0", False),
    ],
)
def test_the_marker_between_blocks_of_avro_does_not_count(other: bytes, *, same: bool) -> None:
    """Sixteen bytes are drawn for each file; all else counts, and a file whose markers differ counts by its bytes."""
    mine, theirs = read(as_avro(MARKER), MASKS), read(other, MASKS)
    assert mine is not None
    assert (theirs is not None and compare(mine, theirs).same) is same


def _of_doit(
    changed: float, *, size: int = 20, digest: str = "0" * 32, checker: str = "MD5Checker", loss: float = 0.5
) -> bytes:
    state = [changed, size, digest] if checker == "MD5Checker" else changed
    table = {"_values_:": {"loss": loss}, "checker:": checker, "score.txt": state, "deps:": ["score.txt"]}
    return json.dumps({"train": table}).encode()


@pytest.mark.parametrize("checker", ["MD5Checker", "TimestampChecker"])
def test_times_of_change_in_the_state_of_doit_are_none_of_its_content(checker: str) -> None:
    """Neither that of a file that the run made, nor that of one of last year."""
    one, other = (_of_doit(changed, checker=checker) for changed in (1_795_247_764.5, 1_760_000_000.25))
    assert compared(one, other).same
    mine = read(one, MASKS)
    assert mine is not None
    assert not any(mine.exact.values())


@pytest.mark.parametrize(
    "other",
    [
        _of_doit(1_795_247_764.5, size=21),
        _of_doit(1_795_247_764.5, digest="1" * 32),
        _of_doit(1_795_247_764.5, loss=0.25),
        _of_doit(0.5),
        _of_doit(1_795_247_764.5, checker="TimestampChecker"),
    ],
)
def test_all_else_in_the_state_of_doit_counts(other: bytes) -> None:
    """Sizes and digests of files, what tasks returned, and how files are checked."""
    assert not compared(_of_doit(1_795_247_764.5), other).same


def test_numbers_like_times_of_change_count_elsewhere() -> None:
    """Without a checker and a list of files next to it such a list is data."""
    for beside in ({}, {"checker:": "MD5Checker"}, {"deps:": ["score.txt"]}):
        one, other = (
            json.dumps({**beside, "score.txt": [first, 3, "0" * 32], "profit": first}).encode()
            for first in (1.76e9 + 0.5, 1.77e9 + 0.5)
        )
        assert not compared(one, other).same


def _with_text(text: str, name: str = "data") -> bytes:
    with TemporaryDirectory() as folder:
        with sqlite3.connect(Path(folder) / "t.db") as connection:
            connection.execute(f"CREATE TABLE t ({name} TEXT)")
            connection.execute("INSERT INTO t VALUES (?)", (text,))
        connection.close()
        return (Path(folder) / "t.db").read_bytes()


def test_json_in_texts_of_sqlite_is_opened() -> None:
    """Measurements in it are left out by their names, results are named with their values."""
    one, other, third = (
        _with_text(json.dumps({"loss": loss, "train_runtime": took}))
        for loss, took in ((0.5, 1.25), (0.5, 1.75), (0.25, 1.25))
    )
    assert compared(one, other).same
    found = compared(one, third)
    assert not found.same
    assert found.why == "t.data.loss: 0.5 → 0.25"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (_with_text('{"train_runtime": [1.5'), _with_text('{"train_runtime": [2.5')),
        (_with_text('{"train_runtime": 1.5}', "loss"), _with_text('{"train_runtime": 2.5}', "loss")),
        (_with_text('{"a": 1}'), _with_text('{"a": "1"}')),
        (_with_text("[1]"), _with_text("[1, 2]")),
    ],
)
def test_other_texts_of_sqlite_count(one: bytes, other: bytes) -> None:
    """What is no JSON, or is a result by its name, counts as a text."""
    assert not compared(one, other).same


_SCHEMAS = (
    "__1795248001239_1795248001239_62958d7820f017dbde6b71e519391600",
    "__1795248002324_1795248002324_3237bf7fd4f432c59a57fbd5153f7296",
)


def _of_run(*paths: str) -> Masks:
    own = cache(lambda: own_names(paths, MASKS))
    return MASKS.with_files(frozenset(), dict, own=own)


def test_names_of_files_of_the_run_in_other_data_do_not_count() -> None:
    """TileDB has the name of a schema, which holds the time and is drawn, in each fragment."""
    one, other = (
        _with_name(_of_run(f"arr/__schema/{name}", "w.npy"), b"\0\1meta %s\0\2" % name.encode()) for name in _SCHEMAS
    )
    assert one is not None
    assert other is not None
    assert compare(one, other).same


@pytest.mark.parametrize(
    ("name", "around"),
    [(_SCHEMAS[1], b"\0\1Meta %s\0\2"), (_SCHEMAS[1], b"\0\1meta %s\0\3"), (_SCHEMAS[1], b"\0\1meta %s\0\2\2")],
)
def test_what_is_around_names_counts(name: str, around: bytes) -> None:
    """Each byte before and behind."""
    one = _with_name(_of_run(f"arr/__schema/{_SCHEMAS[0]}"), b"\0\1meta %s\0\2" % _SCHEMAS[0].encode())
    other = _with_name(_of_run(f"arr/__schema/{name}"), around % name.encode())
    assert one is not None
    assert other is not None
    assert not compare(one, other).same


def test_which_of_several_files_is_named_counts() -> None:
    """Of files in the order of their times the number counts; of files without one no name is left out."""
    masks = _of_run(*(f"ckpt/{name}" for name in _SCHEMAS))
    one, other = (_with_name(masks, b"\0best %s" % name.encode()) for name in _SCHEMAS)
    assert one is not None
    assert other is not None
    assert not compare(one, other).same
    drawn = [f"ckpt/{name.rpartition('_')[2]}" for name in _SCHEMAS]
    assert own_names(drawn, MASKS) == {}
    assert own_names(["a/short.npy", "b/resnet18_trained_model.bin", "seen/model_1999-01-01.bin"], MASKS) == {}


def _with_name(masks: Masks, data: bytes) -> Content | None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "fragment.bin"
        path.write_bytes(data)
        return read_file(path, masks)


@pytest.mark.parametrize("kind", NOTES_OF_LENGTHS)
def test_a_note_of_another_length_in_a_schema(kind: str) -> None:
    """A duration of fewer digits moves all behind it in Arrow's schema; other notes, columns and values still count."""
    one, other = NOTES_OF_LENGTHS[kind]
    assert compared(one, other).same
    assert not compared(one, altered(other, 0.5, 0.75)).same
    change = with_note if kind == "parquet" else altered
    assert not compared(one, change(other, b"0.5", b"0.6")).same
    assert not compared(one, change(other, b"\x01\0\0\0x\0", b"\x01\0\0\0y\0")).same
    assert not compared(one, change(other, b"elapsed_s", b"best_loss")).same


def test_dates_in_a_dictionary_of_arrow() -> None:
    """Dates in it are left out; another one of them in a row is a difference, and so is what is no date."""
    later = altered(ARROW_DICTIONARY, b"T08:00:02", b"T08:01:07")
    assert compared(ARROW_DICTIONARY, later).same
    assert not compared(ARROW_DICTIONARY, altered(ARROW_DICTIONARY, b"T08:00:02", b"T08:00:0a")).same
    rows = struct.pack("<iii", 0, 1, 0)
    assert not compared(ARROW_DICTIONARY, altered(later, rows, struct.pack("<iii", 0, 1, 1))).same
    named = altered(ARROW_DICTIONARY, b"timestamp", b"best_loss")
    assert not compared(named, altered(later, b"timestamp", b"best_loss")).same


def test_dates_in_views_of_arrow() -> None:
    """Dates in views are left out, short ones in them too; what is no date, or in no row, is a difference."""
    later = altered(altered(ARROW_VIEWS, b"T08:00:01", b"T08:01:07"), b"08:00:02", b"08:02:02")
    assert compared(ARROW_VIEWS, later).same
    assert not compared(ARROW_VIEWS, altered(later, 0.5, 0.75)).same
    assert not compared(ARROW_VIEWS, altered(ARROW_VIEWS, b"T08:00:01", b"T08:00:0a")).same
    assert not compared(ARROW_VIEWS, altered(ARROW_VIEWS, b"08:00:02\0", b"08:00:021")).same
    named = altered(ARROW_VIEWS, b"created_at", b"prediction")
    assert not compared(named, altered(later, b"created_at", b"prediction")).same


def test_moments_of_a_column_that_are_none_of_the_run_are_noted() -> None:
    """What was drawn in a column of times, hours from the run, is quoted; in Parquet too, where the ends are known."""
    masks = Masks(1_795_247_763.0).with_files((), dict, 600.0, strict=True)
    for data in (PARQUET, FEATHER, ARROW_STREAM):
        of_run, far, further = (
            read(altered(data, MOMENT, MOMENT + off), masks) for off in (1, -(10**10), -(2 * 10**10))
        )
        assert of_run is not None
        assert far is not None
        assert further is not None
        assert compare(far, further).same
        assert not of_run.strange
        assert far.strange != further.strange


def test_numbers_between_the_ends_of_a_column_may_be_anything() -> None:
    """Where only the ends are known, a column that need not be whole is no ``rss``; two scales are no moments."""

    def is_left_out(name: str, least: float, most: float) -> bool:
        return leave_out_numbers(Canonical(masks=MASKS), "c", Numbers(name, b"1", least, most))

    assert is_left_out("rss", 4096, 8192)
    assert not is_left_out("rss", 4096.0, 8192.0)
    assert is_left_out("created", 1_795_247_763, 1_795_247_764)
    assert not is_left_out("created", 1_795_247_763, 1_795_247_764_000)


def test_experiments_see_the_numbers_of_a_column() -> None:
    """What is packed has another length in each run. A column with the name of a result is shown as a whole."""
    known = dict(leaves(altered(PARQUET, b"fit_seconds", b"lap_lengths"), MASKS))
    assert [known[f"[0].lap_lengths[{row}]"] for row in (0, 1)] == ["0.5", "0.25"]
    named = dict(leaves(altered(PARQUET, b"fit_seconds", b"cell_weight"), MASKS))
    assert not any(name.startswith("[0].cell_weight[") for name in named)
    assert isinstance(named["[0].cell_weight"], bytes)
