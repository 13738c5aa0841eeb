"""ONNX models: all of their bytes but a graph's drawn name and what the exporter noted about itself and the time.

skl2onnx calls a graph ``uuid4().hex`` if nobody names it; CatBoost notes an identity and when it trained a model.
Source: onnx/onnx.proto (``ModelProto``, ``GraphProto``, ``StringStringEntryProto``).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from envbuild.core.tfrecord import fields_of
from envbuild.verification.content import values
from envbuild.verification.content.canonical import Canonical, UnreadableError, below

Nested = Callable[[Canonical, str, bytes], None]
"""Opens what is in a value."""
_VERSION, _GRAPH, _NOTE = 1, 7, 14
_OF_MODEL = frozenset((1, 2, 3, 4, 5, 6, 7, 8, 14, 20, 25, 26))
_NODE, _NAME = 1, 2
_OF_GRAPH = frozenset((1, 2, 5, 10, 11, 12, 13, 14, 15, 16))
_NEWEST = 40
"""Versions of the format that are to be expected; 13 in 2025."""
_FIELDS = 10_000
_NEXT = b"\x12\x1a\x22\x28\x32\x3a\x42"
"""What may follow the version: texts, a number, the graph, sets of operators."""


def is_model(data: bytes) -> bool:
    """Whether data are a message with the version first, a graph, and no fields but those of a model."""
    begins = len(data) > 2 and data[0] == 8 and 0 < data[1] < _NEWEST and data[2] in _NEXT
    if not begins:
        return False
    try:
        fields = [number for number, _ in islice(fields_of(data), _FIELDS + 1)]
    except (ValueError, IndexError):
        return False
    return (
        len(fields) <= _FIELDS and fields.count(_VERSION) == fields.count(_GRAPH) == 1 and _OF_MODEL.issuperset(fields)
    )


def read_model(out: Canonical, path: str, data: bytes, nested: Nested) -> None:
    """Read a model; raises ``UnreadableError`` if its graph or its notes are damaged."""
    try:
        for number, value in fields_of(data):
            if number == _GRAPH and isinstance(value, bytes):
                _graph(out, below(path, "graph"), value)
            elif number == _NOTE and isinstance(value, bytes):
                _note(out, path, value, nested)
            else:
                out.add(below(path, f"field {number}"), _shown(value))
    except (ValueError, IndexError) as error:
        raise UnreadableError(f"a damaged model: {error}") from None


def _graph(out: Canonical, path: str, data: bytes) -> None:
    counts: dict[int, int] = {}
    for number, value in fields_of(data):
        if number not in _OF_GRAPH:
            raise ValueError("a graph with other fields")
        if number == _NAME and isinstance(value, bytes) and values.is_drawn(value.decode("ascii", "replace")):
            out.leave_out(below(path, "name"), value, "identity")
            continue
        counts[number] = counts.get(number, -1) + 1
        kind = {_NODE: "node", _NAME: "name", 5: "initializer"}.get(number, f"field {number}")
        out.add(below(path, f"{kind}[{counts[number]}]"), _shown(value))


def _note(out: Canonical, path: str, data: bytes, nested: Nested) -> None:
    fields = [*fields_of(data)]
    if [number for number, _ in fields] != [1, 2]:
        raise ValueError("a note of another form")
    (_, name), (_, value) = fields
    if not isinstance(name, bytes) or not isinstance(value, bytes):
        raise ValueError("a note of another form")
    key, text = name.decode(), value.decode()
    out.add(path, key)
    if value[:1] in (b"{", b"["):
        nested(out, below(path, key), value)
    else:
        values.string(out, below(path, key), key, text)


def _shown(value: int | bytes) -> bytes | str:
    return value if isinstance(value, bytes) else str(value)
