"""Saved models, made by hand: what is read of each format, and that no file can do more than not be read."""

from __future__ import annotations

import hashlib
import io
import itertools
import math
import os
import pickle
import struct
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envbuild.runtime.tensors import __main__ as reader
from envbuild.runtime.tensors import contents as parts
from envbuild.runtime.tensors.contents import UnreadableError, blocks, gathered, row_major
from envbuild.runtime.tensors.of_numpy import type_of
from tests.support.models import Call, Global, Storage, npy, pickled, safetensors, tensor, torch_archive, zipped

SIX = struct.pack("<6f", *range(6))
HUGE = 1 << 61


def digest(values: bytes) -> str:
    return hashlib.sha256(values).hexdigest()[:32]


def entry(dtype: str, shape: list[int], values: bytes) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "digest": digest(values)}


FLOATS = entry("float32", [2, 3], SIX)


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Reads bytes as a file, in this process, without NumPy and h5py."""

    def read(data: bytes, budget: int = 1 << 40) -> dict[str, Any]:
        path = tmp_path / "file"
        path.write_bytes(data)
        return reader.read_file(str(path), budget, {})

    return read


Read = Callable[..., dict[str, Any]]


@pytest.mark.parametrize(
    ("data", "tensors"),
    [
        (npy("<f4", (2, 3), SIX), {"array": FLOATS}),
        (npy("<f4", (2, 3), SIX, version=3), {"array": FLOATS}),
        (npy("<f4", (2, 3), struct.pack("<6f", 0, 3, 1, 4, 2, 5), fortran=True), {"array": FLOATS}),
        (npy(">i2", (), b"\x00\x01"), {"array": entry(">int16", [], b"\x00\x01")}),
        (npy("|b1", (0, 4), b""), {"array": entry("bool", [0, 4], b"")}),
        (npy("<U2", (2,), b"12345678" * 2), {"array": entry("U2", [2], b"12345678" * 2)}),
        (npy("<M8[ns]", (1,), b"12345678"), {"array": entry("datetime64[ns]", [1], b"12345678")}),
        (
            npy([("a", "<f4"), ("b", "<i8", (2,))], (1,), b"x" * 20),
            {"array": entry("[('a', '<f4'), ('b', '<i8', (2,))]", [1], b"x" * 20)},
        ),
        (zipped({"a.npy": npy("<f4", (2, 3), SIX)}), {"a": FLOATS}),
        (zipped({"b/a.npy": npy("<f4", (2, 3), SIX)}, zipfile.ZIP_DEFLATED), {"b/a": FLOATS}),
        (zipped({"../../etc/a.npy": npy("<f4", (2, 3), SIX)}), {"../../etc/a": FLOATS}),
        (safetensors({"w": ("F32", (2, 3), SIX), "e": ("BF16", (0,), b"")}, {"format": "pt"}),
         {"w": FLOATS, "e": entry("bfloat16", [0], b"")}),
        (safetensors({"w": ("F4_NEW", (4,), b"ab")}), {"w": entry("f4_new", [4], b"ab")}),
    ],
)  # fmt: skip
def test_what_is_read(read: Read, data: bytes, tensors: dict[str, Any]) -> None:
    """Name, type, shape and digest in row-major order, whatever the format and the order of its bytes."""
    found = read(data)
    assert found["tensors"] == tensors
    assert (found["count"], len(found["content"])) == (len(tensors), 32)


def test_pytorch_archives(read: Read) -> None:
    """Names are the keys that lead to a tensor; views, transposed tensors and parameters are what they mean."""
    storage, half = Storage("FloatStorage", "0", 6), Storage("BFloat16Storage", "1", 2)
    whole = tensor(storage, 0, (2, 3))
    value = {
        "model": Call(
            "collections", "OrderedDict", ([["conv.weight", whole], ["conv.bias", tensor(storage, 3, (3,))]],)
        ),
        "turned": tensor(storage, 0, (3, 2), (1, 3)),
        "row": tensor(storage, 1, (2, 2), (0, 3)),
        "list": [tensor(half, 0, (2,)), {"x": 1}],
        "parameter": Call("torch._utils", "_rebuild_parameter", (tensor(storage, 0, (2, 3)), True, None)),
        "own": Call("mine", "Net", (), {"weight": tensor(storage, 5, ())}),
        7: tensor(storage, 0, (0, 3)),
    }
    found = read(torch_archive(value, {"0": SIX, "1": b"abcd"}))
    assert found["tensors"] == {
        "model.conv.weight": FLOATS,
        "model.conv.bias": entry("float32", [3], struct.pack("<3f", 3, 4, 5)),
        "turned": entry("float32", [3, 2], struct.pack("<6f", 0, 3, 1, 4, 2, 5)),
        "row": entry("float32", [2, 2], struct.pack("<4f", 1, 4, 1, 4)),
        "list.0": entry("bfloat16", [2], b"abcd"),
        "parameter": FLOATS,
        "own.weight": entry("float32", [], struct.pack("<f", 5)),
        "7": entry("float32", [0, 3], b""),
    }


def test_newer_and_quantised_tensors(read: Read) -> None:
    """A type that is next to the storage wins over it; one tensor under two keys has both names."""
    untyped = Storage("UntypedStorage", "0", 4)
    kind = Global("torch", "float8_e4m3fn")
    arguments = (untyped, 0, (4,), (1,), False, Call("collections", "OrderedDict"), kind)
    found = read(torch_archive({"f8": Call("torch._utils", "_rebuild_tensor_v3", arguments)}, {"0": b"abcd"}))
    assert found["tensors"] == {"f8": entry("float8_e4m3fn", [4], b"abcd")}
    made = pickled(tensor(untyped, 0, (4,)))[2:-1]
    memo = b"\x80\x02}(X\x01\x00\x00\x00a" + made + b"q\x00X\x01\x00\x00\x00bh\x00u."
    members = {"x/data.pkl": memo, "x/data/0": b"abcd"}
    assert read(zipped(members))["tensors"] == dict.fromkeys("ab", entry("uint8", [4], b"abcd"))


UNTYPED = Storage("UntypedStorage", "0", 4)


def contents_of(read: Read, data: bytes) -> str:
    found = read(data)
    assert "unread" not in found
    return str(found["content"])


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (zipped({"a.npy": npy("<f4", (2, 3), SIX)}),
         zipped({"a.npy": npy("<f4", (2, 3), SIX)}, comment=b"later"), False),
        (zipped({"a.npy": npy("<f4", (2, 3), SIX)}), zipped({"b.npy": npy("<f4", (2, 3), SIX)}), False),
        (npy("<f4", (2, 3), SIX), npy("<f4", (3, 2), SIX), False),
        (npy("<f4", (2, 3), SIX), npy("<i4", (2, 3), SIX), False),
        (safetensors({"a": ("I8", (1,), b"a"), "b": ("I8", (1,), b"b")}),
         safetensors({"b": ("I8", (1,), b"b"), "a": ("I8", (1,), b"a")}), True),
        (safetensors({"a": ("I8", (1,), b"a")}), safetensors({"a": ("I8", (1,), b"a")}, {"k": "v"}), False),
        (torch_archive({"epoch": 3}, {}), torch_archive({"epoch": 4}, {}), False),
        (torch_archive({"lr": 0.1}, {}), torch_archive({"lr": 0.1}, {}), True),
        (torch_archive({}, {}, code=b"a"), torch_archive({}, {}, code=b"b"), False),
        (torch_archive([1, [2]], {}), torch_archive([[1], 2], {}), False),
        (torch_archive({}, {}), torch_archive({}, {"0": b"a"}), False),
        (torch_archive([UNTYPED], {"0": b"abcd"}), torch_archive([UNTYPED], {"0": b"abce"}), False),
        (torch_archive({}, {}), torch_archive({}, {}) + b"more", False),
        (torch_archive({}, {}), torch_archive(Call("collections", "OrderedDict"), {}), False),
        (torch_archive(Call("a", "b", (1,)), {}), torch_archive(Call("a", "c", (1,)), {}), False),
    ],
)  # fmt: skip
def test_content_is_what_a_file_means(read: Read, left: bytes, right: bytes, same: bool) -> None:
    """Tensors, names and all other values count; order, alignment and comments do not."""
    assert (contents_of(read, left) == contents_of(read, right)) is same


class _Evil:
    def __reduce__(self) -> Any:
        return os.system, ("touch harmed",)


def nested(levels: int) -> bytes:
    return b"\x80\x02" + b"]" * levels + b"a" * (levels - 1) + b"."


def laughs(levels: int) -> bytes:
    """A list of two lists that are one, of two lists that are one, and so on: 2 to the power of levels in all."""
    data = b"\x80\x02]q\x00"
    for level in range(levels):
        data += b"]q" + bytes([level + 1]) + b"(h" + bytes([level]) + b"h" + bytes([level]) + b"e"
    return data + b"."


def with_header(header: bytes, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header)) + header + data


def overlapping() -> bytes:
    """An archive whose directory names one member twice."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.npy", npy("<f4", (2, 3), SIX))
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("a.npy", npy("<f4", (2, 3), SIX[::-1]))
    return buffer.getvalue()


