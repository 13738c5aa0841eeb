"""Arrays with fields or dates, notes of safetensors, and logs of SQLite: measurements by name, results always count."""

from __future__ import annotations

import io
import json
import os
import pickle
import sqlite3
import struct
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from envbuild.verification.content import Difference, compare, read, read_file
from envbuild.verification.content.canonical import Content
from envbuild.verification.content.onnx import is_model
from envbuild.verification.masking.masks import Masks
from tests.unit.verification.test_wandb import message

START = 1_795_247_763.0
"""2026-11-21 07:56:03 UTC."""
MASKS = Masks(START)
SCALARS = [("wall_time", "<f8"), ("step", "<i8"), ("value", "<f4"), ("fps", "<f4")]


def compared(one: bytes, other: bytes) -> Difference:
    """Compare two files, which must be of a format that is opened."""
    return _compared(read(one, MASKS), read(other, MASKS))


def _compared(mine: Content | None, theirs: Content | None) -> Difference:
    assert mine is not None
    assert theirs is not None
    return compare(mine, theirs)


def array(kind: object, rows: Sequence[bytes], shape: str = "") -> bytes:
    """Make a file as ``numpy.save`` does."""
    head = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape or f'({len(rows)},)'}, }}".encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(head)) + head + b"".join(rows)


def scalars(wall: float, value: float = 0.5, fps: float = 30.0, kinds: object = SCALARS) -> bytes:
    """Make a file of two rows."""
    return array(kinds, [struct.pack("<dqff", wall + step, step, value, fps) for step in range(2)])


def dates(first: int, second: int, unit: str = "us") -> bytes:
    """Make a file of two moments."""
    return array(f"<M8[{unit}]", [struct.pack("<q", each) for each in (first, second)])


