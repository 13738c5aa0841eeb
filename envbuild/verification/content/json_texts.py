"""JSON as a program wrote it: numbers keep their digits, a table with a key twice is none."""

from __future__ import annotations

import json
import re
from typing import Any

from envbuild.core.patterns import lazy
from envbuild.verification.content.canonical import UnreadableError

_ESCAPES = lazy(r"\\(?:u[0-9a-fA-F]{4}|.)", re.DOTALL)
_VALUES = lazy(r'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*')


class Number(float):
    """A number of a JSON text that remembers how it is written."""

    text: str

    def __new__(cls, text: str) -> Number:
        """Make it of its text."""
        made = super().__new__(cls, text)
        made.text = text
        return made


def parsed(text: str) -> Any:
    """Return a JSON text's list or table, numbers as ``Number``; None if it is none."""
    try:
        value = json.loads(text, parse_float=Number, parse_int=Number, object_pairs_hook=_pairs)
    except RecursionError:
        raise UnreadableError("nested too deep") from None
    except ValueError:
        return None
    return value if isinstance(value, dict | list) else None


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a key comes twice")
    return table


def blanks_of(text: str) -> str:
    """Return a JSON text without its texts and numbers: how it is written, and how many values it has.

    Of texts there is which characters are escaped, and how.
    """
    return _VALUES.sub(lambda found: "".join(_ESCAPES.findall(found[0])), text)
