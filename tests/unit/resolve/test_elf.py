"""The reader of ELF objects."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envbuild.resolve.libraries.elf import Dynamic, NotElfError, read_dynamic
from tests.support.elf import make_elf


def _read(data: bytes) -> Dynamic:
    return read_dynamic(io.BytesIO(data))


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("little", [True, False])
def test_every_word_size_and_byte_order(wide: bool, little: bool) -> None:
    """32 and 64 bits, little and big endian give the same facts."""
    data = make_elf(["libb.so.1", "liba.so", "libb.so.1"], "libme.so.2", runpath="$ORIGIN", wide=wide, little=little)
    assert _read(data) == Dynamic(
        machine="amd64", soname="libme.so.2", needed=("libb.so.1", "liba.so"), runpath="$ORIGIN"
    )


def test_runpath_wins_over_rpath() -> None:
    """The loader ignores DT_RPATH where DT_RUNPATH is."""
    assert _read(make_elf(rpath="/old", runpath="/new")).runpath == "/new"
    assert _read(make_elf(rpath="/old")).runpath == "/old"


def test_a_long_search_path_is_read() -> None:
    """TensorFlow's library for GPUs has a search path of 20 kB; beyond a megabyte it is damage."""
    path = ":".join(["$ORIGIN/../../nvidia/cublas/lib"] * 700)
    assert _read(make_elf(["libc.so.6"], "libme.so.2", runpath=path)).runpath == path
    with pytest.raises(NotElfError, match=r"^damaged ELF object: a name has no end$"):
        _read(make_elf(runpath="x" * (2 << 20)))


def test_machines_have_debians_names() -> None:
    """Architectures are named as Debian names them, unknown ones by number."""
    assert [_read(make_elf(machine=number)).machine for number in (3, 62, 183, 999)] == [
        "i386",
        "amd64",
        "arm64",
        "999",
    ]


def test_a_program_is_distinguished_from_a_library() -> None:
    """An object with an interpreter can be started by itself."""
    assert _read(make_elf(["libc.so.6"], program=True)).program
    assert not _read(make_elf(["libc.so.6"])).program


@pytest.mark.parametrize("path", [Path("/lib/x86_64-linux-gnu/libm.so.6"), Path("/usr/bin/python3")])
def test_the_same_as_pyelftools(path: Path) -> None:
    """pyelftools reads the same names from real objects."""
    from elftools.elf.dynamic import DynamicSegment
    from elftools.elf.elffile import ELFFile

    path = path if path.exists() else Path("/proc/self/exe").resolve()
    with path.open("rb") as stream:
        segments = ELFFile(stream).iter_segments()
        tags = [tag for segment in segments if isinstance(segment, DynamicSegment) for tag in segment.iter_tags()]
        expected = tuple(tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED")
        sonames = [tag.soname for tag in tags if tag.entry.d_tag == "DT_SONAME"]
        found = read_dynamic(stream)
    assert found.needed == expected
    assert found.needed
    assert [found.soname] == (sonames or [""])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x7fELF",
        b"not an ELF object, but long enough to be read as the header of one, surely",
        make_elf(["liba.so"])[:-40],
        make_elf(["liba.so"]).replace(b"liba.so\0", b"liba.soX"),
    ],
)
def test_damage_is_an_error_of_its_own(data: bytes) -> None:
    """Anything that is no whole object raises NotElfError and nothing else."""
    if data.endswith(b"\0") and b"liba.soX" in data:
        data = data[: data.index(b"liba.soX") + 8]  # a name without an end
    with pytest.raises(NotElfError):
        _read(data)


@given(st.integers(0, 400), st.binary(min_size=1, max_size=16))
def test_no_damage_gets_past(position: int, noise: bytes) -> None:
    """Overwriting any bytes gives an answer or NotElfError, never another exception."""
    data = bytearray(make_elf(["liba.so", "libb.so"], "libme.so"))
    data[position : position + len(noise)] = noise
    with contextlib.suppress(NotElfError):
        _read(bytes(data))


def test_only_a_little_is_read() -> None:
    """Of a large object only headers, dynamic section and names are read."""

    class Counting(io.BytesIO):
        taken = 0

        def read(self, size: int | None = -1) -> bytes:
            data = super().read(size)
            Counting.taken += len(data)
            return data

    stream = Counting(make_elf([f"lib{n}.so" for n in range(9)], "libme.so", padding=8 << 20))
    assert len(read_dynamic(stream).needed) == 9
    assert Counting.taken < 4096
