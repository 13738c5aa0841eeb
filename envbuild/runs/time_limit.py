"""How long a run may take: as asked, or by how long the first of several took."""

from __future__ import annotations

from envbuild.runtime.hook.stacks import SIGNAL as STACKS_SIGNAL

__all__ = ["STACKS_SIGNAL", "TimeLimit"]

_LEAST = 60.0
"""Seconds below which no limit is set that nobody asked for."""
_FACTOR = 10.0
"""Times that a run may take what the first one took: others on the machine may slow it down."""


class TimeLimit:
    """The limit of several runs of one program, asked while they go on.

    Args:
        seconds: as asked; None for ten times the first run, a minute at least, once that has ended.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = seconds

    def __call__(self) -> float | None:
        """Return the limit in seconds; None if there is none yet."""
        return self._seconds

    def learn(self, seconds: float) -> None:
        """Hear how long a run took that ended by itself; the first one sets the limit."""
        if self._seconds is None:
            self._seconds = max(_LEAST, _FACTOR * seconds)
