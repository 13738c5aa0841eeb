"""Data of which little takes long, or that no writer makes: read in time, or counted by their bytes."""

from __future__ import annotations

import io
import json
import pickle
import struct
import tarfile
import time
from collections.abc import Callable
from datetime import timedelta

import pytest

from envbuild.verification.content import read
from envbuild.verification.content.canonical import Canonical, UnreadableError
from envbuild.verification.content.parquet_pages import Column, texts_of
from envbuild.verification.content.snappy import unpack_snappy
from envbuild.verification.content.workbooks import strings_of, without_measurements
from envbuild.verification.files import masks_of
from envbuild.verification.masking.masks import Masks
from tests.support.records import record

_LONG = 20.0
"""Seconds of a CPU that none of these takes; each took more, or would, by the square of its size."""
_HUGE = b"\x8b" + struct.pack("<i", 2200) + b"\x7f" * 2200
"""A number of thousands of digits, as a pickle has it."""
_STAMP = b"cpandas._libs.tslibs.timestamps\n_unpickle_timestamp\n("
_CYRILLIC = b"c_codecs\nencode\n(X\x02\0\0\0\xd0\x90X\x06\0\0\0latin1tR"


@pytest.mark.parametrize(
    "packed",
    [
        _STAMP + _HUGE + b"NNK\x0atR",
        b"cdatetime\ntimedelta\n(" + _HUGE + b"K\0K\0tR",
        b"cdatetime\ndatetime\n(" + _CYRILLIC + b"tR",
    ],
    ids=("a stamp", "a span", "a date"),
)
def test_parts_of_objects_may_be_anything(packed: bytes) -> None:
    """Numbers that no date has, and texts where bytes should be: they count as they are."""
    assert read(b"\x80\x04" + packed + b".", masks_of(record())) is not None


def test_a_negative_span_is_written_as_a_number() -> None:
    """One and a half seconds back are not minus two and a half."""
    content = read(pickle.dumps({"shift": timedelta(seconds=-1.5)}), masks_of(record()))
    assert content is not None
    assert ("shift", "-1.500000") in content.entries


def _snappy(copies: int) -> bytes:
    size = 4 << 20
    total, head = size + copies, b""
    while total >= 128:
        head, total = head + bytes([total & 127 | 128]), total >> 7
    literal = bytes([62 << 2]) + (size - 1).to_bytes(3, "little") + bytes(size)
    return head + bytes([total]) + literal + (b"\x03" + size.to_bytes(4, "little")) * copies


def _json() -> bytes:
    return json.dumps({f"{number:x}".translate(_LETTERS) + "_time": number + 0.25 for number in range(60_000)}).encode()


_LETTERS = str.maketrans("0123456789", "ghijklmnop")


def _tar() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for number in range(20_000):
            member = tarfile.TarInfo(f"f{number}")
            member.size = 3000
            archive.addfile(member, io.BytesIO(bytes(3000)))
    return made.getvalue()


@pytest.mark.parametrize("make", [_json, _tar])
def test_many_parts_take_no_time_by_what_is_next_to_them(make: Callable[[], bytes]) -> None:
    """Keys of one table, each of which is a label of its own, and members of an archive."""
    data = make()
    begin = time.process_time()
    assert read(data, masks_of(record())) is not None
    assert time.process_time() - begin < _LONG


def test_copies_of_far_back_take_no_time_by_their_distance() -> None:
    """Snappy's copies of one byte each, from megabytes before."""
    begin = time.process_time()
    assert len(unpack_snappy(Canonical(masks=masks_of(record())), _snappy(30_000))) == (4 << 20) + 30_000
    assert time.process_time() - begin < _LONG


def _page(count: int, body: bytes) -> bytes:
    """A page of plain texts, uncompressed."""

    def zigzag(number: int) -> bytes:
        number, found = number << 1, b""
        while number >= 128:
            found, number = found + bytes([number & 127 | 128]), number >> 7
        return found + bytes([number])

    head = b"\x15" + zigzag(0) + b"\x15" + zigzag(len(body)) + b"\x15" + zigzag(len(body))
    return head + b"\x2c\x15" + zigzag(count) + b"\x15" + zigzag(0) + b"\x15\x06\x15\x06\0\0" + body


