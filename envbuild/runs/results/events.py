"""Scalars of TensorBoard's event files, read without TensorBoard, which neither the host nor every image has.

A file is a row of records (``core.tfrecord``). The data of each is a protocol buffer, ``Event``, of which a few fields
are needed (https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/util/event.proto, summary.proto,
tensor.proto). A file that was cut off gives what is whole.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from envbuild.core.tfrecord import fields_of, number_in, records, signed

RECORD = 1 << 16
"""Bytes; a scalar's record has about a hundred. Larger ones (graphs, images, histograms) are passed over."""
FILE = 1 << 28
"""Bytes of a file that are looked at."""


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
                tag, value = table.get(1), number_in(table)
                if value is not None and isinstance(tag, bytes):
                    yield tag.decode("utf-8", "backslashreplace"), step, value
