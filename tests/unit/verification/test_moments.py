"""Times that are none of the run, and durations that are far apart, are quoted: a program can put a result there."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from envbuild.core.tfrecord import crc32c
from envbuild.record.model import Output
from envbuild.verification.content import read
from envbuild.verification.content.canonical import Canonical
from envbuild.verification.content.images import read_pdf
from envbuild.verification.files import masks_of, zones_of
from envbuild.verification.masking.durations import are_far_apart
from envbuild.verification.masking.printed import strange
from envbuild.verification.moments import strange_times
from envbuild.verification.ran import Ran
from tests.support.records import A, B, process, record, sha

START = datetime(2026, 1, 2, 3, 4, 6, tzinfo=timezone.utc)
"""When the run of these tests began, which took a minute."""
FAR, FARTHER = datetime(1999, 5, 6, 7, 8, 10, tzinfo=timezone.utc), datetime(2001, 1, 1, 0, 0, 0, tzinfo=timezone.utc)


def _zip(moment: datetime) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(zipfile.ZipInfo("w", moment.timetuple()[:6]), b"w")
    return data.getvalue()


def _tar(moment: datetime) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        member = tarfile.TarInfo("w")
        member.mtime = int(moment.timestamp())
        archive.addfile(member)
    return data.getvalue()


def _gzip(moment: datetime) -> bytes:
    return gzip.compress(b"w", mtime=int(moment.timestamp()))


def _png(moment: datetime) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head, pixels = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0), zlib.compress(b"\0\0")
    time = struct.pack(">H5B", *moment.timetuple()[:6])
    parts = (b"IHDR", head), (b"tIME", time), (b"IDAT", pixels), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*each) for each in parts)


def _text(moment: datetime) -> bytes:
    return f"saved at {moment:%Y-%m-%d %H:%M:%S}\n".encode()


def _runs(one: bytes, other: bytes, path: str = "r", **changes: Any) -> list[Ran]:
    """Two runs that left a file of other bytes, which was opened."""
    found = []
    for at, data in enumerate((one, other)):
        output = Output(path=path, change="created", size=len(data), sha256=sha(str(at)))
        each = record(outputs=(output,), **changes)
        content = read(data, masks_of(each))
        assert content is not None
        found.append(Ran(record=each, contents={path: content}))
    return found


@pytest.mark.parametrize("make", [_zip, _tar, _gzip, _png])
def test_a_time_of_no_run_in_a_format_is_quoted(make: Callable[[datetime], bytes]) -> None:
    """One of the run is what the format keeps, and one that both runs have is no result."""
    later = datetime(2026, 1, 2, 3, 4, 40, tzinfo=timezone.utc)
    (found,) = strange_times(_runs(make(FAR), make(FARTHER)), ())
    assert found.startswith("r: ")
    assert "1999-05-06 07:08:10 → 2001-01-01 00:00:00" in found
    (found,) = strange_times(_runs(make(FAR), make(START)), ())
    assert found.endswith("1999-05-06 07:08:10 → a time of the run")
    assert strange_times(_runs(make(START), make(later)), ()) == ()
    assert strange_times(_runs(make(FAR), make(FAR)), ()) == ()


def test_a_time_of_no_run_in_an_event_file_is_quoted() -> None:
    """In TensorBoard's files each value has one."""

    def events(seconds: float) -> bytes:
        found = b""
        for event in (
            b"\x09" + struct.pack("<d", 1e9) + b"\x1a\x0dbrain.Event:2",
            b"\x09" + struct.pack("<d", seconds),
        ):
            head = struct.pack("<Q", len(event))
            found += head + struct.pack("<I", crc32c(head)) + event + struct.pack("<I", crc32c(event))
        return found

    path = "events.out.tfevents.1767323046.host"
    (found,) = strange_times(_runs(events(FAR.timestamp()), events(FARTHER.timestamp()), path), ())
    assert found == f"{path}: time of event 1: 1999-05-06 07:08:10 → 2001-01-01 00:00:00"
    assert strange_times(_runs(events(START.timestamp()), events(START.timestamp() + 9), path), ()) == ()


