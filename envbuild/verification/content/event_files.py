"""What is in TensorBoard's event files: scalars, histograms, images, sounds, texts, tables.

Scalars are metrics of the run's record too, which has not all of them where there are very many. Sources:
tensorflow/core/util/event.proto, framework/summary.proto, framework/tensor.proto.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator

from envbuild.core.tfrecord import crc32c, fields_of, number_in, records, signed
from envbuild.record.measurements import kind_of_metric
from envbuild.verification.content import values
from envbuild.verification.content.canonical import FILE, Canonical, UnreadableError, below

_VERSION = b"brain.Event:"
"""In the first record of such a file."""
_WALL_TIME = b"\x09"
"""The key of the first field of an event."""
LARGEST_WITHOUT_VERSION, _FRAME = 8 << 20, 16
"""Bytes of the largest file without a version that is looked through, and of a record without its data."""
_BILLION = 10**9
"""Seconds since 1970, of September 2001."""
_STRING = 7
"""TensorFlow's type of texts."""
_KINDS = {4: "image", 5: "histogram", 6: "sound", 8: "tensor"}
"""Fields of a value in a summary. Others are a scalar's, the old form's, and what plugins note of themselves, which has
the time."""
_SIMPLE, _TENSOR, _TEXT, _TYPE, _TAG = 2, 8, 8, 1, 1
_METADATA, _HPARAMS, _SESSION = 9, b"hparams", 3
"""Fields of a value and of what the plugin ``hparams`` notes, and its name; a session's other fields have the time."""


def is_event_file(data: bytes) -> bool:
    """Whether data begin as an event file does: with the version of the format, or, as CatBoost's, with an event."""
    if _VERSION in data[12:64]:
        return _has_version(data[12 : 12 + int.from_bytes(data[:8], "little")])
    head = data[12:13] == _WALL_TIME and crc32c(data[:8]) == int.from_bytes(data[8:12], "little")
    return head and len(data) <= LARGEST_WITHOUT_VERSION and _are_events(data)


def may_be_event_file(head: bytes) -> bool:
    """Whether a file begins as an event file does, however large it is; ``head``: some of its first bytes."""
    if is_event_file(head):
        return True
    size = int.from_bytes(head[:8], "little")
    known = crc32c(head[:8]) == int.from_bytes(head[8:12], "little") and 12 + size <= len(head)
    try:
        return known and head[12:13] == _WALL_TIME and _is_event(head[12 : 12 + size])
    except (ValueError, IndexError, struct.error):
        return False


def _has_version(event: bytes) -> bool:
    """Whether an ``Event`` has the format's version: 3 file_version. Other messages may have such a text elsewhere."""
    try:
        return any(
            number == 3 and isinstance(value, bytes) and value.startswith(_VERSION)
            for number, value in fields_of(event)
        )
    except (ValueError, IndexError):
        return False


def _are_events(data: bytes) -> bool:
    """Whether data are whole records of times and single numbers, and nothing else: other messages may begin so too."""
    found = [*records(io.BytesIO(data), FILE, FILE)]
    try:
        return sum(len(each or b"") + _FRAME for each in found) == len(data) and all(_is_event(e or b"") for e in found)
    except (ValueError, IndexError, struct.error):
        return False


def _is_event(event: bytes) -> bool:
    fields = [*fields_of(event)]
    moments = [value for number, value in fields if number == 1 and isinstance(value, bytes) and len(value) == 8]
    values = [value for number, value in fields if number == 5 and isinstance(value, bytes)]
    parts = [part for value in values for part in fields_of(value)]
    numbers = [number_in(dict(fields_of(value))) for part, value in parts if part == 1 and isinstance(value, bytes)]
    known = len(moments) == 1 and {number for number, _ in fields} <= {1, 2, 5} and all(part == 1 for part, _ in parts)
    return (
        known
        and _BILLION <= struct.unpack("<d", moments[0])[0] < 4 * _BILLION
        and bool(numbers)
        and None not in numbers
    )


