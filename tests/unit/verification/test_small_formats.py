"""CBOR, sheets of workbooks, times in HDF5 files, sampled profiles, reports of memory: measurements by their names."""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest

from envbuild.record.shared_names import names_in, shortened
from envbuild.verification.content import compare, leaves, read
from envbuild.verification.content.names import drawn_names, masked_path
from envbuild.verification.masking.masks import PROFILE_OF_SAMPLES, Masks
from envbuild.verification.masking.printed import rows

_NOW = 1_795_784_283.0  # 12:58:03 UTC


def _why(one: bytes, other: bytes) -> str:
    """Return what differs first; empty if the contents are equal."""
    first, second = read(one, Masks(_NOW)), read(other, Masks(_NOW))
    assert first is not None
    assert second is not None
    difference = compare(first, second)
    return "" if difference.same else difference.why or "the digest"


def _head(kind: int, size: int) -> bytes:
    if size < 24:
        return bytes([kind << 5 | size])
    return bytes([kind << 5 | 24, size]) if size < 256 else bytes([kind << 5 | 26]) + struct.pack(">I", size)


def _cbor(value: Any) -> bytes:
    """Return a value in CBOR, as RFC 8949 has it."""
    match value:
        case bool():
            return bytes([0xF5 if value else 0xF4])
        case int():
            return _head(0, value) if value >= 0 else _head(1, -1 - value)
        case float():
            return b"\xfb" + struct.pack(">d", value)
        case str():
            return _head(3, len(value.encode())) + value.encode()
        case bytes():
            return _head(2, len(value)) + value
        case list():
            return _head(4, len(value)) + b"".join(map(_cbor, value))
        case dict():
            return _head(5, len(value)) + b"".join(_cbor(key) + _cbor(each) for key, each in value.items())
        case tuple():
            return _head(6, value[0]) + _cbor(value[1])
    raise TypeError(value)


_RUN: dict[str, Any] = {
    "loss": 0.25,
    "fit_time": 0.125,
    "epochs": [{"epoch": 0, "epoch_time": 0.5}],
    "created": (1, _NOW),
}


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"fit_time": 0.25, "created": (1, _NOW + 3)}, ""),
        ({"epochs": [{"epoch": 0, "epoch_time": 0.75}]}, ""),
        ({"epochs": [{"epoch": 1, "epoch_time": 0.5}]}, "epochs[0].epoch: 0 → 1"),
        ({"loss": 0.5}, "loss: 0.25 → 0.5"),
        ({"loss": "0.25"}, "loss"),
        ({"loss": -1}, "loss"),
        ({"fit_time": -0.25}, "fit_time"),
        ({"created": _NOW}, "CBOR"),
        ({"created": (1, _NOW + 40 * 86400)}, "created"),
        ({"more": b"1"}, "{4} → {5}"),
    ],
)
def test_cbor(changed: Mapping[str, Any], why: str) -> None:
    """Tables by their keys; a tag counts, and so does what is no time of the run."""
    found = _why(_cbor(_RUN), _cbor({**_RUN, **changed}))
    assert (why in found) if why else not found


@pytest.mark.parametrize(
    "data",
    [
        _cbor(_RUN) + b"\0", _cbor([_RUN]), _cbor(_RUN)[:-1], b"\xa1\x61a\x18\x05", b"\xa1\x61a\xf9\0\0",
        b"\xbf\x61a\x01",
        b"\xa1\x61a" + b"\x81" * 300,
    ],
)  # fmt: skip
def test_other_data_are_no_cbor(data: bytes) -> None:
    """What is behind a table, numbers longer than they have to be, of 16 bits, without an end, or nested too deep."""
    assert read(data, Masks(_NOW)) is None or _why(data, data + b" ") != ""


def test_how_cbor_is_written_counts() -> None:
    """A table with a length is another one than one that goes on until a mark."""
    assert _why(b"\xa1\x61a\x01", b"\xbf\x61a\x01\xff") != ""
    assert _why(b"\xa1\x61a\x81\x01", b"\xa1\x61a\x9f\x01\xff") != ""
    assert _why(b"\xa1\x61a\x01", b"\xd9\xd9\xf7\xa1\x61a\x01") != ""


