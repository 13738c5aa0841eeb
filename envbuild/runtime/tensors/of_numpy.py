"""NumPy's own formats, .npy and .npz (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html)."""

from __future__ import annotations

import ast

from .archive import Archive
from .contents import Contents, UnreadableError, bytes_of, gathered, row_major

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAGIC = b"\x93NUMPY"
_HEADER = 1 << 16
"""Bytes; NumPy itself reads a sixth of that unless it is asked to trust the file."""
_KINDS = {"i": "int", "u": "uint", "f": "float", "c": "complex"}


def read_npz(archive: Archive, contents: Contents) -> None:
    """Add every array of an archive by its name without the suffix."""
    for name in sorted(archive.members):
        if not name.endswith(".npy"):
            raise UnreadableError(f"{name} is no array")
        read_npy(archive.read(name), contents, name[: -len(".npy")])


def read_npy(view: memoryview, contents: Contents, name: str = "array") -> None:
    """Add all arrays of a file: ``numpy.save`` into an open file puts one behind the other; nothing else may follow."""
    read, number = _read_one(view, contents, name), 1
    while read < len(view):
        read += _read_one(view[read:], contents, f"{name}[{number}]")
        number += 1


def _read_one(view: memoryview, contents: Contents, name: str) -> int:
    """Add the array that a view begins with; returns its bytes."""
    if bytes(view[:6]) != MAGIC or len(view) < 12 or view[6] not in (1, 2, 3):
        raise UnreadableError(f"{name} is no array of a known version of NumPy's format")
    width = 2 if view[6] == 1 else 4
    length = int.from_bytes(view[8 : 8 + width], "little")
    start = 8 + width + length
    if length > _HEADER or start > len(view):
        raise UnreadableError(f"the header of {name} is longer than the file or {_HEADER} bytes")
    try:
        header = ast.literal_eval(bytes(view[8 + width : start]).decode("latin1" if width == 2 else "utf-8").strip())
        descr, order, shape = header["descr"], header["fortran_order"], tuple(header["shape"])
    except (ValueError, SyntaxError, KeyError, TypeError, MemoryError, RecursionError):
        raise UnreadableError(f"the header of {name} is damaged") from None
    dtype, itemsize = type_of(descr)
    size = bytes_of(shape, itemsize)
    data = view[start : start + size]
    if len(data) != size:
        raise UnreadableError(f"{name} has {len(data)} bytes of values, {size} by its shape")
    strides = tuple(reversed(row_major(shape[::-1]))) if order else row_major(shape)
    contents.add(name, dtype, shape, gathered(data, itemsize, 0, shape, strides, contents.numpy), size)
    return start + size


def type_of(descr: Any, depth: int = 8) -> tuple[str, int]:
    """Return name and bytes of an element from NumPy's description of its type."""
    if isinstance(descr, list) and depth:
        size = 0
        for field in descr:
            if not isinstance(field, tuple) or len(field) not in (2, 3):
                raise UnreadableError("an array of an unknown type")
            size += bytes_of(field[2] if len(field) == 3 else (), type_of(field[1], depth - 1)[1])
        return str(descr), size
    if descr == "|O":
        raise UnreadableError("an array of Python objects")
    if not isinstance(descr, str) or len(descr) < 3:
        raise UnreadableError("an array of an unknown type")
    order, kind, rest = descr[0], descr[1], descr[2:]
    number, _, unit = rest.partition("[")
    if order not in "<>|=" or not number.isdecimal() or len(number) > 9:
        raise UnreadableError(f"an array of unknown type {descr[:40]!r}")
    prefix, size = ">" if order == ">" else "", int(number)
    if kind == "b":
        return "bool", size
    if kind in _KINDS:
        return f"{prefix}{_KINDS[kind]}{8 * size}", size
    if kind in "mM":
        return f"{prefix}{'timedelta' if kind == 'm' else 'datetime'}{8 * size}[{unit}", size
    if kind in "SUV":
        return f"{prefix}{kind}{size}", 4 * size if kind == "U" else size
    raise UnreadableError(f"an array of unknown type {descr[:40]!r}")
