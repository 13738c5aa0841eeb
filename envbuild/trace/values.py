"""Two versions of one tensor, compared value by value: how many differ, and by how many units in the last place."""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan, prod
from operator import ne, sub

_FLOATS = {"float16": ("H", "e"), "bfloat16": ("H", ""), "float32": ("I", "f"), "float64": ("Q", "d")}
"""Type to the code of its bits in ``array``, and of its value in ``struct``."""
_INTEGERS = {
    "bool": "B", "int8": "b", "int16": "h", "int32": "i", "int64": "q",
    "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class ValueDifference:
    """Where and how far two versions of a tensor differ.

    Attributes:
        count, size: values that differ, and all values.
        index: place of the value that differs most; one that is NaN on one side alone comes first.
        before, after: that value on both sides.
        ulps: how many numbers of the type are between the two at most, plus one; None for integers and NaN.
    """

    count: int
    size: int
    index: tuple[int, ...]
    before: float | int
    after: float | int
    ulps: int | None


def compare(dtype: str, shape: Sequence[int], before: bytes, after: bytes) -> ValueDifference | None:
    """Compare the bytes of two tensors of one type and shape.

    Args:
        dtype: as NumPy calls it; complex numbers count as two values.
        before, after: little-endian, row by row.

    Returns:
        None if they are equal, or of a type or size that cannot be compared.
    """
    if dtype.startswith("complex"):
        dtype, shape = {"complex64": "float32", "complex128": "float64"}.get(dtype, ""), (*shape, 2)
    code = _FLOATS[dtype][0] if dtype in _FLOATS else _INTEGERS.get(dtype)
    if code is None or len(before) != len(after) or before == after:
        return None
    one, two = _numbers(code, before), _numbers(code, after)
    if len(one) != prod(shape):
        return None
    if dtype not in _FLOATS:
        distances = list(map(abs, map(sub, one, two)))
        place = distances.index(max(distances))
        return _found(one, two, shape, place, one[place], two[place], None)
    bits = 8 * one.itemsize
    distances = list(map(abs, map(sub, _ordered(one, bits), _ordered(two, bits))))
    infinity = _infinity(dtype)
    mask = (1 << bits - 1) - 1
    largest = max(distances)
    if largest > 0 and max(map(mask.__and__, one)) <= infinity and max(map(mask.__and__, two)) <= infinity:
        place, ulps = distances.index(largest), largest
    else:
        place, known = _with_nan(one, two, distances, infinity, mask)
        ulps = known
    values = (_value(dtype, one[place]), _value(dtype, two[place]))
    return _found(one, two, shape, place, *values, None if any(map(isnan, values)) else ulps)


def _with_nan(
    one: array[int], two: array[int], distances: list[int], infinity: int, mask: int
) -> tuple[int, int | None]:
    """Return the place of the first value that is NaN on one side alone, else of the largest distance of numbers."""
    best, place, first = 0, -1, -1
    for at, distance in enumerate(distances):
        if one[at] == two[at]:
            continue
        first = at if first < 0 else first
        odd = ((one[at] & mask) > infinity) + ((two[at] & mask) > infinity)
        if odd == 1:
            return at, None
        if not odd and distance >= best:
            best, place = distance, at
    return (place, best) if place >= 0 else (first, None)


def _found(
    one: array[int],
    two: array[int],
    shape: Sequence[int],
    place: int,
    before: float | int,
    after: float | int,
    ulps: int | None,
) -> ValueDifference:
    index = []
    for length in reversed(shape):
        place, rest = divmod(place, length)
        index.append(rest)
    return ValueDifference(
        count=sum(map(ne, one, two)),
        size=len(one),
        index=tuple(reversed(index)),
        before=before,
        after=after,
        ulps=ulps,
    )


def _ordered(numbers: array[int], bits: int) -> list[int]:
    """Return integers in the order of the floats with these bits, neighbours one apart; both zeros are 0."""
    sign = 1 << bits - 1
    return [number if number < sign else sign - number for number in numbers]


def _infinity(dtype: str) -> int:
    """Return the bits of infinity; those above, without the sign, are NaN."""
    return {"float16": 0x7C00, "bfloat16": 0x7F80, "float32": 0x7F800000, "float64": 0x7FF0000000000000}[dtype]


def _value(dtype: str, bits: int) -> float:
    if dtype == "bfloat16":
        return float(struct.unpack("<f", (bits << 16).to_bytes(4, "little"))[0])
    code, kind = _FLOATS[dtype]
    return float(struct.unpack(f"<{kind}", bits.to_bytes(struct.calcsize(f"<{code}"), "little"))[0])


def _numbers(code: str, data: bytes) -> array[int]:
    found = array(code)
    found.frombytes(data[: len(data) // found.itemsize * found.itemsize])
    if sys.byteorder == "big":
        found.byteswap()
    return found
