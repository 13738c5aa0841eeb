"""How stages report what they are doing, without knowing who listens.

A stage opens a phase and advances it; the command line draws it (a bar on a terminal, plain lines in CI,
nothing with ``--quiet``). Phases of different threads may be open at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

Advance = Callable[[int], None]
"""Call with the number of units done since the last call; safe from any thread."""


class Progress(Protocol):
    """Receives phases."""

    def phase(self, name: str, total: int | None = None, *, unit: str = "B") -> AbstractContextManager[Advance]:
        """Open a phase: short name, total units if known, and what a unit is (``B`` for bytes, else a plural noun)."""


class Silent:
    """A ``Progress`` that shows nothing."""

    @contextmanager
    def phase(self, name: str, total: int | None = None, *, unit: str = "B") -> Iterator[Advance]:
        """Open a phase nobody sees."""
        yield lambda amount: None