def _book(names: tuple[str, ...], rows_: list[tuple[Any, ...]], *, shared: bool = False) -> bytes:
    """Return a workbook of one sheet, with what is read of it."""

    def cell(at: int, number: int, value: Any) -> str:
        place = f"{'ABCD'[at]}{number}"
        if isinstance(value, str) and shared and number == 1:
            return f'<c r="{place}" t="s"><v>{at}</v></c>'
        if isinstance(value, str):
            return f'<c r="{place}" t="inlineStr"><is><t>{value}</t></is></c>'
        return f'<c r="{place}" s="1" t="n"><v>{value}</v></c>' if at % 2 else f'<c r="{place}"><v>{value}</v></c>'

    sheet = "".join(
        f'<row r="{number}">{"".join(cell(at, number, value) for at, value in enumerate(row))}</row>'
        for number, row in enumerate([names, *rows_], 1)
    )
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
        archive.writestr("xl/worksheets/sheet1.xml", f"<worksheet><sheetData>{sheet}</sheetData></worksheet>")
        if shared:
            archive.writestr(
                "xl/sharedStrings.xml", f"<sst>{''.join(f'<si><t>{name}</t></si>' for name in names)}</sst>"
            )
    return found.getvalue()


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    ("names", "one", "other", "same"),
    [
        (("fold", "score", "fit_time"), (1, 0.5, 0.125), (1, 0.5, 0.25), True),
        (("fold", "score", "fit_time"), (1, 0.5, 0.125), (1, 0.75, 0.125), False),
        (("fold", "score", "survival_time"), (1, 0.5, 0.125), (1, 0.5, 0.25), False),
        (("fold", "score", "fit_time"), (1, 0.5, 0.125), (1, 0.5, -0.25), False),
        (("fold", "score", "fit_time"), (1, 0.5, 0.125), (1, 0.5, "failed"), False),
        (("fit_time", "score", "fit_time"), (1, 0.5, 0.125), (1, 0.5, 0.25), False),
        (("fold", "gpu_mem_gb", "x"), (1, 1.5, 2), (1, 2.5, 2), True),
        (("a", "b", "c"), (1, 0.5, 0.125), (1, 0.5, 0.25), False),
    ],
)
def test_columns_of_sheets(
    names: tuple[str, ...], one: tuple[Any, ...], other: tuple[Any, ...], same: bool, *, shared: bool
) -> None:
    """The first row has their names, in the sheet or among the texts that all sheets share."""
    books = [_book(names, [(0, 0.5, 0.5), row], shared=shared) for row in (one, other)]
    assert (_why(*books) == "") is same


def test_names_may_be_in_the_first_column() -> None:
    """Of a sheet whose first row has a name and its value; numbers count by them, or are left out."""
    first = ("rows", 60)
    assert _why(*(_book(first, [("elapsed (s)", each), ("rmse", 0.5)]) for each in (0.125, 0.25))) == ""
    found = _why(*(_book(first, [("elapsed (s)", 0.125), ("rmse", each)]) for each in (0.5, 0.75)))
    assert found == "xl/worksheets/sheet1.xml.rmse: 0.5 → 0.75"
    assert _why(*(_book(("rows", each), [("elapsed (s)", 0.5)]) for each in (60, 61))) != ""
    assert _why(*(_book(first, [("elapsed (s)", each, 1)]) for each in (0.125, 0.25))) != ""
    assert _why(*(_book(first, [("elapsed (s)", each)]) for each in (0.125, "none"))) != ""


def test_a_time_in_the_first_row_names_no_column() -> None:
    """It is the value of the cell to its left; what is below it counts without a name."""
    one, other = "2026-11-29T12:58:03", "2026-11-29T12:58:04"
    assert _why(*(_book(("exported_at", moment), [("rows", 60)], shared=True) for moment in (one, other))) == ""
    assert _why(*(_book(("exported_at", one), [("rows", count)], shared=True) for count in (60, 61))) != ""


def test_numbers_of_sheets_have_the_names_of_their_columns() -> None:
    """By these experiments know what may be a time; without a name, or where two are alike, a number has none."""
    name = "xl/worksheets/sheet1.xml"
    books = [_book(("fold", "fit", "rmse"), [(0, 0.5, -0.25), (1, fit, 0.5)]) for fit in (0.125, 0.25)]
    assert _why(*books) == f"{name}.fit: 0.125 → 0.25"
    places = dict(leaves(books[0], Masks(_NOW)))
    assert places[f"{name}.fit"] == "0.125"
    assert places[f"{name}.rmse"] == "0.5"
    assert f"{name}.fit" not in dict(leaves(_book(("fit", "x", "fit"), [(0, 0.5, 0.25)]), Masks(_NOW)))
    assert _why(_book(("fold", "fit"), [(0, 0.5)]), _book(("fold", "fit"), [(0, "⟨number⟩")])) != ""


