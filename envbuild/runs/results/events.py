"""Scalars of TensorBoard's event files, read without TensorBoard, which neither the host nor every image has.

A file is a row of records (``core.tfrecord``). The data of each is a protocol buffer, ``Event``, of which a few fields
are needed (https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/util/event.proto, summary.proto,
tensor.proto). A file that was cut off gives what is whole.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from envbuild.core.tfrecord import fields_of, records, signed, varint

RECORD = 1 << 16
"""Bytes; a scalar's record has about a hundred. Larger ones (graphs, images, histograms) are passed over."""
FILE = 1 << 28
"""Bytes of a file that are looked at."""
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
        for data in records(stream, RECORD, FILE):
            try:
                found = list(_scalars(data)) if data is not None else []
            except (ValueError, struct.error, IndexError):
                continue
            yield from found


def _scalars(event: bytes) -> Iterator[tuple[str, int, float]]:
    """Yield the scalars of an ``Event``: 2 step, 5 summary; in it 1 value: 1 tag, 2 simple value, 8 tensor."""
    fields = list(fields_of(event))
    step = next((signed(value) for number, value in fields if number == 2 and isinstance(value, int)), 0)
    for number, summary in fields:
        if number != 5 or not isinstance(summary, bytes):
            continue
        for part, entry in fields_of(summary):
            if part == 1 and isinstance(entry, bytes):
                table = dict(fields_of(entry))
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
