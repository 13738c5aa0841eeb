"""JSON without importing ``json``, which alone costs about 6 ms (it needs ``re`` and ``enum``).

The C scanner and string encoder that ``json`` is built on are used directly; where an interpreter lacks them,
``json`` takes over. Values: dict with string keys, list, tuple, str, int, float, bool and None.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Context:
    """The attributes that ``_json.make_scanner`` reads from a decoder."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int

    @staticmethod
    def parse_constant(name: str) -> float:
        raise ValueError(f"{name} is not JSON")

    def __init__(self) -> None:
        self.memo: dict[str, str] = {}


def loads(text: str) -> Any:
    """Parse one JSON value; raises ``ValueError`` for anything else, trailing text included."""
    try:
        from _json import make_scanner
    except ImportError:
        import json

        return json.loads(text)
    text = text.strip()
    try:
        value, end = make_scanner(_Context())(text, 0)  # type: ignore[arg-type]
    except StopIteration as error:
        raise ValueError(f"not JSON at character {error.value}") from None
    except SystemError:  # its own error needs json.decoder, which nobody imported
        import json

        return json.loads(text)
    if end != len(text):
        raise ValueError(f"text after the JSON value at character {end}")
    return value


def dumps(value: Any) -> str:
    """Write a value as JSON on one line, keys in insertion order, non-ASCII escaped; raises ``TypeError``."""
    try:
        from _json import encode_basestring_ascii as quote
    except ImportError:
        import json

        return json.dumps(value)
    parts: list[str] = []
    _encode(value, quote, parts.append)
    return "".join(parts)


def _encode(value: Any, quote: Any, put: Any) -> None:
    """Append the parts of one value through ``put``."""
    if isinstance(value, str):
        put(quote(value))
    elif value is None or value is True or value is False:
        put({None: "null", True: "true", False: "false"}[value])
    elif isinstance(value, (int, float)):
        put(_number(value, quote))
    elif isinstance(value, dict):
        _sequence(value.items(), "{}", quote, put)
    elif isinstance(value, (list, tuple)):
        _sequence(value, "[]", quote, put)
    else:
        raise TypeError(f"not a JSON value: {type(value).__name__}")


def _sequence(items: Any, brackets: str, quote: Any, put: Any) -> None:
    """Append an object (items are pairs) or an array."""
    put(brackets[0])
    for index, item in enumerate(items):
        if index:
            put(", ")
        if brackets == "{}":
            put(quote(str(item[0])) + ": ")
            item = item[1]
        _encode(item, quote, put)
    put(brackets[1])


def _number(value: float, quote: Any) -> str:
    """Write a number; infinities and NaN, for which JSON has no word, become strings."""
    if isinstance(value, int):
        return int.__repr__(value)
    if value != value or value in (float("inf"), float("-inf")):
        return str(quote(repr(value)))
    return float.__repr__(value)