def test_times_of_files_that_were_given_are_not_quoted() -> None:
    """What packs its inputs has their times, and copies of the project have others in each run."""
    runs = _runs(_zip(FAR), _zip(FARTHER))
    given = [
        replace(run, given=frozenset([f"{at:%Y-%m-%d %H:%M:%S}"])) for run, at in zip(runs, (FAR, FARTHER), strict=True)
    ]
    assert strange_times(given, ()) == ()
    assert strange_times([given[0], runs[1]], ())


def test_a_date_that_does_not_exist_is_quoted() -> None:
    """A zip archive can have a month of 0."""
    one, other = (_zip(FAR).replace(struct.pack("<H", 9894), struct.pack("<H", made)) for made in (9734, 9735))
    assert one != other
    assert strange_times(_runs(one, other), ())


@pytest.mark.parametrize(
    ("before", "after", "quoted"),
    [
        ((1980, 0, 0, 0, 0, 0), (1980, 0, 0, 0, 0, 0), False),  # PyTorch's
        ((1980, 0, 0, 0, 0, 0), (2026, 1, 2, 3, 4, 10), True),
        ((1980, 0, 0, 0, 0, 0), (1980, 1, 1, 0, 0, 0), True),
        ((1999, 5, 6, 7, 8, 10), (1999, 5, 6, 7, 8, 10), False),
        ((1999, 5, 6, 7, 8, 10), (1999, 5, 6, 7, 8, 12), True),
        ((1980, 0, 0, 0, 0, 0), (1999, 5, 6, 7, 8, 12), True),
    ],
)
def test_dates_of_members_with_other_names(before: tuple[int, ...], after: tuple[int, ...], *, quoted: bool) -> None:
    """Archives whose folder has the time in its name: ``ckpt_20260102-030407/data.pkl``."""
    packed = []
    for date, folder in ((before, "m_20260102-030407"), (after, "m_20260102-030409")):
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w") as archive:
            member = zipfile.ZipInfo(f"{folder}/w")
            member.date_time = date
            archive.writestr(member, b"w")
        packed.append(data.getvalue())
    assert bool(strange_times(_runs(*packed), ())) is quoted


def test_a_date_of_the_day_with_another_time_is_quoted_in_a_pdf() -> None:
    """The day is that of the run."""
    found = []
    for clock in ("070000", "080000"):
        out = Canonical(masks=masks_of(record()))
        read_pdf(out, "", f"%PDF /CreationDate (D:20260102{clock}Z)".encode())
        found.append(out.result())
    assert found[0].digest == found[1].digest
    assert found[0].strange != found[1].strange


def test_times_of_change_that_a_program_has_set_are_quoted() -> None:
    """Those of the run are luck, and clocks of file servers are some seconds off."""
    output = Output(path="w", change="created", size=1, sha256=sha("1"))
    first = Ran(record=record(outputs=(output,)))

    def written(moment: datetime, off: float = 0) -> Ran:
        return replace(first, written={"w": int((moment.timestamp() + off) * 1e9)})

    assert strange_times([written(START), written(START, 100)], ()) == ()
    (found,) = strange_times([written(START), written(FAR)], ())
    assert found == "w: time of change, which the program has set: a time of the run → 1999-05-06 07:08:10"
    assert strange_times([written(FAR), written(FAR)], ()) == ()


def test_names_with_a_time_of_no_run_are_quoted() -> None:
    """Files are compared under a common name, though a number of seconds need be none."""
    now = int(START.timestamp())

    def ran(name: str) -> Ran:
        return Ran(record=record(outputs=(Output(path=name, change="created", size=1, sha256=sha("1")),)))

    (found,) = strange_times([ran(f"ckpt_{now - 900}.txt"), ran(f"ckpt_{now + 2}.txt")], ())
    assert found == f"names of files: ckpt_{now - 900}.txt → ckpt_{now + 2}.txt: a run had no such time"
    assert strange_times([ran(f"ckpt_{now}.txt"), ran(f"ckpt_{now + 2}.txt")], ()) == ()


def test_dates_of_no_run_in_lines_of_files_are_quoted() -> None:
    """Whatever the words say."""
    near = START.replace(hour=7)
    assert strange_times(_runs(_text(START), _text(near)), ())
    assert strange_times(_runs(_text(START), _text(START.replace(second=40))), ()) == ()