def bomb() -> bytes:
    """A member that states it has four gigabytes."""
    data = bytearray(zipped({"a.npy": npy("<f4", (2, 3), SIX)}, zipfile.ZIP_DEFLATED))
    place = data.index(b"PK\x01\x02")
    data[place + 24 : place + 28] = b"\xf0\xff\xff\xff"
    return bytes(data)


def misplaced() -> bytes:
    """An archive whose only member is before its first byte."""
    data = bytearray(zipped({"a.npy": npy("<f4", (2, 3), SIX)}, zipfile.ZIP_DEFLATED))
    data[-5] += 1
    return bytes(data)


def misnamed() -> bytes:
    """A member whose name is UTF-8 in the directory and something else where it is."""
    data = bytearray(zipped({"a.npy": npy("<f4", (2, 3), SIX)}, zipfile.ZIP_DEFLATED))
    data[data.index(b"PK\x01\x02") + 9] |= 8
    data[30] = 0x9B
    return bytes(data)


FOUR = ("FloatStorage", "0", 6)
HOSTILE = [
    (b"", "it is empty"),
    (b"hello, world", "it begins like no format that is known"),
    (pickle.dumps({"a": 1}), "it is a pickle, which only running it could read"),
    (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.rest",
     "PyTorch's format from before 1.6 is not read: save it without the old format"),
    (b"\x89HDF\r\n\x1a\n" + bytes(100), "the environment has no h5py, which reads HDF5"),
    (b"PK\x03\x04" + bytes(50), "a damaged zip archive: File is not a zip file"),
    (zipped({"readme": b"x"}), "it is a zip archive of no kind that is known"),
    (zipped({"config.json": b"{}", "model.weights.h5": b"x"}), "the environment has no h5py, which reads HDF5"),
    (zipped({"config.json": b"{}", "metadata.json": b"["}), "metadata.json is damaged"),
    (npy("<f4", (2, 3), SIX[:-1]), "array has 23 bytes of values, 24 by its shape"),
    (npy("|O", (1,), pickle.dumps([1])), "an array of Python objects"),
    (npy("<q9", (1,), b"x"), "an array of unknown type '<q9'"),
    (npy("<f4", (HUGE, HUGE), b""), "a shape is larger than any memory"),
    (npy("<f4", (-1,), b""), "a shape is not made of numbers"),
    (npy("<f4", ("a",), b""), "a shape is not made of numbers"),
    (npy(_Evil.__name__, (1,), b""), "an array of unknown type '_Evil'"),
    (b"\x93NUMPY\x01\x00\xff\xff", "array is no array of a known version of NumPy's format"),
    (b"\x93NUMPY\x09\x00\xff\xffabcd", "array is no array of a known version of NumPy's format"),
    (b"\x93NUMPY\x01\x00\xff\xffabcd", "the header of array is longer than the file or 65536 bytes"),
    (b"\x93NUMPY\x01\x00\x10\x00__import__('os')x", "the header of array is damaged"),
    (b"\x93NUMPY\x01\x00\xff\x00" + b"(" * 255, "the header of array is damaged"),
    (overlapping, "a zip archive with members that hide others"),
    (misplaced, "a.npy is damaged: a place before the start"),
    (misnamed, "a.npy is damaged: "),
    (bomb, "a.npy is compressed and has 4294967280 bytes, more than 16777216"),
    (with_header(b'{"a": 1}'), "the entry of a is damaged"),
    (with_header(b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}'),
     "a is beyond the end of the file"),
    (with_header(b'{"a": {"dtype": "F32", "shape": [9], "data_offsets": [0, 4]}}', b"abcd"),
     "a has 4 bytes of values, 36 by its shape"),
    (with_header(b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 4]}}', b"abcd"),
     "a is beyond the end of the file"),
    (with_header(b'{"a": {"dtype": "F32", "shape": 1, "data_offsets": [0, 4]}}', b"abcd"),
     "a shape is not made of numbers"),
    (with_header(b'{"a": [' + b"[" * 100_000), "a damaged header"),
    (torch_archive(tensor(Storage(*FOUR), 1, (2, 3)), {"0": SIX}), "values lie beyond the end of their storage"),
    (torch_archive(tensor(Storage(*FOUR), 0, (HUGE, 2), (0, 0)), {"0": SIX}), "a shape is larger than any memory"),
    (torch_archive(tensor(Storage(*FOUR), 0, (1 << 45,), (0,)), {"0": SIX}),
     "more than 1099511627776 bytes of values are left to read"),
    (torch_archive(tensor(Storage(*FOUR), 0, (2,), (-1,)), {"0": SIX}), "strides do not fit the shape"),
    (torch_archive(tensor(Storage(*FOUR), 0, (2,), (1, 1)), {"0": SIX}), "strides do not fit the shape"),
    (torch_archive(tensor(Storage("FloatStorage", "../../0", 6), 0, (2,)), {"0": SIX}),
     "a zip archive without archive/data/../../0"),
    (torch_archive(tensor(Storage("OddStorage", "0", 6), 0, (2,)), {"0": SIX}),
     "its structure cannot be read: UnpicklingError: a storage of unknown type OddStorage"),
    (torch_archive({"a": Call("torch._utils", "_rebuild_odd", (Storage(*FOUR),))}, {"0": SIX}),
     "a: tensors of the kind odd are not known"),
    (zipped({"a/data.pkl": b"\x80\x02}"}), "its structure cannot be read: EOFError: Ran out of input"),
    (zipped({"a/data.pkl": b"\x80\x02r\xff\xff\xff\x7f."}), "its structure cannot be read: "),
    (zipped({"a/data.pkl": nested(100_000)}), "it is nested too deeply"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "why"), HOSTILE)
