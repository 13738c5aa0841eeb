"""Arrays with names or dates in them: NumPy's structured and datetime arrays, and the notes of safetensors' files.

Plain arrays are results, whatever they hold, and count by their bytes.

Sources: numpy.lib.format; huggingface/safetensors, "Format".
"""

from __future__ import annotations

import ast
import json
import math
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from envbuild.core.patterns import lazy
from envbuild.record.measurements import are_durations, kind_of, may_be_memory, names_result
from envbuild.verification.content import values
from envbuild.verification.content.canonical import Canonical, UnreadableError, below

Nested = Callable[[Canonical, str, bytes], None]
"""Opens what is in a value."""
NUMPY = b"\x93NUMPY"
_OBJECTS = lazy(rb"\x93NUMPY\x01\x00..\{'descr': '\|O', ", re.DOTALL)
_HEADER, _NOTES = 1 << 16, 12 << 20
"""Bytes of the longest headers that are read: NumPy's, safetensors'."""
_CELLS = 500_000
"""Cells of the largest structured array that is read by its fields."""
_CODES = {"f2": "e", "f4": "f", "f8": "d", **{f"{sign}{size}": code for sign, codes in (("i", "bhiq"), ("u", "BHIQ"))
          for size, code in zip((1, 2, 4, 8), codes, strict=True)}}  # fmt: skip
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9, "m": 1 / 60, "h": 1 / 3600, "D": 1 / 86400}
"""Of datetimes: how many are a second."""
_DATE = 8
"""Bytes of a datetime, and of a distance between two."""
_NONE = -(1 << 63)
"""NumPy's "not a time"."""
_BARE = frozenset(("time", "times", "timestamp", "datetime", "t"))
"""Names of fields that may hold data as well."""


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of each row.

    Attributes:
        at, size: where its bytes are in a row.
        code: how ``struct`` reads them; empty for texts and bytes.
        unit: of a datetime, how many are a second; 0 for all else.
        void: it has bytes of no type.
    """

    name: str
    at: int
    size: int
    code: str = ""
    unit: float = 0
    void: bool = False


def is_safetensors(data: bytes) -> bool:
    """Whether data begin like a file of safetensors."""
    length = int.from_bytes(data[:8], "little")
    return len(data) > 9 and 2 <= length <= min(len(data) - 8, _NOTES) and data[8:9] == b"{"


def read_safetensors(out: Canonical, path: str, data: bytes, nested: Nested) -> None:
    """Count tensors by type, shape and bytes, and what is noted of them by name."""
    length = int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8 : 8 + length], object_pairs_hook=_pairs)
        notes = header.pop("__metadata__", {})
        tensors = {str(name): (each["dtype"], each["shape"], *each["data_offsets"]) for name, each in header.items()}
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError) as error:
        raise UnreadableError(f"a damaged header of safetensors: {error}") from None
    sound = all(len(each) == 4 and type(each[2]) is type(each[3]) is int for each in tensors.values())
    if not isinstance(notes, dict) or not sound:
        raise UnreadableError("a damaged header of safetensors")
    body = data[8 + length :]
    for name, text in sorted(notes.items()):
        where = below(path, f"__metadata__.{name}")
        if not isinstance(text, str):
            out.add(where, repr(text))
        elif text[:1] in ("{", "["):
            nested(out, where, text.encode("utf-8", "surrogatepass"))
        else:
            values.string(out, where, str(name), text)
    at = 0
    for name, (kind, shape, start, end) in sorted(tensors.items(), key=lambda each: each[1][2:]):
        if not at == start <= end <= len(body):
            raise UnreadableError("tensors that overlap, or holes between them")
        out.add(below(path, name), f"{kind} {shape}")
        out.add(below(path, name), body[start:end])
        at = end
    out.add(path, body[at:])


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a name comes twice")
    return table


def read_npy(out: Canonical, path: str, data: bytes, nested: Nested) -> None:
    """Read a structured array by its fields, or one of datetimes; raises ``UnreadableError`` for all others.

    In an archive further one that has the name of a measurement: a number, or a list of durations. One of objects is a
    pickle behind its header.
    """
    objects = _OBJECTS.match(data)
    if objects is not None and len(data) > (start := 10 + int.from_bytes(data[8:10], "little")):
        out.add(path, data[10:start])
        nested(out, path, data[start:])
        return
    fields, rows, start, head = _layout(data, path.rpartition("/")[2].rpartition(":")[2].removesuffix(".npy"))
    out.add(path, head)
    width = sum(field.size for field in fields)
    table = memoryview(data)[start:]
    if not width or rows * len(fields) > _CELLS or len(table) != rows * width:
        raise UnreadableError("an array of another size")
    for field in fields:
        if not field.name and field.void:
            continue  # bytes between fields, as NumPy writes them: whatever was in memory
        cells = [bytes(table[at + field.at : at + field.at + field.size]) for at in range(0, rows * width, width)]
        _column(out, below(path, field.name), field, cells)


def _column(out: Canonical, path: str, field: _Field, cells: Sequence[bytes]) -> None:
    """Count a field's values in all rows, or leave them out as ``values`` does with single ones."""
    found: list[float] = [struct.unpack(field.code, cell)[0] for cell in cells] if field.code else []
    if found and field.unit:
        if all(each != _NONE and out.is_moment(each / field.unit) for each in found):
            out.leave_out(path, b"".join(cells), "time", packed=True, moment=True)
            return
    elif found and not names_result(field.name) and all(math.isfinite(each) and each >= 0 for each in found):
        if values.names_moment(field.name) and all(
            out.is_moment(values.seconds_of(field.name, each)) for each in found
        ):
            out.leave_out(path, b"".join(cells), "time", packed=True, moment=True)
            return
        kind = kind_of(field.name) if field.name.lower() not in _BARE else None
        if kind in ("time", "rate", "memory") and all(may_be_memory(field.name, each) for each in found):
            out.leave_out(path, b"".join(cells), kind, packed=True)
            return
    for number, cell in enumerate(cells):
        out.add(f"{path}[{number}]", cell)