@pytest.mark.parametrize("at", [0, 20_500, 20_999])
def test_a_time_of_no_run_behind_many_that_are_equal_is_quoted(at: int) -> None:
    """Very many places with times of another day must not hide the one that differs."""
    found = []
    for moment in (FAR, FARTHER):
        out = Canonical(masks=masks_of(record()))
        for number in range(21_000):
            out.note_strange(f"member {number}", f"{moment if number == at else START}")
        found.append(Ran(record=_runs(b"", b"1")[0].record, contents={"r": out.result()}))
        assert len(out.result().strange) <= 20_001
    (phrase,) = strange_times(found, ())
    assert phrase.startswith("r: ")
    assert strange_times(found[:1] * 2, ()) == ()


@pytest.mark.parametrize("at", [0, 20, 300, 499])
def test_a_time_of_no_run_among_many_of_one_place_is_quoted(at: int) -> None:
    """A line can have hundreds of them."""
    found = []
    for moment in (FAR, FARTHER):
        out = Canonical(masks=masks_of(record()))
        for number in range(500):
            out.note_strange("line 1", f"{moment if number == at else START}")
        found.append(Ran(record=_runs(b"", b"1")[0].record, contents={"r": out.result()}))
        assert len(out.result().strange["line 1"]) < 5000
    (phrase,) = strange_times(found, ())
    assert len(phrase) < 300


def test_durations_in_files_that_are_far_apart_are_quoted() -> None:
    """In text files as in what is printed."""
    assert strange_times(_runs(b"took 3 ms\n", b"took 3 s\n"), ()) == ("r: line 1: took 3 ms → took 3 s",)
    assert strange_times(_runs(b"took 3 ms\n", b"took 4 ms\n"), ()) == ()


@pytest.mark.parametrize(
    ("before", "after", "quoted"),
    [
        ("took 3 ms", "took 3 s", True),
        ("took -0.1 s", "took 0.1 s", True),
        ("took 0.1 s", "took 0.2 s", False),
        ("busiest at 07:04:10", "busiest at 09:04:10", True),
        ("saved at 03:04:10", "saved at 03:04:11", False),
        ("elapsed 00:00:10", "elapsed 00:00:11", False),
        ("saved 2026-01-02 03:04:10", "saved 2026-01-02 03:04:20", False),
        ("saved 2026-01-02 07:04:10", "saved 2026-01-02 08:04:10", True),
        ("saved 2026-01-01", "saved 2026-01-02", True),
        ("pid=8 best", "pid=8 best", False),
        ("pid=8 best", "pid=9 best", True),
        ("winner ForkPoolWorker-1", "winner ForkPoolWorker-2", True),
        ("ETA 05:10:00", "ETA 07:10:00", False),
        ("at 03:04:10 am", "at 03:04:10 pm", True),
        ("2026-01-02 08:34:10+05:30", "2026-01-02 03:04:20+00:00", False),
        ("2026-01-02 03:04:10-03:00", "2026-01-02 03:04:10+09:00", True),
        ("Fri Jan 02 03:04:10 2026", "Mon Jan 02 03:04:10 2026", True),
        ("Fri Jan 02 03:04:10 2026", "Fri Jan 02 03:04:11 2026", False),
        ("I0102 03:04:10.123456 9 a.cc:1] x", "I0102 03:04:10.123457 12 a.cc:1] x", False),
        ("I0102 03:04:10.123456 9 a.cc:1] x", "I0102 03:04:10.123457 64321 a.cc:1] x", True),
        ("I0102 03:04:10.1 140199183763264 a.cc:1] x", "I0102 03:04:10.2 140199183763328 a.cc:1] x", False),
        ("I0102 03:04:10.123456 9 a.cc:1] x", "I0302 03:04:10.123457 9 a.cc:1] x", True),
        ("I0000 00:00:1767323050.123456 2 a.cc:1] x", "I0000 00:00:1767323051.654321 2 a.cc:1] x", False),
        ("I0000 00:00:1767323050.123456 2 a.cc:1] x", "I0000 00:00:1767330250.654321 2 a.cc:1] x", True),
        ("I0000 00:00:1767323050.123456 2 a.cc:1] x", "I0000 00:00:17.654321 2 a.cc:1] x", True),
        ("http://127.0.0.1:12345", "http://127.0.0.1:12346", True),
        ("http://127.0.0.1:43210", "http://127.0.0.1:43212", False),
        ("sum 140199183763272", "sum 140199183763288", True),
        ("thread 140199183763264", "thread 140199183763328", False),
        ("m_2026-01-02_03-04-10_70793232", "m_2026-01-02_03-04-10_20529591", True),
        ("m_2026-01-02_03-04-10_7a793232", "m_2026-01-02_03-04-10_205295c1", False),
        (f"took 0.1 s{' ' * 30}x", f"took 0.2 s{' ' * 3}x", True),
        (f"took {' ' * 3}1.1 s", f"took {' ' * 2}10.2 s", False),
    ],
)
def test_printed_times_and_names_that_are_none_of_the_run_are_quoted(before: str, after: str, *, quoted: bool) -> None:
    """They are masked as those of the run are."""
    masks = masks_of(record(processes=(process(),)))
    found = [*strange("standard output", f"a\n{before}\n".encode(), f"a\n{after}\n".encode(), (masks, masks))]
    assert [(each.line, each.before, each.after) for each in found] == ([(2, before, after)] if quoted else [])