def member(name: str, kind: str, cells: list[float], shape: str) -> bytes:
    """Make an archive as ``np.savez`` does, of one array and the weights."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for each, content in ((name, [struct.pack(kind, cell) for cell in cells]), ("w", [struct.pack("<d", 0.5)])):
            given = shape if each == name else "(1,)"
            archive.writestr(zipfile.ZipInfo(f"{each}.npy"), array(f"<f{len(content[0])}", content, given))
    return data.getvalue()


@pytest.mark.parametrize(
    ("name", "cells", "shape", "same"),
    [
        ("runtime", [2.0], "()", True),
        ("throughput", [2.0], "()", True),
        ("epoch_times", [1.0, 2.0], "(2,)", True),
        ("time", [2.0], "()", False),
        ("survival_time", [2.0], "()", False),
        ("losses", [1.0, 2.0], "(2,)", False),
        ("times", [1.0, 2.0], "(2,)", False),
        ("epoch_times", [1.0, 2.0, 3.0, 4.0], "(2, 2)", False),
        ("runtime", [-2.0], "()", False),
    ],
)
def test_numbers_and_lists_in_archives_that_have_the_names_of_measurements(
    name: str, cells: list[float], shape: str, *, same: bool
) -> None:
    """``np.savez(…, runtime=elapsed, epoch_times=seconds)``: left out; tables, and what may be data, count."""
    other = [cells[0] * 1.5, *cells[1:]]
    assert compared(member(name, "<d", cells, shape), member(name, "<d", other, shape)).same is same


def test_measured_fields_are_left_out() -> None:
    """Times and rates by the names of their fields make no difference, a value does."""
    found = compared(scalars(START + 5), scalars(START + 7, fps=31.0))
    assert found.same
    assert {*found.left_out} == {"wall_time", "fps"}
    assert not compared(scalars(START + 5), scalars(START + 5, value=0.5000001)).same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (scalars(START), scalars(-START)),
        (scalars(START, fps=float("nan")), scalars(START)),
        (scalars(START, kinds=[("time", "<f8"), *SCALARS[1:]]), scalars(5.0, kinds=[("time", "<f8"), *SCALARS[1:]])),
        (scalars(START, kinds=[("loss", "<f8"), *SCALARS[1:]]), scalars(START, kinds=[("x", "<f8"), *SCALARS[1:]])),
        (scalars(START), scalars(START, kinds=[("wall_time", ">f8"), *SCALARS[1:]])),
    ],
    ids=("negative", "no number", "a bare time", "a name", "a type"),
)
def test_what_may_be_a_result_counts(one: bytes, other: bytes) -> None:
    """Fields count whose values are no measurements, or whose names do not say so; names and types always count."""
    assert not compared(one, other).same


def test_dates_about_when_the_run_was_are_left_out() -> None:
    """An array of dates counts if one of them is not about when the run was, or is none."""
    now = int(START) * 10**6
    assert compared(dates(now, now + 7), dates(now + 10**6, now + 2 * 10**6)).same
    assert not compared(dates(now, now + 7), dates(now, 86400 * 10**6)).same
    assert not compared(dates(now, now + 7), dates(now, -(1 << 63))).same
    assert compared(dates(20778, 20778, "D"), dates(20779, 20778, "D")).same
    assert not compared(dates(20778, 20778, "D"), dates(now, now)).same


@pytest.mark.parametrize(
    "data",
    [
        array("<f8", [struct.pack("<d", 1.0)]),
        array([("a", "|O")], [b"\0" * 8]),
        array([("a", "<f8", (2,))], [b"\0" * 16]),
        array([("a", "<f8")], [b"\0" * 7]),
        array([("a", "<f8")], [b"\0" * 8], shape="(99999999,)"),
        array([("a", "<f8")], [b"\0" * 8], shape="__import__('os')"),
        scalars(START)[:40],
        b"\x93NUMPY",
    ],
    ids=("plain", "objects", "nested", "short", "large", "call", "cut", "bare"),
)
def test_all_other_arrays_count_by_their_bytes(data: bytes) -> None:
    """Plain arrays are results; damaged ones, and types that are not read, are not opened."""
    assert read(data, MASKS) is None


def tensors(notes: dict[str, object], values: Sequence[float] = (1.0, 2.0), **more: object) -> bytes:
    """Make a file of safetensors."""
    size = 4 * len(values)
    header = {"__metadata__": notes, "w": {"dtype": "F32", "shape": [len(values)], "data_offsets": [0, size]}, **more}
    head = json.dumps(header).encode()
    return struct.pack("<Q", len(head)) + head + struct.pack(f"<{len(values)}f", *values)


def test_notes_of_safetensors() -> None:
    """What is noted of tensors is judged by its name as in JSON, and JSON in it is opened; tensors count."""
    one = {"format": "pt", "saved_at": "2026-11-21T08:00:00Z", "training": '{"steps": 10, "train_time_s": 0.25}'}
    other = {"format": "pt", "saved_at": "2026-11-21T08:00:09Z", "training": '{"steps": 10, "train_time_s": 9.5}'}
    assert compared(tensors({**one}), tensors({**other})).same
    assert not compared(tensors({**one}), tensors({**one, "format": "np"})).same
    assert not compared(tensors({**one}), tensors({**one, "training": '{"steps": 11, "train_time_s": 0.25}'})).same
    assert not compared(tensors({**one}), tensors({**other}, values=(1.0, 3.0))).same
    assert not compared(tensors({}), tensors({}) + b"\0").same


@pytest.mark.parametrize(
    "data",
    [
        tensors({})[:-1],
        tensors({}, v={"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}),
        tensors({}, v={"dtype": "F32", "shape": [1], "data_offsets": ["0", 8]}),
        tensors({}, v=[1]),
        struct.pack("<Q", 4) + b"{[]}" + b"\0" * 8,
    ],
    ids=("short", "overlapping", "text", "list", "no JSON"),
)
def test_damaged_safetensors_count_by_their_bytes(data: bytes) -> None:
    """A header that is not what the format describes is not trusted."""
    assert read(data, MASKS) is None


def tracking(folder: Path, at: float, value: float) -> None:
    """Leave a database as a program that ends without closing it does; its rows are in the log alone."""
    folder.mkdir()
    child = os.fork()
    if child == 0:
        base = sqlite3.connect(folder / "runs.db")
        base.execute("pragma journal_mode=wal")
        base.execute("create table metrics (value real, created_at real)")
        base.execute("insert into metrics values (?, ?)", (value, at))
        base.commit()
        os._exit(0)
    os.waitpid(child, 0)


def logs(folder: Path, name: str) -> Content | None:
    """Read a file next to the database."""
    return read_file(folder / name, MASKS)


def test_a_write_ahead_log_is_its_database(tmp_path: Path) -> None:
    """What a program committed and did not write back counts; times in it do not, nor does the log's index."""
    for number, (at, value) in enumerate([(START + 1, 0.5), (START + 2, 0.5), (START + 1, 0.25)]):
        tracking(tmp_path / str(number), at, value)
    one, equal, other = (tmp_path / str(number) for number in range(3))
    assert _compared(logs(one, "runs.db-wal"), logs(equal, "runs.db-wal")).same
    assert not _compared(logs(one, "runs.db-wal"), logs(other, "runs.db-wal")).same
    assert _compared(logs(one, "runs.db-shm"), logs(other, "runs.db-shm")).same
    before = {path.name: path.read_bytes() for path in one.iterdir()}
    logs(one, "runs.db-wal")
    assert {path.name: path.read_bytes() for path in one.iterdir()} == before