_OF_DUCKDB_2: dict[str, Any] = {
    "operator": [
        {
            "name": "RESULT_COLLECTOR",
            "type": "RESULT_COLLECTOR",
            "timing": 0.5,
            "extra_info": {},
            "children": [
                {"name": "SEQ_SCAN", "type": "TABLE_SCAN", "timing": 0.25, "rows_scanned": 7, "extra_info": {}}
            ],
        }
    ],
    "optimizer": {"join_order": 0.125, "total_time": 0.25},
    "planner": {"binding_time": 0.5, "total_time": 0.5},
    "query": {"cpu_time": 0.5, "sql": "select 1", "total_time": 0.75, "total_rows_scanned": 7},
    "system": {"blocked_thread_time": 0.0, "peak_streaming_buffer_size": 168},
}
_OF_DUCKDB_1: dict[str, Any] = {
    "query_name": "select 1",
    "latency": 0.5,
    "cpu_time": 0.25,
    "cumulative_cardinality": 7,
    "planner_binding": 0.5,
    "extra_info": {},
    "children": [
        {
            "operator_type": "TABLE_SCAN",
            "operator_timing": 0.5,
            "operator_cardinality": 7,
            "extra_info": {},
            "children": [],
        }
    ],
}


def _changed(table: dict[str, Any], path: tuple[Any, ...], value: Any) -> bytes:
    """Return a table as JSON with another value in one place."""
    table = json.loads(json.dumps(table))
    part: Any = table
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    return json.dumps(table).encode()


@pytest.mark.parametrize(
    ("table", "path", "same"),
    [
        (_OF_DUCKDB_2, ("operator", 0, "children", 0, "timing"), True),
        (_OF_DUCKDB_2, ("optimizer", "join_order"), True),
        (_OF_DUCKDB_2, ("query", "total_time"), True),
        (_OF_DUCKDB_2, ("planner", "binding_time"), True),
        (_OF_DUCKDB_2, ("operator", 0, "children", 0, "rows_scanned"), False),
        (_OF_DUCKDB_2, ("query", "total_rows_scanned"), False),
        (_OF_DUCKDB_2, ("query", "score"), False),
        (_OF_DUCKDB_2, ("system", "peak_streaming_buffer_size"), False),
        (_OF_DUCKDB_1, ("children", 0, "operator_timing"), True),
        (_OF_DUCKDB_1, ("latency",), True),
        (_OF_DUCKDB_1, ("planner_binding",), True),
        (_OF_DUCKDB_1, ("children", 0, "operator_cardinality"), False),
        (_OF_DUCKDB_1, ("timing",), False),
        ({**_OF_DUCKDB_1, "children": []}, ("latency_of_planner",), False),
        ({**_OF_DUCKDB_1, "children": [{"operator_timing": 1}]}, ("planner_binding",), False),
        ({**_OF_DUCKDB_2, "operator": [1]}, ("optimizer", "join_order"), False),
        ({**_OF_DUCKDB_2, "query": {"sql": "select 1"}}, ("optimizer", "join_order"), False),
    ],
)
def test_times_in_profiles_of_duckdb(table: dict[str, Any], path: tuple[Any, ...], same: bool) -> None:
    """What DuckDB measured is left out of what it writes of a query, and of nothing that has another form."""
    assert (_why(_changed(table, path, 0.375), _changed(table, path, 0.625)) == "") is same
    if same:
        assert _why(_changed(table, path, 0.375), _changed(table, path, "0.375")) != ""
        assert _why(_changed(table, path, -0.375), _changed(table, path, -0.5)) != ""


def test_other_archives_have_no_sheets() -> None:
    """Without a workbook a member of that name is a document as any other."""
    data = _book(("a", "fit_time"), [(1, 0.5)]).replace(b"xl/workbook.xml", b"xl/otherbook.xml"[:15])
    assert _why(data, _book(("a", "fit_time"), [(1, 0.25)]).replace(b"xl/workbook.xml", b"xl/otherbook.xml"[:15])) != ""


