"""How long a run may take: as asked, or by how long those of several took that have ended."""

from __future__ import annotations

from envbuild.runtime.hook.stacks import SIGNAL as STACKS_SIGNAL

__all__ = ["STACKS_SIGNAL", "TimeLimit"]

_LEAST = 60.0
"""Seconds below which no limit is set that nobody asked for."""
_FACTOR = 10.0
"""Times that a run may take what the longest one took: others on the machine may slow it down."""


class TimeLimit:
    """The limit of several runs of one program, asked while they go on.

    Args:
        seconds: as asked; None for ten times the longest run so far, a minute at least, once one has ended.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = seconds
        self._asked = seconds is not None

    def __call__(self) -> float | None:
        """Return the limit in seconds; None if there is none yet."""
        return self._seconds

    def learn(self, seconds: float) -> None:
        """Hear how long a run took that ended by itself; the limit becomes longer by it, never shorter.

        Where the machine becomes busy after a quick first run, an experiment that is ended decides nothing.
        """
        if not self._asked:
            self._seconds = max(_LEAST, _FACTOR * seconds, self._seconds or 0.0)
