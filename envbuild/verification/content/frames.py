"""Frames of pandas in pickles: columns with the names of measurements, whose numbers are in a block with others.

A frame is blocks of columns of one type, each with the places of its columns, and the labels of these. Columns that are
not certainly durations or rates of at least zero, or moments of the run, stay as they are, and so does a
frame of any other form.

Sources: pandas/_libs/internals.pyx (``BlockManager.__reduce__``, ``_unpickle_block``), pandas/core/indexes/base.py
(``_new_Index``), pyarrow/array.pxi (``_restore_array``).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

from envbuild.record.measurements import are_durations, kind_of, names_result
from envbuild.verification.content.values import names_moment


class Node(Protocol):
    """A container or an object in a pickle."""

    @property
    def kind(self) -> str:
        """What it is."""

    @property
    def parts(self) -> list[Any]:
        """What is in it, in the order in which it was put in."""


class Array(Protocol):
    """The numbers of an array in a pickle."""

    @property
    def parts(self) -> list[Any]:
        """Where they are, among other things."""

    @property
    def place(self) -> int:
        """Which of these they are."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""

    @property
    def fortran(self) -> bool:
        """Whether the first axis is the fastest."""

    @property
    def code(self) -> str:
        """How ``struct`` reads one, little-endian."""

    @property
    def unit(self) -> str:
        """Of dates, NumPy's name of what is counted since 1970; empty for others."""


class Measured(NamedTuple):
    """A column that is left out: its name, its numbers, of what kind they are, and whether they are dates."""

    name: str
    data: bytes
    kind: str
    moment: bool


_MANAGER, _BLOCK = "pandas.core.internals.managers BlockManager", "pandas._libs.internals _unpickle_block"
_BACKED = "pandas._libs.arrays __pyx_unpickle_NDArrayBacked"
_OF_DATES, _OF_SPANS = "pandas.arrays DatetimeArray", "pandas.arrays TimedeltaArray"
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""Of dates: how many are a second."""
_INDEX, _SLICE = "pandas.core.indexes.base _new_Index", "builtins slice"
_COLUMNS = 1 << 24
"""The most columns of a frame."""
_DAMAGED = (AttributeError, TypeError, ValueError, IndexError, OverflowError, struct.error)
_FLOATS, _INTEGERS = frozenset("fd"), "q"
_TEXTS = {"string": "i", "large_string": "q"}
"""Arrow's types of texts: how ``struct`` reads an offset."""


def measured_in(
    node: Node,
    array_of: Callable[[Any], Array | None],
    is_moment: Callable[[float], bool],
    known: dict[int, list[str]],
) -> list[Measured]:
    """Return the columns of a frame's blocks that are measurements, and put zeros in their place.

    Args:
        node: an object in a pickle; nothing is returned for others than a frame's blocks.
        array_of: returns the numbers of an object; None if it is no array of floating-point numbers or integers.
        is_moment: whether a number of seconds since 1970 is one of the run.
        known: labels by the identity of what has them: many frames may have the same ones.
    """
    found: list[Measured] = []
    match _called(node, _MANAGER):
        case [blocks, labels] if _kind(blocks) == "tuple" and _kind(labels) == "list" and labels.parts:
            with suppress(*_DAMAGED):
                index = labels.parts[0]
                names = known[id(index)] if id(index) in known else known.setdefault(id(index), _labels(index))
                for block in blocks.parts if names else []:
                    found += _of_block(block, names, array_of, is_moment)
    return found


def _of_block(
    block: Any, names: Sequence[str], array_of: Callable[[Any], Array | None], is_moment: Callable[[float], bool]
) -> list[Measured]:
    match _called(block, _BLOCK):
        case [values, places, 2]:
            dates, spans = _backed(values, _OF_DATES), _backed(values, _OF_SPANS)
            backed = dates if dates is not None else spans
            array, at = array_of(values if backed is None else backed), _places(places, array_of)
        case _:
            return []
    if array is None or len(array.shape) != 2 or array.shape[0] != len(at):
        return []
    rows = [(row, names[place]) for row, place in enumerate(at) if 0 <= place < len(names)]
    if dates is not None and array.unit in _UNITS:
        dated, unit = [row for row, name in rows if names_moment(name)], _UNITS[array.unit]
        return [
            Measured(names[at[row]], data, "time", moment=True)
            for row, data in _taken(array, dated, lambda number: is_moment(number / unit))
        ]
    if spans is not None and array.code == _INTEGERS:  # what is missing is a negative number
        lasting = [row for row, name in rows if kind_of(name) == "time" and not names_result(name)]
        return [
            Measured(names[at[row]], data, "time", moment=False)
            for row, data in _taken(array, lasting, lambda number: number >= 0)
        ]
    if array.code not in _FLOATS:
        return []
    kinds = {row: kind for row, name in rows if (kind := _kind_of(name))}
    return [
        Measured(names[at[row]], data, kinds[row], moment=False)
        for row, data in _taken(array, [*kinds], lambda number: number >= 0)
    ]


def _kind_of(name: str) -> str:
    """Return the kind of measurement that a column certainly is of; empty for others."""
    if are_durations(name):
        return "time"
    return "rate" if kind_of(name) == "rate" and not names_result(name) else ""