def read_event_file(out: Canonical, path: str, data: bytes) -> None:
    """Count the values by tag and step, scalars but for measurements; a last record that is cut off does not count.

    Raises ``UnreadableError`` if one is damaged: readers stop there, whatever is behind it.
    """
    place = 0
    for number, event in enumerate(records(io.BytesIO(data), FILE, FILE)):
        try:
            _read_event(out, path, event or b"", number)
        except (ValueError, IndexError, struct.error) as error:
            raise UnreadableError(str(error)) from None
        place += len(event or b"") + _FRAME
    if len(rest := data[place:]) >= _FRAME:
        length = int.from_bytes(rest[:8], "little")
        if crc32c(rest[:8]) != int.from_bytes(rest[8:12], "little") or length + _FRAME <= len(rest):
            raise UnreadableError("a damaged record")


def _read_event(out: Canonical, path: str, event: bytes, at: int) -> None:
    """Read an ``Event``: 1 time, 2 step, 5 summary; in it 1 value. ``at``: its place in the file."""
    found = list(fields_of(event))
    for number, value in found:
        if number == 1 and isinstance(value, bytes):
            out.time_of_writing(value, name=f"{path}time of event {at}", moment=struct.unpack("<d", value)[0])
    step = next((signed(value) for number, value in found if number == 2 and isinstance(value, int)), 0)
    for number, summary in found:
        if number == 5 and isinstance(summary, bytes):
            for part, value in fields_of(summary):
                if part == 1 and isinstance(value, bytes):
                    _read_value(out, path, step, value)


def _read_value(out: Canonical, path: str, step: int, value: bytes) -> None:
    found = list(fields_of(value))
    tag = next((data for number, data in found if number == _TAG and isinstance(data, bytes)), b"")
    label = tag.decode("utf-8", "backslashreplace")
    name = f"{path}{label}, step {step}"
    table = dict(found)
    if (shown := number_in(table)) is not None:
        if kind_of_metric(label) is None:
            out.scalar(name, bytes(table.get(_SIMPLE) or table[_TENSOR]), shown)
        return
    for number, data in found:
        if number == _METADATA and isinstance(data, bytes):
            _read_hparams(out, name, data)
        if number not in _KINDS or not isinstance(data, bytes):
            continue
        if number != _TENSOR:
            out.add(f"{name}, {_KINDS[number]}", data)
            continue
        tensor = list(fields_of(data))
        if (_TYPE, _STRING) in tensor:
            for text in _texts(tensor):
                for line in text.splitlines():
                    out.text(f"{name}, text", line)
        else:
            out.add(f"{name}, tensor", data)


def _read_hparams(out: Canonical, name: str, metadata: bytes) -> None:
    """Count the hyperparameters of a session, which may have been drawn: by their names, as JSON's values are."""
    for key, value in _hparams_in(metadata):
        where = below(name, key, ", ")
        if isinstance(value, float):
            values.number(out, where, key, value, repr(value))
        elif isinstance(value, str):
            values.string(out, where, key, value)
        else:
            out.add(where, value)


def _hparams_in(metadata: bytes) -> list[tuple[str, float | str | bytes]]:
    """Return the names and values of a session's hyperparameters; none of what is no such message.

    Source: tensorboard/plugins/hparams/plugin_data.proto; a map's entries come in any order.
    """
    try:
        plugin = dict(fields_of(_message(dict(fields_of(metadata)).get(1))))
        content = _message(plugin.get(2)) if plugin.get(1) == _HPARAMS else b""
        session = fields_of(_message(dict(fields_of(content)).get(_SESSION)))
        entries = [dict(fields_of(entry)) for number, entry in session if number == 1 and isinstance(entry, bytes)]
        named = {_message(entry.get(1)): _value_in(_message(entry.get(2))) for entry in entries}
        return [(key.decode("utf-8", "backslashreplace"), named[key]) for key in sorted(named)]
    except (ValueError, IndexError, struct.error):
        return []


def _value_in(value: bytes) -> float | str | bytes:
    """Return a ``google.protobuf.Value``: 2 number, 3 text; others by their bytes."""
    found = dict(fields_of(value))
    match found.get(2), found.get(3):
        case bytes(number), _:
            return float(struct.unpack("<d", number)[0])
        case _, bytes(text):
            return text.decode("utf-8", "backslashreplace")
    return value


def _message(field: int | bytes | None) -> bytes:
    return field if isinstance(field, bytes) else b""


def _texts(tensor: list[tuple[int, int | bytes]]) -> Iterator[str]:
    for number, data in tensor:
        if number == _TEXT and isinstance(data, bytes):
            yield data.decode("utf-8", "backslashreplace")
