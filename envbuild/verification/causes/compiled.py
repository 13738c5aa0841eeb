"""What sources in C and C++ show of chance: seeds from the clock or the system, and threads. Read, never run.

``rand()`` without ``srand()`` repeats (C11, 7.22.2.2).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from envbuild.core.patterns import lazy

SUFFIXES = (".c", ".cc", ".cpp", ".cxx", ".C")
DRAWS = lazy(
    r"\bs(?:rand|random|rand48)\s*\([^)]*(?:time|getpid|clock)|\brandom_device\b"
    r"|\b(?:arc4random|getrandom|getentropy)\w*\s*\("
    r"|\bseed\w*\s*=\s*(?:\([\w\s]+\)\s*)?(?:std::)?(?:time|clock|getpid)\s*\("
    r"|\bseed\w*\s*[=({].*\bchrono\b.*\bnow\s*\(|\bmt19937\w*\b[^;]*\btime\s*\("
)
"""Seeds, and draws, that no option of the program needs."""
THREADS = lazy(r"\bpthread_create\s*\(|\bstd::(?:thread|jthread|async)\b|#\s*pragma\s+omp\s+(?:\w+\s+)*parallel")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_SEED_OPTION = lazy(r"\"(--?seed)\"")


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A line that shows chance, and the text that does."""

    path: str
    line: int
    text: str

    @property
    def where(self) -> str:
        """File and line."""
        return f"{self.path}:{self.line}"


def shows_chance(source: str) -> bool:
    """Return whether a source draws without a fixed seed, or runs threads."""
    plain = _without_comments(source)
    return DRAWS.search(plain) is not None or THREADS.search(plain) is not None


def draws_of(program: str, scripts: Mapping[str, str]) -> Iterator[Place]:
    """Yield where the sources of a program seed by the clock, or draw from the system."""
    yield from _found(DRAWS, program, scripts)


def threads_of(program: str, scripts: Mapping[str, str]) -> Iterator[Place]:
    """Yield where the sources of a program start threads."""
    yield from _found(THREADS, program, scripts)


def seed_option(program: str, scripts: Mapping[str, str]) -> str:
    """Return the option by which a program takes a seed; empty if its sources show none."""
    for source in sources_of(program, scripts).values():
        if (found := _SEED_OPTION.search(source)) is not None:
            return found[1]
    return ""


def sources_of(program: str, scripts: Mapping[str, str]) -> dict[str, str]:
    """Return the sources of a program: those with its name, or the only one that has a ``main``."""
    sources = {path: text for path, text in scripts.items() if path.endswith(SUFFIXES)}
    stem = _stem(program)
    if own := {path: text for path, text in sources.items() if _stem(path) == stem}:
        return own
    with_main = {path: text for path, text in sources.items() if re.search(r"\bmain\s*\(", text)}
    return with_main if len(with_main) == 1 else {}


def _stem(path: str) -> str:
    return posixpath.splitext(posixpath.basename(path))[0]


def _found(pattern: re.Pattern[str], program: str, scripts: Mapping[str, str]) -> Iterator[Place]:
    for path, source in sources_of(program, scripts).items():
        plain = _without_comments(source)
        if (found := pattern.search(plain)) is not None:
            line = plain.count("\n", 0, found.start()) + 1
            yield Place(path=path, line=line, text=" ".join(found[0].split()))


def _without_comments(source: str) -> str:
    """Return a source without its comments; its lines keep their numbers."""
    return _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), source)
