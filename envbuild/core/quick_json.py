"""What ``json`` reads and writes, without importing it: that is 1 ms of a short run.

The parts of ``json`` that are written in C are called as ``json`` calls them; whatever they do not read is left to
``json`` itself, which reports it.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_BLANKS = " \t\n\r"
_CONSTANTS = {"-Infinity": float("-inf"), "Infinity": float("inf"), "NaN": float("nan")}


class _Reader:
    """The attributes that ``_json.make_scanner`` reads from a ``json.JSONDecoder``."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int, parse_constant = float, int, _CONSTANTS.__getitem__

    def __init__(self) -> None:
        self.memo: dict[str, str] = {}


def loads(data: str | bytes | bytearray) -> Any:
    """Parse a document as ``json.loads`` does, with its exceptions."""
    if "json" not in sys.modules:
        try:
            return _read(data)
        except (AttributeError, ImportError, LookupError, StopIteration, SystemError, ValueError):
            pass  # it is something else, or no JSON
    import json

    return json.loads(data)


def _read(data: str | bytes | bytearray) -> Any:
    """Parse an array or object in UTF-8; raises various exceptions for anything else."""
    from _json import make_scanner

    if isinstance(data, str):
        text = data
    elif data[1:2] == b"\0":
        raise LookupError  # UTF-16, or UTF-32
    else:
        text = data.decode("utf-8", "surrogatepass")
    if text[:1] not in ("{", "["):
        raise LookupError
    value, end = make_scanner(_Reader())(text, 0)  # type: ignore[arg-type]
    if text[end:].strip(_BLANKS):
        raise LookupError
    return value


def dumps(value: Any, *, canonical: bool = False) -> str:
    """Write a value as ``json.dumps`` does.

    Args:
        canonical: with sorted keys, without spaces, and with other letters than those of ASCII as they are.
    """
    try:
        from _json import encode_basestring, encode_basestring_ascii, make_encoder
    except ImportError:  # a Python without them
        import json

        if canonical:
            return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return json.dumps(value)
    quote = encode_basestring if canonical else encode_basestring_ascii
    if isinstance(value, str):
        return quote(value)
    separators = (":", ",") if canonical else (": ", ", ")
    return "".join(make_encoder({}, _refuse, quote, None, *separators, canonical, False, True)(value, 0))


def _refuse(value: object) -> None:
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")
