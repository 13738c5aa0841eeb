"""Waits of a thread in the midst of its work, at calls: as if others came first there (``turns`` in vary.py).

CPython may go on with another thread between any two instructions, and does so every five milliseconds at most, or
where a thread waits. What a thread does in less time is therefore done at once nearly always, on a machine that has
little to do: of a pool's short tasks each is finished before the next one begins, and who takes them, and puts results
into a list, has the same order in all runs by luck. So a thread waits a little at some of its calls, more and more
seldom, and no more after ``_WAITS`` of them. Where nothing is to wait (``seed`` 0) all else is done as well.

``sys.setprofile`` finds calls, those of functions written in C too. A thread that has such a function already, of
``cProfile`` for one, keeps it.
"""

from __future__ import annotations

import sys

from . import vary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

_GAPS = (6, 6, 8, *(int(10 * 1.4**at) for at in range(22)))
"""Before each wait there are up to so many events: calls and returns. Of 41,000 in all, each costs a third of a µs."""
_WAITS = len(_GAPS)
_SECONDS = (0.0002, 0.0005, 0.001, 0.002)
"""A wait takes one of these. What it is to change is shorter: what is longer, the interpreter interrupts itself."""
_SEEDS = 64
"""More than numbers that one thread draws."""


class Interruptions:
    """Those of one thread, the one that calls ``begin``.

    All that a call needs is kept here: as a Python ends, modules lose what they have, and objects of the program still
    make calls.

    Args:
        seed: decides where it waits, and for how long; 0: it does not.
        wait: waits for some seconds.
    """

    __slots__ = ("_end", "_left", "_own", "_plan", "_wait")

    def __init__(self, seed: int, wait: Callable[[float], None]) -> None:
        self._plan, self._wait, self._own, self._end = iter(_planned(seed)), wait, _OWN, sys.setprofile
        self._left, _ = next(self._plan)

    def begin(self) -> None:
        """Wait at calls from now on."""
        if sys.getprofile() is None:
            sys.setprofile(self._event)

    def _event(self, frame: FrameType, event: str, argument: Any) -> None:
        self._left -= 1
        if self._left:
            return
        if frame.f_code.co_filename.startswith(self._own):  # a line that an experiment marks is written at once
            self._left = 1
            return
        self._left, seconds = next(self._plan)
        if not self._left:
            self._end(None)
        self._wait(seconds)


_OWN = Interruptions.begin.__code__.co_filename.rpartition("/")[0] + "/"
"""Where this package's own functions are: the program knows nothing of their calls."""


def _planned(seed: int) -> list[tuple[int, float]]:
    """Return how many events there are before each wait, and how long the wait before that takes; 0 after the last."""
    gaps = [1 + vary.drawn(seed * _SEEDS + 2 * at, gap) for at, gap in enumerate(_GAPS)]
    waits = [_SECONDS[vary.drawn(seed * _SEEDS + 2 * at + 1, len(_SECONDS))] if seed else 0.0 for at in range(_WAITS)]
    return list(zip([*gaps, 0], [0.0, *waits], strict=False))
