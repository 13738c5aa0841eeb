"""Bytes of NumPy's structured arrays that belong to no field: whatever was in memory there, also pieces of addresses.

scikit-learn's trees have seven in each node; a copy of an array copies fields and leaves them as they are. The type of
an array is what its pickle says of it, as ``numpy.dtype.__reduce__`` writes it: ``(version, order, (base, shape),
names, {name: (type, offset)}, size, …)``. A type that is not understood is taken to have no such bytes.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

from envbuild.core.patterns import lazy

DTYPE = "numpy dtype"
_NAME = lazy(r"([biufcSVmMUO?])(\d{1,9})")
_ROW = 1 << 16
"""Bytes of the largest row that is looked at."""
_NESTED = 20


class Node(Protocol):
    """A container or an object in a pickle."""

    @property
    def parts(self) -> list[Any]:
        """What is in it, in the order in which it was put in."""


def without_padding(data: bytes, dtype: Any, left: list[int]) -> bytes:
    """Return the values of an array with zeros where no field is.

    Args:
        data: rows, one behind the other.
        dtype: their type: an object in a pickle.
        left: counts down what may still be looked at in the pickle: a byte of a field each.
    """
    try:
        fields = _fields(dtype, 0, left)
    except (ValueError, TypeError, AttributeError, IndexError):
        return data
    if 1 not in fields or 0 not in fields or len(data) % len(fields):
        return data
    found, rows = bytearray(data), len(data) // len(fields)
    for at, used in enumerate(fields):
        if not used:
            found[at :: len(fields)] = bytes(rows)
    return bytes(found)


def _fields(dtype: Any, depth: int, left: list[int]) -> bytes:
    """Return a row's bytes: 1 where a field is, 0 elsewhere; raises ``ValueError`` and the like for all other forms."""
    kind, arguments, state = dtype.parts
    if kind.parts != [DTYPE] or depth > _NESTED:
        raise ValueError("no type of NumPy's")
    name = _NAME.fullmatch(arguments.parts[0])
    if name is None:
        raise ValueError("a type of another name")
    size = int(name[2]) * (4 if name[1] == "U" else 1)
    _, _, base, names, table, *_ = state.parts[0].parts
    left[0] -= size + 1
    if size > _ROW or left[0] < 0:
        raise ValueError("a large row")
    if names is not None:
        found = bytearray(size)
        for field in table.parts[1::2]:
            part, at, *_ = field.parts
            used = _fields(part, depth + 1, left)
            if not 0 <= at <= size - len(used):
                raise ValueError("a field outside the row")
            both = int.from_bytes(found[at : at + len(used)], "big") | int.from_bytes(used, "big")
            found[at : at + len(used)] = both.to_bytes(len(used), "big")
        return bytes(found)
    if base is not None:
        part, shape = base.parts
        count = int(math.prod(shape.parts))
        each = _fields(part, depth + 1, left)
        if len(each) * count != size:
            raise ValueError("a part of another size")
        return each * count
    return b"\1" * size