def _hdf5(seconds: float, rest: bytes = b"\0" * 16) -> bytes:
    return b"\x89HDF\r\n\x1a\n" + rest + struct.pack("<HHB3xB3xI", 0x12, 8, 0, 1, int(seconds)) + b"\7" * 9


def test_times_of_objects_in_hdf5() -> None:
    """Those of the run itself are left out where no reader knows the file; all other bytes count."""
    assert _why(_hdf5(_NOW), _hdf5(_NOW + 1)) == ""
    assert _why(_hdf5(_NOW), _hdf5(_NOW - 3600)) != ""
    assert _why(_hdf5(_NOW), _hdf5(_NOW, b"\0" * 15 + b"\1")) != ""
    assert _why(_hdf5(_NOW), _hdf5(_NOW) + b"\0") != ""
    assert read(_hdf5(_NOW)[:20], Masks(_NOW)) is None


_SESSION = {"target_description": "Profile at a.py:8", "sys_path": [], "sys_prefixes": [], "start_call_stack": []}


def _session(run: int, **changed: Any) -> dict[str, Any]:
    sampled = {
        "start_time": _NOW + run,
        "duration": 0.5 + run,
        "sample_count": 49 + run,
        "frame_records": [[["a"], run]],
    }
    return {**_SESSION, **sampled, "cpu_time": 0.25 + run, **changed}


def test_profiles_of_samples() -> None:
    """Where the profiler looked is left out, in its own files and in its pages; what was profiled counts."""
    one, other, third = (json.dumps(each) for each in (_session(0), _session(1), _session(1, target_description="b")))
    assert _why(one.encode(), other.encode()) == ""
    assert "target_description" in _why(one.encode(), third.encode())
    rendered = [
        {
            "start_time": _NOW + at,
            "duration": at,
            "sample_count": at,
            "target_description": "a",
            "root_frame": {"time": at},
        }
        for at in (1, 2)
    ]
    assert _why(*(json.dumps(each).encode() for each in rendered)) == ""
    page = "<!DOCTYPE html>\n<html><script>\n  const sessionData = {};\n</script><p>0.5</p></html>\n"
    pages = [page.replace("{}", json.dumps({"session": json.loads(each)})).encode() for each in (one, other)]
    assert _why(*pages) == ""
    assert _why(pages[0], pages[1].replace(b"0.5</p>", b"0.75</p>")) != ""
    frame = b'{"identifier": "f", "time": %d, "attributes": {}, "children": [%s]}'
    for tree, equal in (
        (frame % (1, frame.replace(b"%s", b"")), True),
        (frame % (1, b'{"accuracy": %d}'), False),
        (b'{"accuracy": %d}', False),
        (b'{"accuracy": %d, "identifier": "f", "time": 0, "attributes": {}, "children": []}', False),
    ):
        with_tree = [
            each.replace(b'"session"', b'"frame_tree": %s, "session"' % (tree % at)) for at, each in enumerate(pages)
        ]
        assert (_why(*with_tree) == "") is equal
    beside = [each.replace(b'"session"', b'"accuracy": %d, "session"' % at) for at, each in enumerate(pages)]
    assert _why(*beside) != ""
    inside = [each.replace(b'"start_time"', b'"accuracy": %d, "start_time"' % at) for at, each in enumerate(pages)]
    assert _why(*inside) != ""
    empty = [
        each.replace(b'"sample_count"', b'"sys_prefix": "%d", "sample_count"' % at) for at, each in enumerate(pages)
    ]
    assert _why(*empty) != ""
    assert _why(*(page.replace("{}", f'{{"session": {at}}}').encode() for at in (1, 2))) != ""


_PROFILE = r"""  _     ._   __/__   _ _  _  _ _/_   Recorded: 13:01:58  Samples:  49
 /_//_/// /_\ / //_// / //_'/ //     Duration: 0.808     CPU time: 0.633
/   _/                      v5.1.3

Profile at /workspace/pyi.py:8

0.807 <module>  pyi.py:1
└─ 0.807 work  pyi.py:3
   ├─ 0.787 svd  numpy/linalg/_linalg.py:1667
   │  └─ 0.015 __getattr__  numpy/__init__.py:704
   └─ 0.015 __getattr__  numpy/__init__.py:704
         [2 frames hidden]  numpy
   │     [9 frames hidden]  textwrap, <built-in>
   │        0.208 TextWrapper._wrap_chunks  textwrap.py:238
            0.144 [self]  textwrap.py
"""


