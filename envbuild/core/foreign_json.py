"""JSON from outside: whatever is wrong with it is a ``ValueError``."""

from __future__ import annotations

import json
from typing import Any


def parse_json(data: str | bytes | bytearray) -> Any:
    """Parse a JSON document.

    Raises:
        ValueError: it is none, or its arrays and objects are nested more deeply than this interpreter can follow.
    """
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None
