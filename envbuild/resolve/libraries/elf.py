"""The dynamic section of an ELF object: what it is called and what it needs.

Source: System V ABI, chapters 4 (ELF header) and 5 (program header, dynamic section); LP64 and ILP32, both byte
orders. Only a few hundred bytes of an object are looked at, in rising order as far as the format allows, so that the
largest library can be read from a compressed stream without being held in memory. pyelftools reads the same facts
(a test compares both) but takes 1.1 ms an object against 0.025 ms (235 objects of scikit-learn's environment), and
needs the whole object available.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

MAGIC = b"\x7fELF"
_PT_LOAD, _PT_DYNAMIC, _PT_INTERP = 1, 2, 3
_NEEDED, _STRTAB, _STRSZ, _SONAME, _RPATH, _RUNPATH = 1, 5, 10, 14, 15, 29
_MACHINES = {3: "i386", 40: "arm", 62: "amd64", 183: "arm64", 243: "riscv64", 22: "s390x", 21: "ppc64"}
_LONGEST = 1 << 20
"""Bytes of the longest name: TensorFlow's library has a search path of 25 kB."""
_MOST_DYNAMIC = 1 << 20


class NotElfError(Exception):
    """The bytes are no ELF object, or a damaged one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Dynamic:
    """What the dynamic loader reads of one object.

    Attributes:
        machine: Debian's name of the architecture, or ``e_machine`` as a number.
        soname: name that others ask for, or empty.
        needed: names that must be found before it can be loaded.
        runpath: its own search path, colon-separated, or empty.
        program: whether it can be started by itself.
    """

    machine: str
    soname: str = ""
    needed: tuple[str, ...] = ()
    runpath: str = ""
    program: bool = False


@dataclass(frozen=True, slots=True)
class _Segment:
    kind: int
    offset: int
    address: int
    size: int


def read_dynamic(stream: BinaryIO) -> Dynamic:
    """Read an object from a seekable stream positioned anywhere.

    Raises:
        NotElfError: no ELF object, or a damaged one.
    """
    try:
        return _read(stream)
    except (struct.error, IndexError, OverflowError, UnicodeDecodeError) as error:
        raise NotElfError(f"damaged ELF object: {error}") from None


def _read(stream: BinaryIO) -> Dynamic:
    ident = _at(stream, 0, 64)
    if ident[:4] != MAGIC or ident[4] not in (1, 2) or ident[5] not in (1, 2):
        raise NotElfError("not an ELF object")
    wide, order = ident[4] == 2, "<" if ident[5] == 1 else ">"
    (number,) = struct.unpack_from(f"{order}H", ident, 18)
    machine = _MACHINES.get(number, str(number))
    segments = list(_segments(stream, ident, wide, order))
    program = any(segment.kind == _PT_INTERP for segment in segments)
    dynamic = next((segment for segment in segments if segment.kind == _PT_DYNAMIC), None)
    if dynamic is None:
        return Dynamic(machine=machine, program=program)
    if dynamic.size > _MOST_DYNAMIC:
        raise NotElfError("damaged ELF object: dynamic section too large")
    entries = list(_entries(_at(stream, dynamic.offset, dynamic.size), wide, order))
    single = dict(reversed(entries))
    if _STRTAB not in single:
        return Dynamic(machine=machine, program=program)
    table = _file_offset(segments, single[_STRTAB])
    wanted = sorted({value for tag, value in entries if tag in (_NEEDED, _SONAME, _RPATH, _RUNPATH)})
    if any(value >= single.get(_STRSZ, 0) for value in wanted):
        raise NotElfError("damaged ELF object: a name is outside the string table")
    names = {value: _string(stream, table + value) for value in wanted}
    return Dynamic(
        machine=machine,
        soname=names[single[_SONAME]] if _SONAME in single else "",
        needed=tuple(dict.fromkeys(names[value] for tag, value in entries if tag == _NEEDED)),
        runpath=names[single[_RUNPATH]] if _RUNPATH in single else names.get(single.get(_RPATH, -1), ""),
        program=program,
    )


def _segments(stream: BinaryIO, ident: bytes, wide: bool, order: str) -> Iterator[_Segment]:
    """Yield the program header's entries."""
    if wide:
        (start,) = struct.unpack_from(f"{order}Q", ident, 32)
        size, count = struct.unpack_from(f"{order}HH", ident, 54)
    else:
        (start,) = struct.unpack_from(f"{order}I", ident, 28)
        size, count = struct.unpack_from(f"{order}HH", ident, 42)
    if size != (56 if wide else 32):
        raise NotElfError("damaged ELF object: odd size of program header entries")
    data = _at(stream, start, size * count)
    for position in range(0, size * count, size):
        if wide:
            kind, _, offset, address, _, length = struct.unpack_from(f"{order}IIQQQQ", data, position)
        else:
            kind, offset, address, _, length = struct.unpack_from(f"{order}IIIII", data, position)
        yield _Segment(kind, offset, address, length)


def _entries(data: bytes, wide: bool, order: str) -> Iterator[tuple[int, int]]:
    """Yield tag and value of the dynamic section up to its end mark."""
    for tag, value in struct.iter_unpack(f"{order}qQ" if wide else f"{order}iI", data[: len(data) // 16 * 16]):
        if tag == 0:
            return
        yield tag, value


def _file_offset(segments: list[_Segment], address: int) -> int:
    """Return where in the file an address is loaded from."""
    for segment in segments:
        if segment.kind == _PT_LOAD and segment.address <= address < segment.address + segment.size:
            return address - segment.address + segment.offset
    raise NotElfError("damaged ELF object: the string table is not loaded")


def _string(stream: BinaryIO, offset: int) -> str:
    """Read a name."""
    stream.seek(offset)
    data = stream.read(256)
    while b"\0" not in data and len(data) < _LONGEST and (more := stream.read(len(data))):
        data += more
    end = data.find(b"\0")
    if end < 0:
        raise NotElfError("damaged ELF object: a name has no end")
    return data[:end].decode()


def _at(stream: BinaryIO, offset: int, size: int) -> bytes:
    """Read bytes at an offset; raises ``NotElfError`` at the end of the file."""
    stream.seek(offset)
    data = stream.read(size)
    if len(data) < size:
        raise NotElfError("no ELF object, or cut off")
    return data
