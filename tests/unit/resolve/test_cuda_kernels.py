"""Which GPUs a wheel was built for, read from its machine code."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.support.wheels import make_wheel
from tools.cuda_kernels import in_wheel, kernels, main


def _binary(*entries: tuple[int, int]) -> bytes:
    """Return a fat binary: kind (1: PTX, 2: machine code) and architecture of each entry."""
    body = b"".join(
        struct.pack("<HHIQIIHHI", kind, 1, 64, 16, 0, 0, 0, 0, architecture).ljust(64, b"\0") + b"x" * 16
        for kind, architecture in entries
    )
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def test_entries_of_all_binaries_are_joined() -> None:
    """Machine code and PTX are distinguished, wherever in the object the binaries are."""
    data = b"\x7fELF" + _binary((2, 75), (2, 100)) + b"\1" * 9 + _binary((1, 120), (2, 75)) + b"tail"
    assert kernels(data) == ({"7.5", "10.0"}, {"12.0"})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        struct.pack("<I", 0xBA55ED50),
        struct.pack("<IHHQ", 0xBA55ED50, 7, 16, 99) + bytes(99),
        _binary((9, 75)),
        _binary((2, 7)),
        _binary((2, 75))[:40],
    ],
)
def test_what_only_looks_like_one_reports_nothing(data: bytes) -> None:
    """The mark by chance, another version of the format, an unknown kind, no architecture, an end too early."""
    assert kernels(data) == (set(), set())


def test_a_wheel_reports_all_its_objects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only shared objects are looked at; capabilities are sorted by number."""
    files = {"a/lib.so.1": _binary((2, 120), (2, 90)), "a/x.so": _binary((1, 90)), "a/data.bin": _binary((2, 50))}
    wheel = make_wheel(tmp_path, "a", "1.0", files)
    assert in_wheel(wheel) == (["9.0", "12.0"], ["9.0"])
    assert main([str(wheel), str(make_wheel(tmp_path, "b"))]) == 0
    assert capsys.readouterr().out == (
        "a-1.0-py3-none-any.whl: machine code 9.0 12.0; PTX 9.0\nb-1.0-py3-none-any.whl: machine code none; PTX none\n"
    )