@pytest.mark.filterwarnings("error")
def test_hostile_files_are_not_read(read: Read, data: Any, why: str) -> None:
    """Damage, bombs and false sizes end with a message."""
    unread = read(data() if callable(data) else data)["unread"]
    assert unread.startswith(why) if why.endswith(": ") else unread == why


def test_nothing_of_a_pickle_runs(read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pickle that would run a command is read as a thing with an argument."""
    monkeypatch.chdir(tmp_path)
    data = pickle.dumps({"x": _Evil()}, 2)
    pickle.loads(data)
    assert (tmp_path / "harmed").exists()
    (tmp_path / "harmed").unlink()
    assert read(zipped({"a/data.pkl": data}))["count"] == 0
    assert not (tmp_path / "harmed").exists()


def test_structures_that_multiply(read: Read) -> None:
    """Each list is visited once, however often it is in others; cycles end."""
    assert read(zipped({"a/data.pkl": laughs(200)}))["count"] == 0
    assert read(zipped({"a/data.pkl": b"\x80\x02]q\x00h\x00a."}))["count"] == 0


def test_the_budget_is_shared(read: Read) -> None:
    """What one tensor has used is not there for the next."""
    data = safetensors({"a": ("F32", (2, 3), SIX), "b": ("F32", (2, 3), SIX)})
    assert read(data, 48)["count"] == 2
    assert read(data, 47) == {"unread": "more than 23 bytes of values are left to read"}


def test_the_budget_is_shared_by_files(tmp_path: Path) -> None:
    """What one file has used is not there for the next."""
    for name in "abc":
        (tmp_path / name).write_bytes(npy("<f4", (2, 3), SIX))
    found = reader.read_all(str(tmp_path), ["a", "b", "c"], budget=50)
    assert [each.get("unread") for each in found.values()] == [
        None, None, "more than 2 bytes of values are left to read"
    ]  # fmt: skip


def test_which_list_is_shared_counts(read: Read) -> None:
    """``[a, b, a]`` and ``[a, b, b]`` are different contents."""
    again = [zipped({"a/data.pkl": b"\x80\x02](]q\x00]q\x01h" + place + b"e."}) for place in (b"\x00", b"\x01")]
    assert contents_of(read, again[0]) != contents_of(read, again[1])


def test_names_that_clash_or_run_on(read: Read) -> None:
    """No tensor hides another, and no name is longer than a line."""
    storage = Storage("ByteStorage", "0", 2)
    value = {"a": {"b": tensor(storage, 0, ())}, "a.b": tensor(storage, 1, ()), "x" * 1000: tensor(storage, 0, ())}
    found = read(torch_archive(value, {"0": b"12"}))["tensors"]
    assert list(found)[:2] == ["a.b", "a.b (1)"]
    assert max(map(len, found)) == parts.NAME + 9


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damage_anywhere_is_no_crash(read: Read, data: st.DataObject) -> None:
    """Whatever bytes are changed, the answer is tensors or a sentence."""
    storage = Storage(*FOUR)
    whole = data.draw(
        st.sampled_from([
            npy("<f4", (2, 3), SIX), zipped({"a.npy": npy("<f4", (2, 3), SIX)}, zipfile.ZIP_DEFLATED),
            safetensors({"w": ("F32", (2, 3), SIX)}), torch_archive({"w": tensor(storage, 0, (2, 3))}, {"0": SIX}),
        ])
    )  # fmt: skip
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    found = read(bytes(damaged[: data.draw(st.integers(0, len(whole)))]))
    assert found.get("unread") or found["content"]


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4).flatmap(
        lambda shape: st.tuples(
            st.just(shape), st.permutations(range(len(shape))), st.sampled_from([1, 2, 3, 4, 8, 20])
        )
    )
)
def test_strided_values_come_in_row_major_order(case: tuple[list[int], list[int], int]) -> None:
    """Any order of axes and any size of element, as element by element."""
    shape, order, size = case
    values = bytes(range(256)) * 20
    view = memoryview(values[: math.prod(shape) * size])
    strides = [0] * len(shape)
    step = 1
    for axis in order:
        strides[axis], step = step, step * shape[axis]
    expected = b""
    for index in itertools.product(*map(range, shape)):
        place = sum(map(int.__mul__, index, strides)) * size
        expected += values[place : place + size]
    assert b"".join(gathered(view, size, 0, shape, strides)) == expected


@given(st.lists(st.integers(0, 7), max_size=4), st.integers(1, 40))
def test_blocks_cover_an_array_in_order(shape: list[int], limit: int) -> None:
    """Every element is in one block, in order, and no block is larger than the limit or one element."""

    def places(index: tuple[Any, ...]) -> list[int]:
        ranges = [
            range(extent)[part] if isinstance(part, slice) else [part]
            for extent, part in zip(shape, index, strict=False)
        ]
        ranges += [range(extent) for extent in shape[len(index) :]]
        return [sum(map(int.__mul__, place, row_major(shape))) for place in itertools.product(*ranges)]

    cut = [places(index) for index in blocks(shape, 1, limit)]
    assert [place for block in cut for place in block] == list(range(math.prod(shape)))
    assert all(len(block) <= limit for block in cut)


def test_types_have_one_name() -> None:
    """Kinds of NumPy become words, with their size in bytes."""
    assert type_of("<c16") == ("complex128", 16)
    assert type_of("|V3") == ("V3", 3)
    with pytest.raises(UnreadableError, match=r"^an array of an unknown type$"):
        type_of([("a",)])


def test_each_file_has_its_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that dies, hangs or leaves by an error is a sentence for its file; others are read."""
    good = npy("<f4", (2, 3), SIX)
    for name in ("good", "killed", "hangs", "leaves"):
        (tmp_path / name).write_bytes(good)
    (tmp_path / "link").symlink_to("good")
    (tmp_path / "folder").mkdir()
    real = reader.read_file

    def read_file(path: str, *rest: Any) -> dict[str, Any]:
        if path.endswith("killed"):
            os.kill(os.getpid(), 9)
        if path.endswith("leaves"):
            os._exit(3)
        if path.endswith(("hangs", "late")):
            time.sleep(60)
        return real(path, *rest)

    def in_child(path: str, *rest: Any) -> bytes | str:
        if path.endswith("hangs"):
            clock.append(599.5)
        answer = in_child_of(path, *rest)
        if path.endswith("hangs"):
            clock.append(600.0)
        return answer

    # The clock moves only where the test has it move: no other file is late on a busy machine, and "late" surely is.
    clock, in_child_of = [0.0], reader._in_child
    monkeypatch.setattr(reader, "monotonic", lambda: clock[-1])
    monkeypatch.setattr(reader, "_in_child", in_child)
    monkeypatch.setattr(reader, "read_file", read_file)
    names = ["good", "killed", "leaves", "link", "folder", "gone", "hangs", "late"]
    found = reader.read_all(str(tmp_path), names, seconds=600)
    assert found.pop("good")["tensors"]["array"]["digest"] == digest(SIX)
    assert {name: each["unread"] for name, each in found.items()} == {
        "killed": "its reader was ended by signal 9",
        "leaves": "its reader ended without an answer",
        "link": "it cannot be read: Too many levels of symbolic links",
        "folder": "it is no regular file",
        "gone": "it cannot be read: No such file or directory",
        "hangs": "reading took too long",
        "late": "reading took too long",
    }


def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that makes its reader ask for more memory than it may have is not read."""
    (tmp_path / "a").write_bytes(npy("<f4", (2, 3), SIX))
    monkeypatch.setattr(reader, "_read", lambda *rest: bytearray(1 << 30))
    assert reader.read_all(str(tmp_path), ["a"]) == {"a": {"unread": "it needs more than 448 MiB of memory"}}


def test_too_many_tensors_are_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files beyond the limit keep the digest of their content."""
    monkeypatch.setattr(reader, "LISTED", 1)
    for name in "ab":
        (tmp_path / name).write_bytes(npy("<f4", (2, 3), SIX))
    found = reader.read_all(str(tmp_path), ["a", "b"])
    assert ("tensors" in found["a"], "tensors" in found["b"]) == (True, False)
    assert found["a"]["content"] == found["b"]["content"]


def test_a_type_that_numpy_does_not_know_is_not_measured(tmp_path: Path) -> None:
    """A damaged file may have integers of seven bytes: what they are is counted, how large they are is not."""

    def known(name: str) -> None:
        raise TypeError(f"data type {name!r} not understood")

    header = b"{'descr': '<i7', 'fortran_order': False, 'shape': (2,), }\n"
    path = tmp_path / "a.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(14))
    found = reader.read_file(str(path), 1 << 20, {"numpy": SimpleNamespace(dtype=known)})
    assert found["tensors"]["array"]["dtype"] == "int56"
    assert "low" not in found["tensors"]["array"]


def test_arrays_behind_each_other_all_count(read: Read) -> None:
    """``numpy.save`` into an open file adds an array; other bytes behind one belong to none: nothing is claimed."""
    one, two, other = (npy("<f4", (1,), values) for values in (b"1234", b"5678", b"5679"))
    assert read(one + two)["tensors"].keys() == {"array", "array[1]"}
    assert contents_of(read, one + two) != contents_of(read, one + other)
    assert contents_of(read, one + two) != contents_of(read, one)
    assert "unread" in read(one + b"x")
    assert "unread" in read(zipped({"a.npy": one + b"x"}))


def test_every_byte_of_safetensors_belongs_to_a_tensor(read: Read) -> None:
    """Holes, bytes behind the last tensor and a name that comes twice are read by nobody."""
    whole = safetensors({"a": ("I8", (1,), b"a"), "b": ("I8", (1,), b"b")})
    assert "unread" not in read(whole)
    assert "unread" in read(whole + b"x")
    hole = b'{"a": {"dtype": "I8", "shape": [1], "data_offsets": [1, 2]}}'
    assert "unread" in read(with_header(hole, b"xa"))
    row = b'"a": {"dtype": "I8", "shape": [1], "data_offsets": [0, 1]}'
    twice = b"{" + row + b", " + row + b"}"
    assert "unread" in read(with_header(twice, b"a"))