def _backed(values: Any, of: str) -> Any:
    """Return the array of a block of dates, or of spans of time; None for other blocks."""
    parts = values.parts if _kind(values) == "object" else []
    if len(parts) != 3 or parts[0].parts != [_BACKED] or parts[1].parts[0].parts != [of]:
        return None
    state = _state(values)
    return state.parts[1] if _kind(state) == "tuple" and len(state.parts) in (2, 3) else None


def _kind(node: Any) -> str:
    return str(getattr(node, "kind", ""))


def _called(node: Any, name: str) -> list[Any]:
    """Return the arguments of an object that a function of that name makes; empty for all else."""
    parts = getattr(node, "parts", [])
    if _kind(node) != "object" or len(parts) != 2:
        return []
    function, arguments = parts
    known = _kind(function) == "global" and function.parts == [name]
    return list(arguments.parts) if known and _kind(arguments) == "tuple" else []


def _places(node: Any, array_of: Callable[[Any], Array | None]) -> Sequence[int]:
    """Return the places of a block's columns: a slice, or an array of numbers; empty for all else."""
    match _called(node, _SLICE):
        case [int(start), int(stop), int(step)] if 0 <= start <= stop <= _COLUMNS and step > 0:
            return range(start, stop, step)
    array = array_of(node)
    if array is None or array.code != _INTEGERS or len(array.shape) != 1:
        return ()
    data = bytes(array.parts[array.place])
    return struct.unpack(f"<{len(data) // 8}q", data) if len(data) == array.shape[0] * 8 else ()


def _table(node: Any) -> dict[Any, Any]:
    parts = node.parts if _kind(node) == "dict" else []
    return {key: value for key, value in zip(parts[::2], parts[1::2], strict=False) if isinstance(key, str)}


def _labels(index: Any) -> list[str]:
    """Return the labels of columns, each of which is another text; empty if they are anything else."""
    arguments = _called(index, _INDEX)
    data = _table(arguments[1]).get("data") if len(arguments) == 2 else None
    found = _of_objects(data) or _of_arrow(data)
    return found if all(isinstance(each, str) for each in found) and len({*found}) == len(found) else []


def _of_objects(node: Any) -> list[Any]:
    """Return what is in an array of objects of one axis; joblib has its pickle behind what describes it."""
    parts = node.parts if _kind(node) == "object" else []
    state = _state(parts[3] if len(parts) == 4 else node)
    if state is None or _kind(state) != "tuple" or len(state.parts) != 5:
        return []
    shape, values = state.parts[1], state.parts[4]
    one_axis = _kind(shape) == "tuple" and _kind(values) == "list"
    return list(values.parts) if one_axis and shape.parts == [len(values.parts)] else []


def _state(node: Any) -> Any:
    """Return the state of an object; None if it has none."""
    parts = node.parts if _kind(node) == "object" else []
    return parts[2].parts[0] if len(parts) == 3 and _kind(parts[2]) == "state" else None


def _of_arrow(node: Any) -> list[str]:
    """Return the texts of an array of Arrow's, as pandas 3 has labels."""
    match _called(_table(_state(node)).get("_pa_array"), "pyarrow.lib _restore_array"):
        case [one] if _kind(one) == "tuple" and len(one.parts) == 7:
            kind, count, missing, start, buffers, _, _ = one.parts
        case _:
            return []
    name = next(iter(_called(kind, "pyarrow.lib type_for_alias")), None)
    if name not in _TEXTS or (missing, start) != (0, 0) or not isinstance(count, int) or len(buffers.parts) != 3:
        return []
    offsets, texts = (_buffer(each) for each in buffers.parts[1:])
    code = f"<{count + 1}{_TEXTS[name]}"
    if not all(isinstance(each, bytes | bytearray) for each in (offsets, texts)) or len(offsets) < struct.calcsize(
        code
    ):
        return []
    places = struct.unpack_from(code, offsets)
    if list(places) != sorted(places) or places[0] != 0 or places[-1] > len(texts):
        return []
    try:
        return [bytes(texts[a:b]).decode() for a, b in pairwise(places)]
    except UnicodeDecodeError:
        return []


def _buffer(node: Any) -> bytes:
    """Return the bytes of a buffer of Arrow's, in pickles of protocol 3 and later; nothing for all else."""
    data = next(iter(_called(node, "pyarrow.lib py_buffer")), b"")
    data = next(iter(_called(data, "builtins bytearray")), data)
    return bytes(data) if isinstance(data, bytes | bytearray) else b""


def _taken(array: Array, measured: Sequence[int], fits: Callable[[float], bool]) -> list[tuple[int, bytes]]:
    """Return the numbers of some rows and put zeros in their place, but for rows with one that does not fit."""
    rows, columns = array.shape
    size = struct.calcsize(array.code)
    data = array.parts[array.place]
    if not measured or not columns or len(data) != rows * columns * size:
        return []
    left, taken = bytearray(data), []
    for row in measured:
        first, step = (row, rows) if array.fortran else (row * columns, 1)
        places = range(first * size, (first + columns * step) * size, step * size)
        found = b"".join(data[at : at + size] for at in places)
        if all(fits(number) for (number,) in struct.iter_unpack(f"<{array.code}", found)):
            for at in places:
                left[at : at + size] = bytes(size)
            taken.append((row, found))
    array.parts[array.place] = type(data)(left)
    return taken
