"""A maker of the smallest ELF objects that a dynamic loader would read: any machine word, byte order and damage."""

from __future__ import annotations

import struct
from collections.abc import Sequence

LOAD, DYNAMIC, INTERP = 1, 2, 3
NEEDED, STRTAB, STRSZ, SONAME, RPATH, RUNPATH = 1, 5, 10, 14, 15, 29


def make_elf(
    needed: Sequence[str] = (),
    soname: str = "",
    *,
    runpath: str = "",
    rpath: str = "",
    machine: int = 62,
    wide: bool = True,
    little: bool = True,
    program: bool = False,
    padding: int = 0,
    address: int = 0x10000,
) -> bytes:
    """Return an object: header, program headers, names, ``padding`` bytes, dynamic section.

    Args:
        machine: ``e_machine``; 62 is x86-64.
        wide: 64-bit words.
        padding: bytes between the names and the dynamic section, to make large objects.
        address: where the first byte is to be loaded.
    """
    order = "<" if little else ">"
    header, entry = (64, 56) if wide else (52, 32)
    count = 3 if program else 2
    names = b"\0"
    entries: list[tuple[int, int]] = []
    texts = [(NEEDED, name) for name in needed] + [(SONAME, soname), (RPATH, rpath), (RUNPATH, runpath)]
    for tag, text in texts:
        if text:
            entries.append((tag, len(names)))
            names += text.encode() + b"\0"
    start = header + entry * count
    entries += [(STRTAB, address + start), (STRSZ, len(names)), (0, 0)]
    dynamic = b"".join(struct.pack(f"{order}qQ" if wide else f"{order}iI", *item) for item in entries)
    offset = start + len(names) + padding
    size = offset + len(dynamic)
    segments = [(LOAD, 0, address, size), (DYNAMIC, offset, address + offset, len(dynamic))]
    if program:
        segments.insert(0, (INTERP, 0, address, 1))
    ident = b"\x7fELF" + bytes([2 if wide else 1, 1 if little else 2, 1]) + bytes(9)
    fixed = struct.pack(f"{order}HHI", 3, machine, 1)
    if wide:
        fixed += struct.pack(f"{order}QQQIHHHHHH", 0, header, 0, 0, header, entry, count, 0, 0, 0)
        table = [struct.pack(f"{order}IIQQQQQQ", k, 4, o, a, a, s, s, 8) for k, o, a, s in segments]
    else:
        fixed += struct.pack(f"{order}IIIIHHHHHH", 0, header, 0, 0, header, entry, count, 0, 0, 0)
        table = [struct.pack(f"{order}IIIIIIII", k, o, a, a, s, s, 4, 4) for k, o, a, s in segments]
    return ident + fixed + b"".join(table) + names + bytes(padding) + dynamic
