"""TFRecord files of ``tf.train.Example`` and ``SequenceExample``: record by record, features by name.

A message's features are a map, which protobuf writes in an order of its own in each process: its hash of names has a
seed that depends on addresses. A record counts by its names and features only if it is such a message and nothing
else, written as protobuf writes it, with each name once; any other record counts by its bytes.

Sources: tensorflow/core/example/example.proto, feature.proto; protobuf.dev, "Encoding", "Maps".
"""

from __future__ import annotations

import struct

from envbuild.core.patterns import lazy
from envbuild.core.tfrecord import crc32c, varint, whole_records
from envbuild.verification.content.canonical import Canonical, UnreadableError, below

_HEAD = struct.Struct("<QI")
_FRAME = _HEAD.size + 4
_SUMMED = 64 << 20
"""Bytes of the largest file whose sums are checked, which takes about six seconds."""
_FIRST, _SECOND, _THIRD = b"\x0a", b"\x12", b"\x1a"
"""Keys of the first three fields of a message, if they are messages, texts or packed numbers."""
_INTEGERS = lazy(rb"(?:[\x00-\x7f]|[\x80-\xff]{1,8}[\x01-\x7f]|[\x80-\xff]{9}\x01)+")
"""Packed numbers, each written as short as can be."""

Features = dict[str, bytes]


def are_records(data: bytes) -> bool:
    """Whether data begin with a record that is an example: only then it is worth it to check all sums."""
    if not _FRAME <= len(data) <= _SUMMED:
        return False
    length, check = _HEAD.unpack_from(data)
    if length > len(data) - _FRAME or crc32c(data[:8]) != check:
        return False
    try:
        return bool(_example(data[_HEAD.size : _HEAD.size + length]))
    except (ValueError, IndexError):
        return False


def read_records(out: Canonical, path: str, data: bytes) -> None:
    """Count records in their order; raises ``UnreadableError`` if one is damaged, or something is behind the last."""
    try:
        for number, record in enumerate(whole_records(data)):
            _read_record(out, below(path, f"[{number}]", ""), record)
    except ValueError as error:
        raise UnreadableError(str(error)) from None


def _read_record(out: Canonical, path: str, record: bytes) -> None:
    try:
        parts = _example(record)
    except (ValueError, IndexError):
        out.add(path, record)
        return
    for kind, features in parts:
        out.add(path, f"{kind} {len(features)}")
        for name, feature in sorted(features.items()):
            out.add(below(path, name), feature)


def _example(record: bytes) -> list[tuple[str, Features]]:
    """Return the maps of a message; raises ``ValueError`` or ``IndexError`` if it is none, or not all that it is."""
    found, place = [], 0
    if record[:1] == _FIRST:
        first, place = _part(record, 0, _FIRST)
        found.append(("features", _map(first)))
    if place < len(record):
        second, place = _part(record, place, _SECOND)
        found.append(("feature lists", _map(second)))
    features = [
        feature
        for kind, entries in found
        for value in entries.values()
        for feature in ([value] if kind == "features" else _parts(value))
    ]
    for feature in features:
        _check_feature(feature)
    if place != len(record) or not any(features):
        raise ValueError("more than an example, or nothing in it")
    return found


def _part(data: bytes, place: int, key: bytes) -> tuple[bytes, int]:
    """Return a field with a length and the place behind it; raises for any other key, and a length written long."""
    if data[place : place + 1] != key:
        raise ValueError("another field")
    length, start = varint(data, place + 1)
    if start - place - 1 != max(1, -(-length.bit_length() // 7)) or start + length > len(data):
        raise ValueError("a length that protobuf does not write")
    return data[start : start + length], start + length


def _parts(data: bytes) -> list[bytes]:
    """Return the parts of a message of one repeated field."""
    found, place = [], 0
    while place < len(data):
        part, place = _part(data, place, _FIRST)
        found.append(part)
    return found


def _map(data: bytes) -> Features:
    """Return the entries of a map with texts as keys; raises ``ValueError`` if it is none, or a key comes twice."""
    found: Features = {}
    for entry in _parts(data):
        key, place = _part(entry, 0, _FIRST)
        value, end = _part(entry, place, _SECOND)
        name = key.decode()
        if end != len(entry) or name in found:
            raise ValueError("no entry of a map, or a second one of a name")
        found[name] = value
    return found


def _check_feature(data: bytes) -> None:
    """Raise ``ValueError`` if data are no ``Feature``: a list of bytes, of floats or of integers, or nothing."""
    if not data:
        return
    key = data[:1]
    if key not in (_FIRST, _SECOND, _THIRD):
        raise ValueError("no feature")
    values, end = _part(data, 0, key)
    if end != len(data):
        raise ValueError("more than a feature")
    if key == _FIRST:
        _parts(values)
    elif values:
        numbers, end = _part(values, 0, _FIRST)
        sound = len(numbers) % 4 == 0 if key == _SECOND else _INTEGERS.fullmatch(numbers) is not None
        if end != len(values) or not numbers or not sound:
            raise ValueError("no packed numbers")
