"""Fast reading of wheels gives the bytes that zipfile gives, or states what is wrong with the member."""

from __future__ import annotations

import os
import zipfile
import zlib
from pathlib import Path

import pytest

from envbuild.image.python import inflate
from envbuild.image.python.inflate import Reader
from envbuild.image.python.wheel import Wheel, WheelError
from tests.support.wheels import wheel_bytes

NAME = "a-1.0-py3-none-any.whl"
ZEROS = 5 << 20
FILES = {"a/__init__.py": "x = 1\n", "a/empty.py": "", "a/zeros": bytes(ZEROS), "a/random": os.urandom(3 << 20)}


@pytest.fixture(params=["isal", "zlib"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either library."""
    if request.param == "zlib":
        monkeypatch.setattr(inflate, "_library", zlib)


def written(folder: Path, data: bytes, change: tuple[bytes, bytes] = (b"", b"")) -> Path:
    """A wheel's file, with some bytes of it replaced once."""
    assert change[0] in data
    path = folder / NAME
    path.write_bytes(data.replace(*change, 1))
    return path


@pytest.mark.usefixtures("library")
def test_content_is_what_zipfile_reads(tmp_path: Path) -> None:
    """Every file, made ones and wide ones among them; no part is larger than one MiB."""
    path = written(tmp_path, wheel_bytes("a", "1.0", files=FILES))
    with Wheel(str(path), "3.11") as wheel, Reader(wheel, path) as reader:
        for file in wheel.files:
            parts = list(reader.chunks(file))
            assert b"".join(parts) == wheel.read(file) == reader.read(file)
            assert all(len(part) <= 1 << 20 for part in parts)


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions(tmp_path: Path, method: int) -> None:
    """What is not deflated is read too."""
    path = tmp_path / NAME
    with zipfile.ZipFile(written(tmp_path, wheel_bytes("a", "1.0", files=FILES))) as old:
        members = {name: old.read(name) for name in old.namelist()}
    with zipfile.ZipFile(path, "w", method) as new:
        for name, data in members.items():
            new.writestr(name, data)
    with Wheel(str(path), "3.11") as wheel, Reader(wheel, path) as reader:
        assert {file.path.rpartition("/")[2]: len(reader.read(file)) for file in wheel.files}["zeros"] == ZEROS


@pytest.mark.usefixtures("library")
def test_damage_is_named(tmp_path: Path) -> None:
    """Flipped bytes, a cut member, one that is not there: wheel, member and what is wrong, never wrong bytes."""
    data = wheel_bytes("a", "1.0", files={"a/random": os.urandom(1 << 16)})
    path = written(tmp_path, data)
    with Wheel(str(path), "3.11") as wheel, Reader(wheel, path) as reader:
        (file,) = (file for file in wheel.files if file.path.endswith("/random"))
        assert file.member is not None
        start = file.member.header_offset
        for offset, size in ((start + 200, 64), (start, 4), (start + 60, 1)):
            broken = bytearray(data)
            broken[offset : offset + size] = bytes(255 - byte for byte in broken[offset : offset + size])
            path.write_bytes(broken)
            with pytest.raises(WheelError, match=r"^a-1\.0-py3-none-any\.whl: 'a/random': "):
                reader.read(file)
        path.write_bytes(data[: start + 1000])
        with pytest.raises(WheelError) as caught:
            reader.read(file)
        assert str(caught.value) == f"{NAME}: 'a/random': cannot be unpacked: the archive is cut short"
        path.write_bytes(data)
        longer = file._replace(size=file.size - 1)
        with pytest.raises(WheelError, match=r"expected 65535 bytes, found 65536"):
            reader.read(longer)


def test_other_content_than_record_states(tmp_path: Path) -> None:
    """Then the checksum of the archive decides, which is not asked otherwise."""
    path = written(tmp_path, wheel_bytes("a", "1.0", files={"a/x.py": "x = 1\n"}))
    with Wheel(str(path), "3.11") as wheel, Reader(wheel, path) as reader:
        (file,) = (file for file in wheel.files if file.path.endswith("/x.py"))
        assert reader.read(file._replace(digest="sha256=" + "A" * 43)) == b"x = 1\n"
        assert file.member is not None
        file.member.CRC ^= 1
        assert reader.read(file) == b"x = 1\n"
        with pytest.raises(WheelError, match="cannot be unpacked: Bad CRC-32"):
            reader.read(file._replace(digest="sha256=" + "A" * 43))
