"""Near names for messages: "perhaps you meant"."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

_SHOWN = 60


def nearest(word: str, candidates: Iterable[str]) -> str:
    """Return the candidate that looks most like ``word``, or an empty string if none is near."""
    from difflib import get_close_matches  # 4 ms, and only wanted when something is wrong

    names = {candidate.lower(): candidate for candidate in candidates}
    found = get_close_matches(word[:200].lower(), list(names), n=1, cutoff=0.6)
    return names[found[0]] if found else ""


def perhaps(word: str, candidates: Iterable[str]) -> str:
    """Return `` — perhaps you meant X`` to end a sentence with, or an empty string if no candidate is near."""
    found = nearest(word, candidates)
    return f" — perhaps you meant {found}" if found else ""


def names_in(folder: Path) -> list[str]:
    """Return the names in a folder, as candidates; none if it cannot be read."""
    try:
        return sorted(path.name for path in folder.iterdir())
    except (OSError, ValueError):
        return []


def script_in(folder: Path) -> str:
    """Name a script that a message can tell people to run: one that is there, else one that all understand."""
    scripts = [name for name in names_in(folder) if name.endswith(".py")]
    return scripts[0] if scripts and "train.py" not in scripts else "train.py"


def quote(text: str) -> str:
    """Return ``text`` in double quotes for a message: control characters escaped, cut after 60 characters."""
    cut = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return json.dumps(cut, ensure_ascii=not cut.isprintable())


def either(words: Iterable[str]) -> str:
    """Return ``a``, ``a or b``, or ``a, b or c``."""
    *some, last = words
    return f"{', '.join(some)} or {last}" if some else last