def _kept(text: str) -> list[str]:
    found = [row.masked for row in rows(text.encode(), Masks(_NOW))]
    return [each.text for each in found if PROFILE_OF_SAMPLES not in each.kinds]


def test_a_printed_profile_ends_with_its_tree() -> None:
    """What is printed in front of it and behind it counts, whatever it looks like."""
    assert _kept(f"0.5 before\n{_PROFILE}\n\n0.25 accuracy\n") == ["0.5 before", "", "", "0.25 accuracy"]
    assert _kept(f"{_PROFILE.replace('└─', '`-').replace('├─', '|-').replace('│', '|')}\n`- 0.5\n") == ["", "`- 0.5"]
    assert _kept(f"{_PROFILE}0.25 accuracy\n└─ 0.5 x\n") == ["0.25 accuracy", "└─ 0.5 x"]
    for line in ("└─ best 0.5", "│ loss │ 0.5 │", "|- accuracy 0.5"):
        assert _kept(f"{_PROFILE}{line}\n") == [line]
    assert _kept("0.807 <module>  pyi.py:1\n└─ 0.807 work  pyi.py:3\n") != []


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ((5, "35.1", "0.0", 1, "s = 0"), True),
        ((5, "35.0", "-0.1", 1, "s = 0"), True),
        ((5, "35.0", "0.0", 171, "s = 0"), False),
        ((5, "35.0", "0.0", 1, "s = 1"), False),
        ((6, "35.0", "0.0", 1, "s = 0"), False),
    ],
)
def test_reports_of_memory(changed: tuple[Any, ...], same: bool) -> None:
    """memory_profiler's: what was in use is left out, lines and how often they ran count."""
    one, other = (_memory(row) for row in ((5, "35.0", "0.0", 1, "s = 0"), changed))
    assert (_kept(_HEADINGS + one) == _kept(_HEADINGS + other)) is same
    assert not any(row.masked.guessed for row in rows((_HEADINGS + one).encode(), Masks(_NOW)))


def test_a_table_of_the_programs_own_is_no_report_of_memory() -> None:
    """Its rows may look alike, also behind the other one's end; a model's size is a result."""
    before, after = (f"{_memory((1, used, '12.0', 3, 'conv1'))}\n" for used in ("512.0", "516.0"))
    assert _kept(before) != _kept(after)
    assert _kept(f"{_HEADINGS}{before}\n{before}") != _kept(f"{_HEADINGS}{before}\n{after}")
    assert _kept(f"{_HEADINGS}     4\n     5{' ' * 44}# a comment\n{before}") == _kept(
        f"{_HEADINGS}     4\n     5{' ' * 44}# a comment\n{after}"
    )


_TEMPLATE = "{:>6} {:>12} {:>12}  {:>10}   {:<}"
"""Of ``memory_profiler.show_results`` (0.61)."""
_HEADINGS = _TEMPLATE.format("Line #", "Mem usage", "Increment", "Occurrences", "Line Contents") + f"\n{'=' * 61}\n"


def _memory(row: tuple[Any, ...]) -> str:
    line, used, more, times, source = row
    return _TEMPLATE.format(line, f"{used} MiB", f"{more} MiB", times, f"    {source}")


_FIRST, _OTHER = "a7a02f7e-6e69-4613-a076-f09b9fcfa789", "c177d708-fc35-41eb-b5f2-8c991dde59d1"


@pytest.mark.parametrize(
    "form",
    ["run {} done", "job_{} done", "RUN{} done", "IMAGE{}", "({})"],
)
def test_uuids_in_capitals(form: str) -> None:
    """They are names as those in small letters are, also behind a word, and a catalogue that has them is found."""
    for one, other in ((_FIRST.upper(), _OTHER.upper()), *([] if "IMAGE" in form else [(_FIRST, _OTHER)])):
        before, after = (Masks(_NOW).mask(form.format(each)) for each in (one, other))
        assert before.text == after.text
        assert before.names == (one,)
        assert shortened(one) in {*names_in(form.format(one).encode())}


