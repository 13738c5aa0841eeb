"""Names that look as if a run had drawn them, such as UUIDs: those that two runs have in common are data.

What is masked as a drawn name is another one in each run. A catalogue of users under UUIDs is the same in all of them,
and which of them comes first is a result. So is which one is printed alone, if the program was given the catalogue.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

MOST = 2_000
"""Names of a stream that are kept in a record; of those behind them a digest is."""
_REST = "+"
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_SHAPES = re.compile(
    rb"(?<![0-9A-Za-z])(?:[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
    rb"|(?=[0-9]{0,63}[A-Za-z])(?=[A-Za-z]{0,63}[0-9])[0-9A-Za-z]{8,64}"
    rb"|(?<![_-])[A-Za-z]{1,40}(?:[_-][A-Za-z]{1,40}){0,5}[_-][0-9]{1,4})(?![0-9A-Za-z])"
)
"""What may be taken for a drawn name wherever it is: UUIDs, words of digits and letters, words with a number."""
_GLUED = re.compile(rb"(?<=[A-Za-z])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![0-9A-Za-z])")
"""UUIDs behind a word."""
_BYTES_OF_UUID = re.compile(rb"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")


class SharedNames:
    """Collects the names of a file or a stream.

    Args:
        most: names that are kept.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._names: list[str] = []
        self._sum, self._ordered = 0, hashlib.sha256()

    def add(self, names: Sequence[str]) -> None:
        """Note names in their order."""
        for name in names:
            short = shortened(name)
            if len(self._names) < self._most:
                self._names.append(short)
            else:
                self._sum = (self._sum + int(short, 16)) % (1 << 64)
                self._ordered.update(short.encode())

    def result(self) -> tuple[str, ...]:
        """Return what is known of them: the first ones, then a sum and a digest of all others if there are any."""
        if len(self._names) < self._most or not self._sum:
            return tuple(self._names)
        return (*self._names, f"{_REST}{self._sum:x} {self._ordered.hexdigest()[:16]}")


def shortened(name: str) -> str:
    """Return a few characters for a name, which distinguish it from all others of a run.

    A UUID has the same ones in all its spellings.
    """
    if _UUID.fullmatch(name) is not None:
        name = name.replace("-", "").lower()
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def names_in(data: bytes) -> Iterator[str]:
    """Yield what may be taken for a drawn name in data, shortened; of texts in wider characters UUIDs alone."""
    for found in _SHAPES.finditer(data):
        yield shortened(found[0].decode())
    for found in _GLUED.finditer(data):
        yield shortened(found[0].decode())
    if b"-\0" in data:
        for found in _BYTES_OF_UUID.finditer(data.replace(b"\0", b"")):
            yield shortened(found[0].decode())


def names_of_several(runs: Sequence[Collection[str]]) -> frozenset[str]:
    """Return the names that more than one run has, wherever; ``runs``: all names of each, shortened."""
    seen = Counter(name for names in runs for name in {*names})
    return frozenset(name for name, count in seen.items() if count > 1)


def common_names(
    runs: Sequence[Sequence[str]], *, ordered: bool = True, known: Collection[str] = frozenset()
) -> list[list[str]]:
    """Return the names of each run that another one has too, in their places; of all others which are the same.

    Args:
        runs: the names of each in their order, shortened.
        ordered: their order counts, and how often each comes.
        known: names that are data, whatever other runs have in this place.
    """
    seen = Counter(each for names in runs for each in {_same(name) for name in names})
    seen.update(dict.fromkeys(known, 2))
    if not ordered:
        several = [] if any(len(names) > MOST for names in runs) else runs
        return [sorted({name for name in names if seen[name] > 1}) for names in several] or [[] for _ in runs]
    found = []
    for names in runs:
        own = {name: f"#{at}" for at, name in enumerate(dict.fromkeys(each for each in names if seen[_same(each)] < 2))}
        found.append([own.get(name, name) for name in names])
    return found


def _same(name: str) -> str:
    """Return what two runs have in common that have the same names: of a digest of many its sum."""
    return name.partition(" ")[0] if name.startswith(_REST) else name
