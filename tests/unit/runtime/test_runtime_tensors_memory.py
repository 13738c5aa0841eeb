"""The reader of saved models within 512 MB, whatever a file has or states it has."""

from __future__ import annotations

import hashlib
import json
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from envbuild.runtime.tensors import __main__ as reader
from envbuild.runtime.tensors.archive import HELD
from envbuild.runtime.tensors.contents import PIECE, gathered
from tests.support.models import Storage, npy, tensor, torch_archive, zipped

ROOT = Path(__file__).parents[3]
MEMORY = 512 << 20
BIG = 544 << 20
"""Bytes of values: more than a reader may hold."""


def _read(folder: Path) -> tuple[dict[str, Any], int]:
    """Read all files of a folder as in an image; return the answer and the most memory that a child had, in bytes."""
    names = sorted(path.name for path in folder.iterdir())
    output = folder.parent / "out"
    output.mkdir()
    command = "import os, resource, sys; sys.path.insert(0, sys.argv.pop(1)); kept = os.dup(1)\n"
    command += "from envbuild.runtime.tensors.__main__ import main; main(sys.argv[1:])\n"
    command += "os.write(kept, str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss).encode())"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", command, ROOT, output / "answer.json", folder, ROOT, *names],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert [path.name for path in output.iterdir()] == ["answer.json"]
    return json.loads((output / "answer.json").read_bytes()), int(done.stdout) << 10


def _zeros(count: int) -> str:
    digest, piece = hashlib.sha256(), bytes(1 << 20)
    for _ in range(count >> 20):
        digest.update(piece)
    return digest.hexdigest()[:32]


def _safetensors(header: bytes) -> bytes:
    return struct.pack("<Q", len(header)) + header


def _entry(size: int) -> bytes:
    return json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()


@pytest.mark.subprocess
def test_large_models_are_read_in_pieces(tmp_path: Path) -> None:
    """More values than a reader may hold are digested: mapped, unpacked into a file, or repeated by strides."""
    folder = tmp_path / "models"
    folder.mkdir()
    with (folder / "a.safetensors").open("wb") as stream:  # sparse: only its length is large
        stream.write(_safetensors(_entry(BIG)))
        stream.truncate(stream.tell() + BIG)
    with (
        zipfile.ZipFile(folder / "b.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("w.npy", "w", force_zip64=True) as member,
    ):
        member.write(npy("|u1", (BIG,), b""))
        for _ in range(BIG >> 20):
            member.write(bytes(1 << 20))
    wide = tensor(Storage("ByteStorage", "0", 1), 0, (BIG,), (0,))
    (folder / "c.pt").write_bytes(torch_archive({"w": wide}, {"0": b"\0"}))
    found, most = _read(folder)
    digests = {name: [each["digest"] for each in entry["tensors"].values()] for name, entry in found.items()}
    assert digests == {name: [_zeros(BIG)] for name in ("a.safetensors", "b.npz", "c.pt")}
    assert most < MEMORY


@pytest.mark.subprocess
def test_small_files_that_mean_much_are_not_read(tmp_path: Path) -> None:
    """What would be gigabytes of lists, of memo or of text ends with a sentence, and before it is 512 MB."""
    folder = tmp_path / "models"
    folder.mkdir()
    kilobyte = b"[]," * 341 + b"1"
    files = {
        "most.safetensors": (_safetensors(b'{"w":[' + b"[]," * ((4 << 20) - 9) + b"1]}"), "the entry of w"),
        "header.safetensors": (_safetensors(b'{"w":[' + b"[]," * (16 << 20) + b"1]}"), "a header of"),
        "lists.pt": (
            zipped({"x/data.pkl": b"\x80\x02(" + b"]" * (32 << 20) + b"l."}, zipfile.ZIP_DEFLATED),
            "its structure cannot be read: MemoryError",
        ),
        "memo.pt": (zipped({"x/data.pkl": b"\x80\x02Nr\x00\x00\x00\x03."}), "its structure cannot be read: Memory"),
        "text.keras": (
            zipped({"config.json": kilobyte * (32 << 10), "metadata.json": b"{}"}, zipfile.ZIP_DEFLATED),
            "config.json has",
        ),
        "order.pt": (zipped({"x/data.pkl": b"\x80\x02N.", "x/byteorder": bytes(1 << 20)}, 8), "x/byteorder has"),
        "lzma.npz": (zipped({"a.npy": npy("|u1", (1,), b"x")}, zipfile.ZIP_LZMA), "a.npy is compressed by a method"),
        "header.npy": (npy([("a", "<i4")] * 5000, (1,), b"", version=2), "the header of array is longer"),
    }
    for name, (data, _) in files.items():
        (folder / name).write_bytes(data)
    found, most = _read(folder)
    for name, (_, why) in files.items():
        assert found[name]["unread"].startswith(why), (name, found[name])
    assert most < MEMORY


def test_strides_name_more_places_than_memory_has() -> None:
    """Rows and their places are made one after the other: the first piece of 2^40 values comes at once."""
    view = memoryview(b"ab")
    assert bytes(next(gathered(view, 1, 0, (1 << 40,), (0,)))) == b"a" * PIECE
    assert bytes(next(gathered(view, 1, 0, (1 << 40, 2), (0, 1)))) == b"ab"


def test_a_large_member_needs_a_folder(tmp_path: Path) -> None:
    """Without a folder for it, a member that would be unpacked in memory is refused by its size."""
    (tmp_path / "a.npz").write_bytes(zipped({"a.npy": npy("|u1", (HELD,), bytes(HELD))}, zipfile.ZIP_DEFLATED))
    path = str(tmp_path / "a.npz")
    assert str(HELD) in reader.read_file(path, HELD, {})["unread"]
    assert reader.read_file(path, HELD, {}, str(tmp_path))["count"] == 1


def test_a_member_that_is_longer_than_stated(tmp_path: Path) -> None:
    """What unpacks to more than its archive states is damaged, and no more of it is written."""
    data = bytearray(zipped({"a.npy": npy("|u1", (1,), bytes(4 * HELD))}, zipfile.ZIP_DEFLATED))
    place = data.index(b"PK\x01\x02") + 24
    data[place : place + 4] = (HELD + 1).to_bytes(4, "little")
    (tmp_path / "a.npz").write_bytes(data)
    assert "a.npy" in reader.read_file(str(tmp_path / "a.npz"), HELD, {}, str(tmp_path))["unread"]


def test_an_answer_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that writes on and on is ended; a table of tensors that is too long is left out."""
    (tmp_path / "a").write_bytes(npy("<f4", (1,), bytes(4)))
    monkeypatch.setattr(reader, "ANSWER", 100)
    found = reader.read_all(str(tmp_path), ["a"])["a"]
    assert "tensors" not in found
    assert found["count"] == 1
    monkeypatch.setattr(reader, "_encoded", lambda found: bytes(1 << 20))
    assert reader.read_all(str(tmp_path), ["a"])["a"] == {"unread": "its reader gave more than an answer"}
