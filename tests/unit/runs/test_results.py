"""Metrics: of printed lines in any pieces, of event files whole and damaged, of what the hook wrote; within bounds."""

from __future__ import annotations

import itertools
import json
import math
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envbuild.core.tfrecord import crc32c
from envbuild.record.model import Output
from envbuild.runs.results import events, metrics
from envbuild.runs.results.lines import LINE, StdoutCapture
from envbuild.runs.results.series import NAMES, POINTS, Collected, Series, exact

SHA = "ab" * 32


def tapped(*pieces: bytes) -> dict[str, Any]:
    tap = StdoutCapture()
    for piece in pieces:
        tap.feed(piece)
    return dict(tap.finish())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b'{"step": 7, "epoch": 1, "loss": 0.1}\n', {"loss": ((7, 0.1),)}),
        (b'{"epoch": 1.0, "loss": 1}', {"loss": ((1, 1.0),)}),
        (b'{"epoch": 0.25, "loss": 1}', {"loss": ((0, 1.0),)}),
        (b'{"loss": 1}\n{"loss": 2}\n', {"loss": ((0, 1.0), (1, 2.0))}),
        (b'  {"a": {"b": 0.5, "c": {"d": 1}}}\r\n', {"a.b": ((0, 0.5),), "a.c.d": ((0, 1.0),)}),
        (b' 50%|###   |\r{"loss": NaN, "up": Infinity, "down": -Infinity}\n',
         {"loss": ((0, "nan"),), "up": ((0, "inf"),), "down": ((0, "-inf"),)}),
        (b'{"ok": true, "name": "x", "list": [1], "none": null}\n', {}),
        (b'{"global_step": 5, "step": 1, "loss": 2}', {"loss": ((5, 2.0),)}),
        (b'[1]\n{}\n{"broken": \n"loss": 1}\n{not json}\n', {}),
        (b'{"loss": ' + b"9" * 400 + b"}", {}),
        (b'{"x": ' + b"[" * 5000 + b'}', {}),
        (b'{"caf\xc3\xa9": 1}\n{"\xff": 1}', {"caf\u00e9": ((0, 1.0),)}),
        (b'{"\\ud800": 1}', {"\\ud800": ((0, 1.0),)}),
        (b'{"pad": "' + b"x" * LINE + b'", "loss": 1}\n{"loss": 2}', {"loss": ((0, 2.0),)}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_lines_are_metrics(text: bytes, found: dict[str, Any], size: int) -> None:
    """Objects with numbers, by the first step they name; however the stream is cut; nothing else."""
    assert tapped(*(text[start : start + size] for start in range(0, len(text), size))) == found


def test_endless_lines_are_let_go() -> None:
    """A program that prints no line break costs no memory, and is heard again after one."""
    tap = StdoutCapture()
    for _ in range(100):
        tap.feed(b"x" * 100_000)
    assert len(tap._rest) <= LINE
    tap.feed(b'{"loss": 9}\n{"loss": 1}\n')
    assert dict(tap.finish()) == {"loss": ((0, 1.0),)}


@given(st.binary(max_size=300), st.integers(1, 40))
def test_any_output_is_survived(data: bytes, size: int) -> None:
    """Whatever a program prints, nothing is raised, and pieces do not matter."""
    assert tapped(data) == tapped(*(data[start : start + size] for start in range(0, len(data), size)))


@given(st.floats())
def test_values_are_exact(value: float) -> None:
    """A value comes back from JSON to the bit."""
    back = float(json.loads(json.dumps(exact(value))))
    assert math.isnan(value) if math.isnan(back) else struct.pack("d", back) == struct.pack("d", value)


@given(st.integers(0, 3 * POINTS))
def test_long_series_are_thinned_alike(count: int) -> None:
    """First and last value stay, steps rise evenly, and the number of values alone decides which are kept."""
    series = Series()
    for step in range(count):
        series.add(step, step / 2)
    points = series.points()
    assert len(points) == count if count < POINTS else POINTS / 2 <= len(points) <= POINTS
    assert all(value == step / 2 for step, value in points)
    if count:
        assert (points[0][0], points[-1][0]) == (0, count - 1)
        assert len({after[0] - before[0] for before, after in itertools.pairwise(points[:-1])}) <= 1


def test_names_are_bounded() -> None:
    """A program cannot fill the record with names."""
    collected = Collected()
    for number in range(NAMES + 5):
        collected.add(f"{number}", None, 1.0)
    assert len(list(collected)) == NAMES


def field(number: int, kind: int, value: bytes | int) -> bytes:
    """Write a field of a protocol buffer."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | kind) + (varint(len(value)) if kind == 2 else b"") + value


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    data = b""
    while value > 127:
        data += bytes([value & 127 | 128])
        value >>= 7
    return data + bytes([value])


def record(data: bytes) -> bytes:
    head = struct.pack("<Q", len(data))
    return b"".join(part + struct.pack("<I", crc32c(part)) for part in (head, data))


def scalar(tag: str, step: int, value: bytes) -> bytes:
    """Write an event with one value; ``value`` is the rest of the summary's entry."""
    entry = field(1, 2, tag.encode()) + value
    return field(1, 1, struct.pack("<d", 1.5)) + field(2, 0, step) + field(5, 2, field(1, 2, entry))


def simple(value: float) -> bytes:
    return field(2, 5, struct.pack("<f", value))


def tensor(kind: int, value: bytes, shape: bytes = b"") -> bytes:
    return field(8, 2, field(1, 0, kind) + field(2, 2, shape) + value)


VERSION = record(field(3, 2, b"brain.Event:2"))
CASES = [
    (simple(0.5), 0.5),
    (simple(float("-inf")), float("-inf")),
    (tensor(1, field(4, 2, struct.pack("<f", 0.25))), 0.25),
    (tensor(1, field(5, 5, struct.pack("<f", 0.25))), 0.25),
    (tensor(1, field(5, 2, struct.pack("<f", 0.25))), 0.25),
    (tensor(2, field(4, 2, struct.pack("<d", 0.1))), 0.1),
    (tensor(3, field(7, 0, 5)), 5.0),
    (tensor(9, field(10, 2, varint(-3))), -3.0),
    (tensor(9, field(4, 2, struct.pack("<q", -3))), -3.0),
    (tensor(1, b""), 0.0),
    (tensor(1, field(4, 2, struct.pack("<2f", 1, 2)), field(2, 2, field(1, 0, 2))), None),
    (tensor(7, field(8, 2, b"text")), None),
    (field(4, 2, b"image"), None),
]


@pytest.mark.parametrize(("value", "found"), CASES)
def test_scalars_of_event_files(tmp_path: Path, value: bytes, found: float | None) -> None:
    """All ways to write one number, old and new; what is no number is passed over."""
    path = tmp_path / "e.tfevents.1"
    path.write_bytes(VERSION + record(scalar("loss", 7, value)) + record(scalar("end", -1, simple(1))))
    expected = [] if found is None else [("loss", 7, found)]
    assert list(events.scalars(path)) == [*expected, ("end", -1, 1.0)]


def test_the_checksum_is_known() -> None:
    """The mask over the published check value of CRC-32C."""
    crc = 0xE3069283
    assert crc32c(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_damaged_event_files_give_what_is_whole(tmp_path: Path) -> None:
    """Up to the first record whose checksum is wrong, or that was cut off; large records are passed over."""
    path = tmp_path / "e.tfevents.1"
    one = record(scalar("loss", 1, simple(0.5)))
    for rest in (one[:-1], one[:5], b"\0" * 12, one[:-2] + b"xx", b"x" + one[1:], one[:8] + b"xxxx" + one[12:]):
        path.write_bytes(one + rest)
        assert list(events.scalars(path)) == [("loss", 1, 0.5)]
    path.write_bytes(one + record(b"x" * (events.RECORD + 1)) + record(b"\x0b") + record(b"\x2a\xff") + one)
    assert list(events.scalars(path)) == [("loss", 1, 0.5)] * 2


@given(st.binary(max_size=80))
def test_any_event_is_survived(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    """Whatever is between good checksums, nothing is raised."""
    path = tmp_path_factory.getbasetemp() / "e.tfevents.any"
    path.write_bytes(record(data) + record(field(5, 2, field(1, 2, data))))
    list(events.scalars(path))


def output(path: str, **changes: Any) -> Output:
    return Output(**{"path": path, "change": "created", "size": 1, "sha256": SHA, **changes})


def test_event_files_are_named_by_their_folders(tmp_path: Path) -> None:
    """Below the folder that holds them all, whose name often is a time; one folder alone has no name."""
    for name in ("logs/now/train/a.tfevents.1", "logs/now/train/a.tfevents.2", "logs/now/validation/b.tfevents.1"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(record(scalar("loss", int(name[-1]), simple(0.5))))
    (tmp_path / "c.tfevents.1").symlink_to("logs/now/train/a.tfevents.1")
    train, validation = "logs/now/train", "logs/now/validation"
    names = [f"{train}/a.tfevents.2", f"{train}/a.tfevents.1", f"{validation}/b.tfevents.1", "loss.csv"]
    found = metrics.of_events(tmp_path, map(output, names))
    assert found == [
        ("train/loss", train, ((1, 0.5), (2, 0.5))),
        ("validation/loss", validation, ((1, 0.5),)),
    ]
    found = metrics.of_events(tmp_path, [output(names[2]), output(f"{train}/gone.tfevents.1")])
    assert found == [("validation/loss", validation, ((1, 0.5),))]
    assert metrics.of_events(tmp_path, [output(names[2])]) == [("loss", validation, ((1, 0.5),))]
    assert metrics.of_events(tmp_path, [output("c.tfevents.1")]) == []
    assert metrics.of_events(tmp_path, [output(names[2], sha256=None)]) == []


def line(epoch: float, values: Any, process: str = "", fit: int = 1) -> str:
    return json.dumps({"process": process, "fit": fit, "epoch": epoch, "values": values}) + "\n"


def test_output_of_keras_is_read(tmp_path: Path) -> None:
    """Trainings by number, other processes where they differ, damaged lines passed over."""
    main = line(0, {"loss": 0.1}) + line(1, {"loss": "inf"}) + line(0, {"loss": 3}, fit=2)
    (tmp_path / "metrics-1.jsonl").write_text(main + "{\n[]\n" + line(0, {"loss": "x"}) + line(0, []) + "{}\n")
    (tmp_path / "metrics-2.jsonl").write_text(line(0, {"loss": 0.2, "mine": 1}, "rank 1") + '{"cut')
    assert metrics.of_keras(tmp_path) == [
        ("loss", "keras", ((0, 0.1), (1, "inf"))),
        ("loss (fit 2)", "keras", ((0, 3.0),)),
        ("rank 1: loss", "keras", ((0, 0.2),)),
        ("mine", "keras", ((0, 1.0),)),
    ]


def test_numbers_too_large_for_a_metric_are_passed_over(tmp_path: Path) -> None:
    """A program may write where the hook does: the lines before and after count."""
    lines = (line(number, {"loss": value}) for number, value in enumerate((0.5, 10**400, 0.25)))
    (tmp_path / "metrics-1.jsonl").write_text("".join(lines))
    ((name, _, points),) = metrics.of_keras(tmp_path)
    assert (name, [*points]) == ("loss", [(0, 0.5), (2, 0.25)])


def test_lines_of_any_number_are_read_one_by_one(tmp_path: Path) -> None:
    """Millions of empty ones take no more memory than the file, and one without end is passed over."""
    whole = line(0, {"loss": 0.5}) + "[" * 1_100_000 + "\n" + line(1, {"loss": 0.25})
    (tmp_path / "metrics-1.jsonl").write_text(whole)
    (tmp_path / "metrics-2.jsonl").write_bytes(b"\n" * 8_000_000)
    tracemalloc.start()
    try:
        ((_, _, points),) = metrics.of_keras(tmp_path)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [*points] == [(0, 0.5), (1, 0.25)]
    assert most < 100_000_000  # 64 MiB are the buffer to read into


def test_a_name_belongs_to_the_first_source(tmp_path: Path) -> None:
    """Keras, then event files, then lines; each metric states where it was found."""
    (tmp_path / "metrics-1.jsonl").write_text(line(0, {"loss": 0.1}))
    (tmp_path / "a.tfevents.1").write_bytes(record(scalar("loss", 1, simple(0.5))))
    printed = Collected()
    for name in ("loss", "speed"):
        printed.add(name, None, 2)
    assert metrics.collect(tmp_path, tmp_path, [output("a.tfevents.1")], printed) == {
        "metrics": {
            "loss": ((0, 0.1),), ".: loss": ((1, 0.5),), "standard output: loss": ((0, 2),), "speed": ((0, 2),)
        },
        "metric_sources": {
            "loss": "keras", ".: loss": ".", "standard output: loss": "standard output", "speed": "standard output"
        },
    }  # fmt: skip