def _layout(data: bytes, name: str) -> tuple[list[_Field], int, int, str]:
    """Return fields of a row, the number of rows, where they begin and what the header says of them."""
    width = 2 if data[6:7] == b"\x01" else 4
    start = 8 + width + int.from_bytes(data[8 : 8 + width], "little")
    if data[:6] != NUMPY or start > min(len(data), _HEADER):
        raise UnreadableError("no array of NumPy's")
    try:
        header = ast.literal_eval(data[8 + width : start].decode("latin1" if width == 2 else "utf-8").strip())
        kinds, shape = header["descr"], tuple(map(int, header["shape"]))
        fields = list(_fields(kinds if isinstance(kinds, list) else [("", kinds)]))
    except (ValueError, SyntaxError, KeyError, IndexError, TypeError, OverflowError, MemoryError, RecursionError):
        raise UnreadableError("an array of a type that is not read by its fields") from None
    if not isinstance(kinds, list) and not any(field.unit for field in fields):
        if kinds[1:2] not in ("i", "u", "f") or len(shape) > 1 or not (are_durations(name) if shape else kind_of(name)):
            raise UnreadableError("a plain array")
        fields = [replace(field, name=name) for field in fields]
    return fields, math.prod(shape), start, repr(header)


def _fields(kinds: Sequence[Any]) -> Iterator[_Field]:
    """Yield the fields of a type; raises ``ValueError`` for nested ones, and for objects."""
    at = 0
    for name, kind in kinds:
        order, letter, (number, _, unit) = kind[0], kind[1], kind[2:].partition("[")
        size = int(number) * (4 if letter == "U" else 1)
        sound = size == _DATE if letter in "mM" else size >= 0
        if letter not in "biufSUVmM" or order not in "<>|=" or isinstance(name, tuple) or not sound:
            raise ValueError("a type that is not read")
        code, length = "", _UNITS.get(unit.rstrip("]"), 0.0) if letter == "M" else 0.0
        if letter in "iuf" and f"{letter}{size}" in _CODES:
            code = (">" if order == ">" else "<") + _CODES[f"{letter}{size}"]
        elif length:
            code = (">" if order == ">" else "<") + "q"
        yield _Field(str(name), at, size, code, length, letter == "V")
        at += size