@pytest.mark.parametrize("before", ["pid=", "process id = ", "I0102 03:04:10.123456 "])
def test_numbers_of_thousands_of_digits_are_none_of_a_process(before: str) -> None:
    """Python makes no number of so many."""
    lines = [f"{before}{digit * 5000} a.cc:1] x\n".encode() for digit in "12"]
    masks = masks_of(record(processes=(process(),)))
    texts = {masks.mask(line.decode()).text for line in lines}
    assert len(texts) == 2 or [*strange("standard output", *lines, (masks, masks))]


def test_rows_of_numbers_take_no_time_that_grows_with_their_square() -> None:
    """A table has thousands of such lines."""
    line = "2026-01-02 03:04:10," + "1," * 2000
    begin = time.process_time()
    for _ in range(50):
        assert not are_far_apart(line, line)
    assert time.process_time() - begin < 20
    assert are_far_apart("took -1,5 s", "took 1,5 s")


@pytest.mark.parametrize(
    ("one", "other", "far"),
    [
        ("3 ms", "3 s", True),
        ("59s", "1m 0s", False),
        ("took 3", "took 3 s", True),
        ("1.5 s", "90 s", False),
        ("0.001 s", "0.5 s", False),  # short ones differ by luck
        ("2 µs", "2 s", True),
        ("23/23 - 0s - 10ms/step", "23/23 - 1s - 23ms/step", False),  # as Keras prints it, with no sign
        ("23/23 - 0s - 10ms/step", "23/23 - 3s - 130ms/step", False),
        ("took -0.0 s", "took 0.0 s", False),
        ("took 0 s", "took -1 s", True),
        ("took 0.00 s", "took 4 s", True),
        ("0.1e-3 s", "1.2 s", True),
        ("1e400 s", "1e400 s", False),
        ("0s", "200s", True),
        ("-2 min", "2 min", True),
        ("x" * 5000 + "1 ms", "x" * 5000 + "1 h", False),
    ],
)
def test_durations_far_apart(one: str, other: str, *, far: bool) -> None:
    """By their sign, or a hundred times as long and a second at least."""
    assert are_far_apart(one, other) == far


def test_another_name_in_the_head_of_a_gzip_file_is_quoted() -> None:
    """Not if it is that of a temporary file, or has the time in it."""
    head = b"\x1f\x8b\x08\x08" + bytes(6)

    def packed(name: bytes) -> bytes:
        return head + name + b"\0" + gzip.compress(b"a", mtime=0)[10:]

    (found,) = strange_times(_runs(packed(b"fold-3.csv"), packed(b"fold-4.csv")), ())
    assert found.endswith("the compressed data's name: fold-3.csv → fold-4.csv")
    assert strange_times(_runs(packed(b"tmpab12cd3e"), packed(b"tmp9ab8cd7e")), ()) == ()
    assert strange_times(_runs(packed(b"fold-3.csv"), packed(b"fold-3.csv")), ()) == ()