@pytest.mark.parametrize("form", ["{}0", "1{}", "{}x"])
def test_what_is_longer_is_no_uuid(form: str) -> None:
    """Digits in front of it, or anything behind it, are a part of a longer word."""
    assert Masks(_NOW).mask(form.format(_FIRST.upper())).text == form.format(_FIRST.upper())


def test_digests_as_uuids_count_in_capitals() -> None:
    """Versions 3 and 5 are made of a text."""
    text = f"run {str(UUID(_FIRST.replace('-4613', '-5613'))).upper()}"
    assert Masks(_NOW).mask(text).text == text


@pytest.mark.parametrize("form", ["out/{}.txt", "out/model_{}.txt", "out/ART{}.bin", "{}/w.npy"])
def test_files_named_by_uuids(form: str) -> None:
    """In capitals and behind words too."""
    for one, other in ((_FIRST, _OTHER), (_FIRST.upper(), _OTHER.upper())):
        assert masked_path(form.format(one), Masks(_NOW)) == masked_path(form.format(other), Masks(_NOW))
        assert one in drawn_names([form.format(one)])


_STATISTICS = """
 ----------------------------------------------------
| Time profiling stats (in seconds):                 |
 ----------------------------------------------------
total  |  min/index  |  max/index  |  mean  |  std

Processing function:
{} | 0.00109/17 | {} | 0.00136 | 0.00058

Event handlers:
{}

- Events.COMPLETED: ['{}']
0.00005

{}
"""
"""A part of what ``BasicTimeProfiler`` of pytorch-ignite 0.5 prints, and a line of the program's own."""
_OF_HANDLERS = "{:<12}  {:<19}  {:>14}  {:>14}  {:>14}  {:>14}  {:>14}  "
_RULER = "  ".join("-" * size for size in (12, 19, *[14] * 5)) + "  "