def test_a_log_without_its_database_counts_by_its_bytes(tmp_path: Path) -> None:
    """Nothing is known of a log, or of what looks like an index, where no database is next to it."""
    tracking(tmp_path / "a", START, 0.5)
    (tmp_path / "a" / "runs.db").unlink()
    assert logs(tmp_path / "a", "runs.db-wal") is None
    assert logs(tmp_path / "a", "runs.db-shm") is None
    (tmp_path / "a" / "runs.db").touch()
    assert logs(tmp_path / "a", "runs.db-wal") is None


def headed(header: object, body: bytes = b"") -> bytes:
    """Make a file of safetensors with any header."""
    head = json.dumps(header).encode()
    return struct.pack("<Q", len(head)) + head + body


@pytest.mark.parametrize(
    "data",
    [
        array([("a", "|V0")], [b""] * 3),
        array([("a", "|S0"), ("b", "|S0")], [b""] * 3),
        array([("a", "<")], [b"x"]),
        array([("a", "")], [b"x"]),
        array("", [b"x"]),
        array([("a", "<f8")], [], "(-1,)"),
        array([("a", "<f8")], [], "(1e999,)"),
        array([("a", "<f-8"), ("b", "<f8"), ("c", "<f8")], [bytes(8)]),
        array([("time", "<M4[s]")], [bytes(4)]),
        array([], [b"x"]),
        headed({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 8]}}, bytes(4)),
        headed({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0]}}, bytes(4)),
        headed({"a": {"dtype": "F32", "shape": [1], "data_offsets": [True, 4]}}, bytes(4)),
    ],
)
def test_a_damaged_header_is_no_error(data: bytes) -> None:
    """Such a file is compared by its bytes: a program may leave anything."""
    assert read(data, MASKS) is None


def test_updates_per_second_have_words_next_to_them() -> None:
    """``ups`` is fairseq's rate only where its ``wps`` is; elsewhere it may be votes."""
    one, two = (json.dumps({"wps": 3.5, "ups": number}).encode() for number in (1, 2))
    assert compared(one, two).same
    one, two = (json.dumps({"ups": number, "downs": 3}).encode() for number in (1, 2))
    assert not compared(one, two).same


def test_a_field_called_memory_counts_unless_it_is_of_bytes() -> None:
    """As a residual sum of squares in a structured array."""

    def rows(value: float) -> bytes:
        return array([("rss", "<f8")], [struct.pack("<d", value)])

    assert not compared(rows(137.92), rows(161.59)).same
    assert compared(rows(81_920_000), rows(81_924_096)).same


def test_an_array_of_objects_is_the_pickle_in_it() -> None:
    """As ``np.save`` writes a list of dictionaries."""
    one, same, other = (
        array("|O", [pickle.dumps({"loss": loss, "created_at": START + at})], "()")
        for loss, at in ((0.5, 1), (0.5, 2), (0.25, 1))
    )
    assert compared(one, same).same
    assert not compared(one, other).same


def onnx(
    name: str = "0123456789ab4123812345678abcdef0",
    guid: str = "1a2b3c4d-5e6f7a8b-9c0d1e2f-3a4b5c6d",
    op: str = "Add",
    weight: int = 1,
) -> bytes:
    """Return a model as exporters write it."""
    graph = message(
        (1, message((1, "x"), (2, "y"), (4, op))), (2, name), (5, message((1, weight))), (11, b"in"), (12, b"out")
    )
    notes = [(14, message((1, key), (2, value))) for key, value in (("model_guid", guid), ("kind", "classifier"))]
    return message((1, 9), (2, "catboost"), (7, graph), (8, message((2, 15))), *notes)


def test_the_first_bytes_of_a_model_are_no_model() -> None:
    """Data in other files may end behind them, as spaCy's do: one byte 8 is a member of an archive, and no fault."""
    assert [is_model(onnx()[:length]) for length in range(5)] == [False] * 5
    assert is_model(onnx())


def test_drawn_names_of_onnx_models_are_no_content() -> None:
    """A graph's name as ``uuid4().hex`` gives it, and CatBoost's identity of a model."""
    one = onnx()
    assert compared(one, onnx(name="fedcba98765443218123456789abcdef", guid="4d3c2b1a-8b7a6f5e-2f1e0d9c-6d5c4b3a")).same
    for other in (
        onnx(name="tree ensemble"),
        onnx(op="Mul"),
        onnx(weight=2),
        one + message((14, message((1, "k"), (2, "v")))),
    ):
        assert not compared(one, other).same
    assert not compared(onnx(name="a"), onnx(name="b")).same
    assert read(one[:-3], MASKS) is None