_TEXT = b"\x02\0\0\0ab"


@pytest.mark.parametrize(
    ("pages", "count", "optional"),
    [
        (_page(1, _TEXT) * 3, 2, False),  # more than the column has
        (_page(1, _TEXT), 2, False),  # fewer
        (_page(1, _TEXT)[:-1], 1, False),
        (_page(3, (40_000).to_bytes(4, "little") + b"\xff" * 39_999 + b"\x01"), 3, True),  # a number without an end
        (_page(1, b"\x02\0\0\0\x02\x05" + _TEXT * 5), 1, True),  # a level above the highest
    ],
    ids=("more", "fewer", "too short", "a number without an end", "a level above the highest"),
)
def test_pages_that_no_writer_makes(pages: bytes, count: int, optional: bool) -> None:
    """The column then counts by its bytes."""
    with pytest.raises(UnreadableError):
        texts_of(Canonical(masks=masks_of(record())), pages, Column(0, count, optional))


def test_several_pages_of_a_column() -> None:
    """Two with a text each, one with none: as many as the column has."""
    found = texts_of(
        Canonical(masks=masks_of(record())), _page(1, _TEXT) + _page(0, b"") + _page(1, _TEXT), Column(0, 2, False)
    )
    assert found.texts == ["ab", "ab"]


def test_a_column_whose_name_is_a_number() -> None:
    """As many bytes are not made of it."""
    name = b"\x36\xfe\xff\xff\xff\xff\xff\x3f"
    footer = b"\x15\x02\x19\x1c\x15\x0c" + name + b"\0\x16\0\x19\x0c\0"
    data = b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    assert read(data, masks_of(record())) is None


def test_blocks_of_a_frame_that_share_an_array() -> None:
    """It is looked through once, however many columns it is said to be."""

    def text(value: str) -> bytes:
        return b"X" + struct.pack("<I", len(value)) + value.encode()

    count = 100_000
    kind = (
        b"cnumpy\ndtype\n"
        + text("f8")
        + b"\x89\x88\x87R(K\x03"
        + text("<")
        + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb"
    )
    shape = b"K\x01J" + struct.pack("<i", count) + b"\x86"
    array = b"cnumpy._core.multiarray\n_reconstruct\n)R(K\x01" + shape + kind + b"\x89B" + struct.pack("<I", 8 * count)
    array += bytes(8 * count) + b"tb"
    block = b"cpandas._libs.internals\n_unpickle_block\n(%scbuiltins\nslice\n(K\0K\x01K\x01tRK\x02tR"
    blocks = b"(" + block % (array + b"q\x01") + block % b"h\x01" * 500 + b"t"
    names = b"cnumpy._core.multiarray\n_reconstruct\n)R(K\x01K\x01\x85N\x89]" + text("fit_time") + b"atb"
    index = b"cpandas.core.indexes.base\n_new_Index\n(N}" + text("data") + names + b"stR"
    frame = b"cpandas.core.internals.managers\nBlockManager\n(" + blocks + b"]" + index + b"atR"
    begin = time.process_time()
    content = read(b"\x80\x04" + frame + b".", masks_of(record()))
    assert time.process_time() - begin < _LONG / 4
    assert content is not None
    assert "fit_time" in content.left_out


def test_cells_of_a_workbook_that_are_not_closed_take_no_longer_than_others() -> None:
    """A megabyte took six minutes."""
    start = time.process_time()
    head = '<row r="1"><c r="A1" t="inlineStr"><is><t>fit_time</t></is></c></row>'
    without_measurements(Canonical(masks=Masks(0.0)), "", head + '<c r="A2">' * 100_000, [])
    strings_of("<si>" * 200_000)
    assert time.process_time() - start < 10