def _handlers(name: str, event: str, total: str, least: str, count: str = "1", loss: str = "0.5") -> str:
    """A table as ``HandlersTimeProfiler`` prints it."""
    head = _OF_HANDLERS.format("Handler", "Event Name", "Total(s)", "Min(s)/IDX", "Max(s)/IDX", "Mean(s)", "Std(s)")
    row = _OF_HANDLERS.format(name, event, total, least, "0.00217/0", "0.00212", "5e-05")
    idle = _OF_HANDLERS.format(
        "often", "ITERATION_COMPLETED", "not triggered", "None/None", "None/None", "None", "None"
    )
    sums = _OF_HANDLERS.format("Total", "", total, "", "", "", "")
    spent = (
        f"Processing took total {total}s [min/index: {least.replace('/', 's/')}, max/index: 0.0033s/3, mean: 0.0014s, "
    )
    lines = [_RULER, head, _RULER, row, idle, _RULER, sums, _RULER, f"{spent}std: 0.0006s]", f"{count} rows, {loss}"]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        (("0.12866", "0.00323/3", "0.00688", "done", "0.12345"), True),
        (("0.02866", "0.00313/11", "0.00598", "done", "0.12345"), True),
        (("0.02866", "0.00323/3", "0.00688", "save", "0.12345"), False),
        (("0.02866", "0.00323/3", "0.00688", "done", "0.12346"), False),
        (("0.02866", "none", "0.00688", "done", "0.12345"), False),
        (("0.02866", "0.00323/3", "-0.00688", "done", "0.12345"), False),
    ],
)
def test_times_in_the_first_table_of_ignite(changed: tuple[str, ...], same: bool) -> None:
    """They and the numbers of batches that took them are left out; names, and a number behind the table, are not."""
    one = _STATISTICS.format("0.02866", "0.00323/3", "0.00688", "done", "0.12345")
    assert (_kept(one) == _kept(_STATISTICS.format(*changed))) is same
    without_head = one.replace("Time profiling", "My profiling")
    assert _kept(without_head) != _kept(without_head.replace("0.02866", "0.12866"))


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        (("log_it", "EPOCH_COMPLETED", "0.00735", "0.00209/1"), True),
        (("log_it", "EPOCH_COMPLETED", "7e-05", "1e-05/2"), True),
        (("log_at", "EPOCH_COMPLETED", "0.00635", "0.00209/1"), False),
        (("log_it", "COMPLETED", "0.00635", "0.00209/1"), False),
        (("log_it", "EPOCH_COMPLETED", "0.00635", "0.00209/1", "2"), False),
        (("log_it", "EPOCH_COMPLETED", "0.00635", "0.00209/1", "1", "0.75"), False),
        (("log_it", "EPOCH_COMPLETED", "not triggered", "None/None"), False),
    ],
)
def test_times_in_the_second_table_of_ignite(changed: tuple[str, ...], same: bool) -> None:
    """Of each handler its name and its event count."""
    assert (_kept(_handlers("log_it", "EPOCH_COMPLETED", "0.00635", "0.00209/1")) == _kept(_handlers(*changed))) is same


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("import time:       637 |        733 |   _io", "import time:        96 |      10733 |   _io", True),
        ("import time:       637 |        733 |   _io", "import time:       637 |        733 |   _os", False),
        ("import time: 637 | 733 | _io", "import time: 637 | 734 | _io", False),
        ("import time:       637 |        733 |   a 1", "import time:       637 |        734 |   a 1", False),
        ("2000 loops, best of 5: 137 usec per loop", "5000 loops, best of 5: 61.2 usec per loop", True),
        ("1 loop, best of 5: 1.37 sec per loop", "2 loops, best of 5: 137 msec per loop", True),
        ("2000 loops, best of 5: 137 usec per loop", "2000 loops, best of 6: 137 usec per loop", False),
        ("2001 loops, best of 5: 137 usec per loop", "2002 loops, best of 5: 137 usec per loop", False),
        ("2000 loops, best of 5: 137 apples per loop", "5000 loops, best of 5: 137 apples per loop", False),
        (
            "137 µs ± 2.1 µs per loop (mean ± std. dev. of 7 runs, 10,000 loops each)",
            "1.2 ms ± 21 ns per loop (mean ± std. dev. of 7 runs, 1,000 loops each)",
            True,
        ),
        (
            "137 µs ± 2.1 µs per loop (mean ± std. dev. of 7 runs, 12,345 loops each)",
            "137 µs ± 2.1 µs per loop (mean ± std. dev. of 7 runs, 12,346 loops each)",
            False,
        ),
    ],
)
def test_times_that_python_prints(one: str, other: str, same: bool) -> None:
    """``-X importtime`` and ``timeit`` have a form of their own; how many loops there are is chosen by the clock."""
    assert (_kept(one) == _kept(other)) is same


def test_lines_of_the_hook_in_a_file() -> None:
    """verify varies what the hook imports: its modules may be there or not, and no others."""
    row = "import time:       637 |        733 |     {}\n"
    plain, hooked, own = (
        "".join(map(row.format, names)).encode()
        for names in (("_io", "abc"), ("_io", "_envbuild.hook.vary", "abc"), ("_io", "envbuild.hook.vary", "abc"))
    )
    assert _why(plain, hooked) == ""
    assert _why(plain, own) != ""
    assert _why(hooked, own) != ""
    assert _why(plain, hooked + b"loss 0.5\n") != ""


@pytest.mark.parametrize(
    ("path", "same"),
    [
        (("operator", 0, "children", 0, "timing"), True),
        (("optimizer", "join_order"), True),
        (("io", "total_read_time"), True),
        (("io", "total_bytes_read"), False),
        (("operator", 0, "children", 0, "rows_scanned"), False),
        (("query", "total_rows_scanned"), False),
    ],
)
def test_times_in_printed_profiles_of_duckdb(path: tuple[Any, ...], same: bool) -> None:
    """They are left out there too, but not in settings of an optimiser that are printed, nor behind the profile."""
    table = {"io": {"total_bytes_read": 0, "total_read_time": 0.5}, **_OF_DUCKDB_2}
    one, other = (json.dumps(json.loads(_changed(table, path, value)), indent=4) for value in (0.375, 0.625))
    assert (_kept(one) == _kept(other)) is same
    settings = one.replace("total_bytes_read", "bytes").replace('"join_order"', '"rate"')
    assert _kept(settings) != _kept(re.sub(r'"rate": [\d.]+', '"rate": 0.75', settings))
    behind = '\n        "optimizer": {\n            "join_order": '
    assert _kept(f"{one}{behind}0.5\n") != _kept(f"{one}{behind}0.25\n")
