"""TensorFlow's ``fingerprint.pb``, next to a SavedModel: hashes of the model, and a random UUID.

Source: tensorflow/core/protobuf/fingerprint.proto (``FingerprintDef``).
"""

from __future__ import annotations

from envbuild.core.patterns import lazy
from envbuild.core.tfrecord import fields_of
from envbuild.verification.content.canonical import Canonical, below

_NAMES = {
    1: "saved_model_checksum",
    2: "graph_def_program_hash",
    3: "signature_def_hash",
    4: "saved_object_graph_hash",
    5: "checkpoint_hash",
    6: "version",
    7: "uuid",
}
_UUID = 7
_DIGITS = lazy(rb"\d{15,39}")
"""A UUID as one number."""
_LARGEST = 256


def is_fingerprint(data: bytes) -> bool:
    """Whether data are a fingerprint with a UUID: each field once, numbers but for the last two."""
    if len(data) > _LARGEST or data[:1] != b"\x08":
        return False
    try:
        found = [*fields_of(data)]
    except (ValueError, IndexError):
        return False
    kinds = {number: type(value) for number, value in found}
    texts = [value for number, value in found if number == _UUID and isinstance(value, bytes)]
    numbers = all(kinds.get(number, int) is int for number in range(1, 6))
    known = len(kinds) == len(found) and kinds.keys() <= _NAMES.keys() and kinds.keys() >= {1, 2, 6, _UUID}
    return known and numbers and len(texts) == 1 and _DIGITS.fullmatch(texts[0]) is not None


def read_fingerprint(out: Canonical, path: str, data: bytes) -> None:
    """Count the hashes."""
    for number, value in fields_of(data):
        name = below(path, _NAMES[number])
        if number == _UUID and isinstance(value, bytes):
            out.leave_out(name, value, "identity")
        else:
            out.add(name, value if isinstance(value, bytes) else str(value))
