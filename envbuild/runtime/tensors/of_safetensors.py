"""safetensors: a JSON header and ranges (https://github.com/huggingface/safetensors#format)."""

from __future__ import annotations

import json

from .contents import SIZES, Contents, UnreadableError, bytes_of, cut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HEADER = 12 << 20
"""Bytes: 240 for each tensor of the largest number that is read. Parsed, a hostile one takes 24 times as much."""
_TYPES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32", "I32": "int32",
    "U64": "uint64", "I64": "int64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
    "C64": "complex64", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu",
}  # fmt: skip


def is_one(view: memoryview) -> bool:
    """Return whether a file begins like one."""
    length = int.from_bytes(view[:8], "little")
    return len(view) > 9 and 2 <= length <= len(view) - 8 and view[8] == ord("{")


def read(view: memoryview, contents: Contents) -> None:
    """Add every tensor, and the metadata to the rest."""
    length = int.from_bytes(view[:8], "little")
    if length > HEADER:
        raise UnreadableError(f"a header of {length} bytes, more than {HEADER}")
    try:
        header = json.loads(bytes(view[8 : 8 + length]), object_pairs_hook=_once)
        metadata = header.pop("__metadata__", {})
    except (ValueError, AttributeError, RecursionError):
        raise UnreadableError("a damaged header") from None
    contents.rest(json.dumps(metadata, sort_keys=True))
    data = view[8 + length :]
    for name, entry in header.items():
        _add(contents, name, entry, data)
    at = 0
    for start, end in sorted(tuple(entry["data_offsets"]) for entry in header.values()):
        if start != at:
            raise UnreadableError("bytes that belong to no tensor, or to two")
        at = end
    if at != len(data):
        raise UnreadableError("bytes behind the last tensor")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name comes twice")
    return found


def _add(contents: Contents, name: str, entry: Any, data: memoryview) -> None:
    try:
        kind, shape, (start, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        dtype = _TYPES.get(kind, "")
        values = data[start:end] if 0 <= start <= end <= len(data) else None
        size = bytes_of(shape, SIZES.get(dtype, 1))
    except (KeyError, TypeError, ValueError):
        raise UnreadableError(f"the entry of {name[:100]} is damaged") from None
    if values is None:
        raise UnreadableError(f"{name[:100]} is beyond the end of the file")
    if dtype and len(values) != size:
        raise UnreadableError(f"{name[:100]} has {len(values)} bytes of values, {size} by its shape")
    if not dtype:  # types of less than a byte, or newer than this: digested as stored
        dtype, size = str(kind)[:40].lower(), len(values)
    contents.add(name, dtype, shape, cut(values), size)
