"""TOML from outside: whatever is wrong with it is a ``ValueError``; no file takes hours to read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from envbuild.core.fs import read_regular
from envbuild.core.patterns import lazy

_LINE_TEXTS = lazy(r"""#[^\n]*|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
"""Comments and texts on one line; what else has dots is keys, numbers and times."""
_COST = 20_000_000
"""Most that keys may cost: the parser takes the square of a key's parts. A lock of 200 packages has some thousands."""
_LARGEST = 1 << 20


def parse_toml(text: str) -> dict[str, Any]:
    """Parse a TOML document.

    Raises:
        ValueError: it is none, its arrays and tables are nested more deeply than this interpreter can follow, a number
            has more digits than it reads, or its keys have so many parts that reading them would take minutes.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:  # pragma: no cover - exercised by the 3.10 job
        import tomli as tomllib
    # In a text over several lines a single quote is allowed: there, dots in strings count too.
    bare = text if '"""' in text or "'''" in text else _LINE_TEXTS.sub("", text)
    if sum(line.count(".") ** 2 for line in bare.splitlines()) > _COST:
        raise ValueError("keys have too many parts")
    try:
        document: dict[str, Any] = tomllib.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return document


def toml_file(path: Path, *names: str) -> dict[str, Any]:
    """Return the table under some names in a file that other programs report on; empty if there is none to read.

    A pipe or a device is not read, nor is what has more than a mebibyte.
    """
    try:
        found: Any = parse_toml(read_regular(path, _LARGEST).decode())
    except (OSError, ValueError):
        return {}
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}
