"""Rows of records as TensorFlow writes them, the fields of protocol buffers in them, and single numbers in these.

A file is a row of records: length, masked CRC-32C of the length, data, masked CRC-32C of the data
(https://www.tensorflow.org/tutorials/load_data/tfrecord).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache
from typing import Any, BinaryIO

_HEAD = struct.Struct("<QI")
_SUMMED = 1 << 16
"""Bytes of records whose data are summed: in Python that takes a second for 5 MB, and images have as many."""
_NUMBERS = {1: ("<f", 4), 2: ("<d", 8), 3: ("<i", 4), 9: ("<q", 8)}
"""TensorFlow's types float, double, int32, int64: layout and bytes in ``tensor_content``."""
_VALUES = {1: (5, "<f"), 2: (6, "<d"), 3: (7, ""), 9: (10, "")}
"""The same types: field of the single value, and its layout; empty for a variable-length integer."""


def records(stream: BinaryIO, largest: int, most: int) -> Iterator[bytes | None]:
    """Yield the data of whole records until the end or the first damage; None for one that is passed over.

    Args:
        stream: can be sought in.
        largest: bytes of records that are read; larger ones are passed over.
        most: bytes of the file that are looked at.
    """
    while stream.tell() < most:
        head = stream.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return
        length, check = _HEAD.unpack(head)
        if crc32c(head[:8]) != check or length > most:
            return
        if length > largest:
            stream.seek(length + 4, 1)
            yield None
            continue
        data = stream.read(length + 4)
        if len(data) < length + 4:
            return
        if length <= _SUMMED and crc32c(data[:-4]) != int.from_bytes(data[-4:], "little"):
            return
        yield data[:-4]


def whole_records(data: bytes) -> Iterator[bytes]:
    """Yield the data of each record of a whole file; raises ``ValueError`` for a wrong sum, or one cut off.

    In Python the sums take a second for 10 MB.
    """
    place = 0
    while place < len(data):
        head = data[place : place + _HEAD.size]
        if len(head) < _HEAD.size:
            raise ValueError("a file that ends in the head of a record")
        length, check = _HEAD.unpack(head)
        place += _HEAD.size
        if crc32c(head[:8]) != check or length + 4 > len(data) - place:
            raise ValueError("a record of another length")
        record = data[place : place + length]
        if crc32c(record) != int.from_bytes(data[place + length : place + length + 4], "little"):
            raise ValueError("a record of another sum")
        yield record
        place += length + 4


def crc32c(data: bytes) -> int:
    """Return the masked CRC-32C of some bytes."""
    table = _table()
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@cache
def _table() -> tuple[int, ...]:
    table = []
    for number in range(256):
        for _ in range(8):
            number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
        table.append(number)
    return tuple(table)


def fields_of(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field of a message (https://protobuf.dev/programming-guides/encoding/)."""
    place = 0
    while place < len(data):
        key, place = varint(data, place)
        kind = key & 7
        if kind == 0:
            value, place = varint(data, place)
            yield key >> 3, value
            continue
        if kind == 2:
            length, place = varint(data, place)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field of unknown kind {kind}")
        if place + length > len(data):
            raise ValueError("a field beyond the end")
        yield key >> 3, data[place : place + length]
        place += length


def varint(data: bytes, place: int) -> tuple[int, int]:
    """Return a number of variable length and the place behind it."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
    raise ValueError("a number of more than ten bytes")


def signed(value: int) -> int:
    """Return a number of 64 bits as one with a sign."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def number_in(entry: dict[int, Any]) -> float | None:
    """Return the value of a summary's entry by its fields if it is one number.

    Sources: tensorflow/core/framework/summary.proto, tensor.proto. Raises ``ValueError``, ``IndexError`` or
    ``struct.error`` for damaged ones.
    """
    simple, tensor = entry.get(2), entry.get(8)
    if isinstance(simple, bytes) and len(simple) == 4:
        return float(struct.unpack("<f", simple)[0])
    if not isinstance(tensor, bytes):
        return None
    fields = dict(fields_of(tensor))  # TensorProto: 1 type, 2 shape, 4 content, 5 to 10 values by type
    kind, shape = fields.get(1), fields.get(2, b"")
    if not isinstance(kind, int) or kind not in _NUMBERS or not isinstance(shape, bytes):
        return None
    if any(number == 2 for number, _ in fields_of(shape)):  # it has axes
        return None
    layout, size = _NUMBERS[kind]
    content = fields.get(4)
    if isinstance(content, bytes) and len(content) == size:
        return float(struct.unpack(layout, content)[0])
    number, layout = _VALUES[kind]
    value = fields.get(number, 0)
    if isinstance(value, bytes):
        return float(struct.unpack(layout, value)[0]) if layout else float(signed(varint(value, 0)[0]))
    return float(signed(value))