def test_microseconds_of_a_shown_date_are_no_time_of_day() -> None:
    """``135614`` reads as 13:56:14; the second itself counts, and one of no run is quoted."""
    shown = "started datetime.datetime({:%Y, %-m, %-d, %-H, %-M, %-S}, 135614)"
    masks = masks_of(record())
    assert masks.mask(shown.format(START)).strange == ()
    assert masks.mask(shown.format(START - timedelta(hours=3))).strange


@pytest.mark.parametrize(
    ("zone", "hours"),
    [("Asia/Tokyo", 9), ("JST-9", 9), ("EST5", -5), ("", 0), ("Nowhere/At_All", 0), ("../../etc/passwd", 0)],
)
def test_dates_of_a_zone_that_the_program_set_are_of_the_run(zone: str, hours: int) -> None:
    """By UTC and by that zone, not by others: hours that something drawn has added are quoted."""
    run = record(start="2026-11-28T12:00:00Z", duration=4.0, processes=(process(environment_changed={"TZ": zone}),))
    masks = masks_of(run)
    for ahead in (-5, 0, 1, 9):
        moment = datetime(2026, 11, 28, 12, 0, 2, 345678) + timedelta(hours=ahead)
        for text in (repr(moment), str(moment), moment.isoformat()):
            found = masks.mask(f"began {text}")
            of_zone = f"a time of the run, {hours:+d} h from UTC"  # not as one by UTC: what is drawn may choose
            assert (of_zone in found.strange) is (ahead == hours != 0), (ahead, text)
            assert bool(found.strange) is (ahead != 0), (ahead, text)


def test_dates_of_a_zone_and_by_utc_are_not_the_same() -> None:
    """A program that sets one zone, or its workers several, may choose which one it writes by what is drawn."""
    zones = [process(environment_changed={"TZ": zone}) for zone in ("Asia/Tokyo", "Europe/Rome")]
    masks = masks_of(record(start="2026-11-28T12:00:00Z", duration=4.0, processes=tuple(zones)))
    found = {masks.mask(f"done at 2026-11-28 {hour}:00:02").strange for hour in (12, 13, 21)}
    assert len(found) == 3
    assert masks.mask("done at 2026-11-28 21:00:02+09:00").strange == ()


def test_a_drawn_time_zone_is_quoted() -> None:
    """What follows it is a moment of each run."""
    runs = [record(processes=(process(environment_changed={"TZ": zone}),)) for zone in ("Asia/Tokyo", "Europe/Rome")]
    assert [zones_of(run) for run in runs] == [("Asia/Tokyo",), ("Europe/Rome",)]


@pytest.mark.parametrize(
    ("one", "other", "quoted"),
    [
        ("m_20260102_0304_acc91.pt", "m_20260102_0304_acc87.pt", True),
        ("m_2026-01-02_694475.pt", "m_2026-01-02_987661.pt", True),
        ("m_20260102_0304-123456.pt", "m_20260102_0304-654321.pt", True),
        ("m_20260102-030406_auc09123.pt", "m_20260102-030406_auc09077.pt", True),
        ("m_20260102-030406.pt", "m_20260102-030410.pt", False),
        ("m_20260102_0304_3fa9c.pt", "m_20260102_0304_b07e1.pt", False),
        ("m_20260102-030406_1b4e28ba.pt", "m_20260102-030410_c8ec453e.pt", False),
    ],
)
def test_digits_behind_a_date_in_a_name_are_quoted(one: str, other: str, *, quoted: bool) -> None:
    """The same letters with other digits are of no name that a run draws, and neither are digits alone."""
    runs = []
    for at, path in enumerate((one, other)):
        output = Output(path=path, change="created", size=1, sha256=sha("1"))
        runs.append(Ran(record=record(A if at else B, outputs=(output,))))
    said = f"names of files: {one} → {other}: digits behind a date may be a result"
    assert strange_times(runs, ()) == (said,) * quoted
