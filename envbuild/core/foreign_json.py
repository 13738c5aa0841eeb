"""JSON from outside: whatever is wrong with it is a ``ValueError``."""

from __future__ import annotations

from typing import Any

from envbuild.core import quick_json

VALUES = 4_000_000
"""Most values of a document: as Python's they take up to 80 bytes each, 25 times as much as they take in a file."""
_MARKS = (",", ":", "[", "{")


def check_size(data: str | bytes | bytearray, values: int = VALUES) -> None:
    """Look at a document before it is parsed.

    Raises:
        ValueError: it could have more than so many values; marks in texts count too.
    """
    if len(data) > values:
        text = isinstance(data, str)
        if sum(data.count(mark if text else mark.encode()) for mark in _MARKS) > values:  # type: ignore[arg-type, misc]
            raise ValueError(f"more than {values} values")


def parse_json(data: str | bytes | bytearray, values: int = VALUES) -> Any:
    """Parse a JSON document.

    Raises:
        ValueError: it is none, it has more than so many values, or its arrays and objects are nested more deeply
            than this interpreter can follow.
    """
    check_size(data, values)
    try:
        return quick_json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None
