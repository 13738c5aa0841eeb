"""What libraries note of datasets that they saved: names of runs, times, and maps in an order that has no meaning.

Sources: tensorflow/core/protobuf/snapshot.proto (``SnapshotMetadataRecord``), struct.proto (``StructuredValue``);
huggingface/datasets, src/datasets/arrow_dataset.py (``Dataset.save_to_disk``), fingerprint.py.
"""

from __future__ import annotations

from typing import Any

from envbuild.core.patterns import lazy
from envbuild.core.tfrecord import varint
from envbuild.verification.content.canonical import Canonical, UnreadableError, below

_DIGITS = lazy(rb"[0-9]{1,20}")
_NAMES = {1: "graph_hash", 2: "run_id", 3: "creation_timestamp", 4: "version", 5: "dtype", 6: "num_elements"}
_FINALIZED = 1000
_TEXTS, _NEEDED = frozenset((1, 2)), frozenset((2, 3, 4))
_MICROSECONDS = 1_000_000
_LARGEST, _LARGEST_SPEC = 4096, 1 << 20
_LIST, _TUPLE, _TABLE = 51, 52, 53
_LEAVES = {1: 2, 11: 1, 12: 0, 13: 2, 14: 0, 31: 2, 32: 0, 33: 2, 34: 2, 35: 2, 54: 2}
"""Kinds of values that have no map of their own to be looked at, by number, and how each is written."""
_DEPTH = 50


def is_snapshot(data: bytes) -> bool:
    """Whether data are what ``tf.data`` notes of a saved dataset, each field once and in order."""
    if len(data) > _LARGEST or data[:1] not in (b"\x0a", b"\x12"):
        return False
    try:
        found = _fields(data)
    except (ValueError, IndexError):
        return False
    numbers = [number for number, _ in found]
    known = set(numbers) <= _NAMES.keys() | {_FINALIZED} and set(numbers) >= _NEEDED
    return (
        known
        and numbers == sorted(set(numbers))
        and all(isinstance(value, bytes) is (number in _TEXTS or number == 5) for number, value in found)
        and all(_DIGITS.fullmatch(value) is not None for number, value in found if number in _TEXTS and value)  # type: ignore[arg-type]
    )


def read_snapshot(out: Canonical, path: str, data: bytes) -> None:
    """Count all but when it was made. A run's identity is left out if one of the files' folders has its name."""
    for number, value in _fields(data):
        name = below(path, _NAMES.get(number, "finalized"))
        if number in _TEXTS and isinstance(value, bytes):
            out.text(name, value.decode())
        elif number == 3 and isinstance(value, int) and out.is_moment(value / _MICROSECONDS):
            out.leave_out(name, str(value), "time", during=out.is_during(value / _MICROSECONDS))
        else:
            out.add(name, value if isinstance(value, bytes) else str(value))


def is_spec(data: bytes) -> bool:
    """Whether data are what ``tf.data`` notes of the structure of a saved dataset that has names in it."""
    if len(data) > _LARGEST_SPEC or data[:2] not in (b"\x9a\x03", b"\xa2\x03", b"\xaa\x03"):
        return False
    try:
        return _has_table(_value(data, 0))
    except (ValueError, IndexError):
        return False


def read_spec(out: Canonical, path: str, data: bytes) -> None:
    """Count the structure, names in tables in their alphabetical order: protobuf writes them by addresses."""
    try:
        _count(out, path, _value(data, 0))
    except (ValueError, IndexError) as error:
        raise UnreadableError(f"a damaged structure: {error}") from None


def _fields(data: bytes) -> list[tuple[int, int | bytes]]:
    return [(key >> 3, value) for key, value in _keyed(data)]


def _keyed(data: bytes) -> list[tuple[int, int | bytes]]:
    """Return key and value of each field; raises ``ValueError`` if a number is not as short as can be."""
    found: list[tuple[int, int | bytes]] = []
    place = 0
    while place < len(data):
        key, place = _shortest(data, place)
        if key & 7 == 0:
            value, place = _shortest(data, place)
            found.append((key, value))
            continue
        if key & 7 == 2:
            length, place = _shortest(data, place)
        elif key & 7 == 1:
            length = 8
        else:
            raise ValueError("a field of another kind")
        if place + length > len(data):
            raise ValueError("a field beyond the end")
        found.append((key, data[place : place + length]))
        place += length
    return found


def _shortest(data: bytes, place: int) -> tuple[int, int]:
    value, end = varint(data, place)
    if end - place != max(1, -(-value.bit_length() // 7)):
        raise ValueError("a number that protobuf does not write so")
    return value, end


def _value(data: bytes, depth: int) -> Any:
    """Return bytes, a list of values, or a table of values by name."""
    if depth > _DEPTH:
        raise ValueError("nested too deep")
    if not data:
        return data
    ((key, value),) = _keyed(data)
    number, kind = key >> 3, key & 7
    if number in _LEAVES and kind == _LEAVES[number]:
        return data
    if number not in (_LIST, _TUPLE, _TABLE) or not isinstance(value, bytes):
        raise ValueError("no value of a structure")
    parts = _keyed(value)
    if any(each != (1 << 3 | 2) for each, _ in parts):
        raise ValueError("another part of a structure")
    if number != _TABLE:
        return [number, *(_value(part, depth + 1) for _, part in parts if isinstance(part, bytes))]
    table: dict[str, Any] = {}
    for _, part in parts:
        (first, name), (second, each) = _keyed(part) if isinstance(part, bytes) else ((0, 0), (0, 0))
        if (first, second) != (1 << 3 | 2, 2 << 3 | 2) or not isinstance(name, bytes) or not isinstance(each, bytes):
            raise ValueError("another part of a table")
        if name.decode() in table:
            raise ValueError("a name comes twice")
        table[name.decode()] = _value(each, depth + 1)
    return table


def _has_table(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(map(_has_table, value)))


def _count(out: Canonical, path: str, value: Any) -> None:
    if isinstance(value, dict):
        out.add(path, f"{{{len(value)}}}")
        for name, each in sorted(value.items()):
            out.add(path, name)
            _count(out, below(path, name), each)
    elif isinstance(value, list):
        out.add(path, f"[{len(value) - 1}] of kind {value[0]}")
        for at, each in enumerate(value[1:]):
            _count(out, below(path, f"[{at}]", ""), each)
    else:
        out.add(path, value)


_STATE = frozenset(("_data_files", "_fingerprint", "_format_columns", "_format_kwargs", "_format_type",
                    "_output_all_columns", "_split"))  # fmt: skip
_FINGERPRINT = lazy(r"[0-9a-f]{16}")


def is_state(table: Any) -> bool:
    """Whether a JSON value is the ``state.json`` of a dataset that Hugging Face's library saved, with a fingerprint.

    The fingerprint is of how the dataset was made: of functions and arguments, with paths and times of files in it, or
    drawn where these cannot be digested. It is the name of files of a cache; the data are in the files next to it.
    """
    return (
        isinstance(table, dict)
        and table.keys() == _STATE
        and isinstance(table["_fingerprint"], str)
        and _FINGERPRINT.fullmatch(table["_fingerprint"]) is not None
    )
