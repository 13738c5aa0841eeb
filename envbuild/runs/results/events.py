"""Scalars of TensorBoard's event files, read without TensorBoard, which neither the host nor every image has.

A file is a row of records: length, masked CRC-32C of the length, data, masked CRC-32C of the data
(https://www.tensorflow.org/tutorials/load_data/tfrecord). The data is a protocol buffer, ``Event``, of which a few
fields are needed (https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/util/event.proto, summary.proto,
tensor.proto). A file that was cut off gives what is whole.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

RECORD = 1 << 16
"""Bytes; a scalar's record has about a hundred. Larger ones (graphs, images, histograms) are passed over."""
FILE = 1 << 28
"""Bytes of a file that are looked at."""
_HEAD = struct.Struct("<QI")
_NUMBERS = {1: ("<f", 4), 2: ("<d", 8), 3: ("<i", 4), 9: ("<q", 8)}
"""TensorFlow's types float, double, int32, int64: layout and bytes in ``tensor_content``."""
_VALUES = {1: (5, "<f"), 2: (6, "<d"), 3: (7, ""), 9: (10, "")}
"""The same types: field of the single value, and its layout; empty for a variable-length integer."""


def is_event_file(path: str) -> bool:
    """Return by its name whether a file holds events."""
    return ".tfevents." in path.rpartition("/")[2]


def scalars(path: Path) -> Iterator[tuple[str, int, float]]:
    """Yield tag, step and value of each scalar, until the end or the first damage."""
    with path.open("rb") as stream:
        for data in _records(stream):
            try:
                found = list(_scalars(data))
            except (ValueError, struct.error, IndexError):
                continue
            yield from found


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


def _records(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the data of small whole records."""
    while stream.tell() < FILE:
        head = stream.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return
        length, check = _HEAD.unpack(head)
        if crc32c(head[:8]) != check or length > FILE:
            return
        if length > RECORD:
            stream.seek(length + 4, 1)
            continue
        data = stream.read(length + 4)
        if len(data) < length + 4 or crc32c(data[:-4]) != int.from_bytes(data[-4:], "little"):
            return
        yield data[:-4]


def _scalars(event: bytes) -> Iterator[tuple[str, int, float]]:
    """Yield the scalars of an ``Event``: 2 step, 5 summary; in it 1 value: 1 tag, 2 simple value, 8 tensor."""
    fields = list(_fields(event))
    step = next((_signed(value) for number, value in fields if number == 2 and isinstance(value, int)), 0)
    for number, summary in fields:
        if number != 5 or not isinstance(summary, bytes):
            continue
        for part, entry in _fields(summary):
            if part == 1 and isinstance(entry, bytes):
                table = dict(_fields(entry))
                tag, value = table.get(1), _number(table)
                if value is not None and isinstance(tag, bytes):
                    yield tag.decode("utf-8", "backslashreplace"), step, value


def _number(entry: dict[int, Any]) -> float | None:
    """Return the value of a summary's entry if it is one number."""
    simple, tensor = entry.get(2), entry.get(8)
    if isinstance(simple, bytes) and len(simple) == 4:
        return float(struct.unpack("<f", simple)[0])
    if not isinstance(tensor, bytes):
        return None
    fields = dict(_fields(tensor))  # TensorProto: 1 type, 2 shape, 4 content, 5 to 10 values by type
    kind, shape = fields.get(1), fields.get(2, b"")
    if not isinstance(kind, int) or kind not in _NUMBERS or not isinstance(shape, bytes):
        return None
    if any(number == 2 for number, _ in _fields(shape)):  # it has axes
        return None
    layout, size = _NUMBERS[kind]
    content = fields.get(4)
    if isinstance(content, bytes) and len(content) == size:
        return float(struct.unpack(layout, content)[0])
    number, layout = _VALUES[kind]
    value = fields.get(number, 0)
    if isinstance(value, bytes):
        return float(struct.unpack(layout, value)[0]) if layout else float(_signed(_varint(value, 0)[0]))
    return float(_signed(value))


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field of a message (https://protobuf.dev/programming-guides/encoding/)."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        kind = key & 7
        if kind == 0:
            value, place = _varint(data, place)
            yield key >> 3, value
            continue
        if kind == 2:
            length, place = _varint(data, place)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field of unknown kind {kind}")
        if place + length > len(data):
            raise ValueError("a field beyond the end")
        yield key >> 3, data[place : place + length]
        place += length


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
    raise ValueError("a number of more than ten bytes")


def _signed(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value
