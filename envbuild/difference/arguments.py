"""A command line in pieces that can be exchanged: one for each option with its values, one for all before them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

_OPTION = re.compile(r"--?[A-Za-z_][^=]*")
"""What begins with a dash and is no number."""


def chunks(command: Iterable[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield name and words of each piece: first, named ``""``, the program and what is before the first option.

    Words after an option belong to it up to the next option, since how many it takes is not known. An option that is
    given twice is one piece. What follows ``--`` belongs to that.
    """
    found: dict[str, list[str]] = {"": []}
    name, rest = "", False
    for number, word in enumerate(command):
        match = None if rest or number == 0 else _OPTION.fullmatch(word.partition("=")[0])
        if match or (word == "--" and not rest):
            name, rest = match[0] if match else word, word == "--"
        found.setdefault(name, []).append(word)
    yield from ((key, tuple(words)) for key, words in found.items())


def joined(parts: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Put the pieces together again; ``--`` and what follows it comes last."""
    last = {"--": parts["--"]} if "--" in parts else {}
    return tuple(word for words in {**{k: v for k, v in parts.items() if k != "--"}, **last}.values() for word in words)
