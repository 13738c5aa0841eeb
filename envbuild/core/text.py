"""Text for people: amounts, text from outside as it may be printed, and near names ("perhaps you meant")."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from envbuild.core.patterns import lazy

_SHOWN = 60


def human_bytes(count: int) -> str:
    """Write a number of bytes with decimal units and about three significant digits: ``359 MB``."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 999.5 or unit == "TB":
            return f"{value:.0f} {unit}" if unit == "B" or value >= 9.95 else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError("unreachable")


CONTROLS = lazy(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that a terminal takes for commands, that change the order of others, or that cannot be encoded."""


def plural(count: int, noun: str) -> str:
    """Write a count with its noun: ``1 file``, ``3,412 files``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def plain(text: str) -> str:
    """Escape what would not stay on its line, or would speak to the terminal.

    Inside images ``envbuild.runtime.guard.check.plain`` does the same: nothing else of this package is there.
    """
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def harmless(text: str) -> str:
    """Escape what would speak to the terminal, or show text in another order; line ends and tabs stay."""
    if text.isprintable():  # nothing of the sort is: no expression to compile
        return text
    return CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def encodable(text: str) -> str:
    """Escape halves of surrogate pairs: names of files that are no UTF-8 have them, and nothing can encode them."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def one_line(text: str) -> str:
    """Replace line ends and other control characters by spaces, for text from outside within a sentence."""
    return "".join(sign if sign.isprintable() else " " for sign in text)


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
    """Name a script that a message can name for people to run: one that is there, else one that all understand."""
    scripts = [name for name in names_in(folder) if name.endswith(".py")]
    return scripts[0] if scripts and "train.py" not in scripts else "train.py"


def quote(text: str) -> str:
    """Return ``text`` in double quotes for a message: control characters escaped, cut after 60 characters."""
    import json

    cut = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return json.dumps(cut, ensure_ascii=not cut.isprintable())


def either(words: Iterable[str]) -> str:
    """Return ``a``, ``a or b``, or ``a, b or c``."""
    *some, last = words
    return f"{', '.join(some)} or {last}" if some else last
