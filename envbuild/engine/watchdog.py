"""Ends a container whose time is up: its processes print their stacks first, then they get SIGTERM, then SIGKILL."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from envbuild.engine.streams import CONTINUE
from envbuild.errors import EngineError

_TICK = 0.25
"""Seconds between two looks at the clock."""
_PRINTING = 2.0
"""Seconds that processes have to print their stacks."""
_ENDING = 10.0
"""Seconds that a program has to end by itself, for instance to save what it has."""


class Watchdog:
    """Watches one container's time in a thread of its own, from the start of the block to its end.

    Args:
        limit: returns the seconds it may run, None while there is no limit.
        kill: sends the program a signal by name; may raise ``EngineError``.
        stacks: makes its processes print their stacks; None if they cannot. May raise ``EngineError``.
        last: ends what even SIGKILL did not reach, since whoever passes it on has been stopped; None for nothing.
    """

    def __init__(
        self,
        limit: Callable[[], float | None],
        kill: Callable[[str], None],
        stacks: Callable[[], None] | None = None,
        last: Callable[[], None] | None = None,
    ) -> None:
        self._limit, self._kill, self._stacks, self._last = limit, kill, stacks, last
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self.exceeded: float | None = None
        """The limit in seconds, once it is exceeded."""

    def __enter__(self) -> Watchdog:
        """Begin; the container starts now."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop watching."""
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        start = time.monotonic()
        while not self._over.wait(_TICK):
            limit = self._limit()
            if limit is not None and time.monotonic() - start > limit:
                self.exceeded = limit
                self._end()
                return

    def _end(self) -> None:
        if self._stacks is not None:
            with suppress(EngineError):
                self._stacks()
            if self._over.wait(_PRINTING):
                return
        for name in ("SIGTERM", "SIGKILL"):
            with suppress(EngineError):
                self._kill(name)
                if name == "SIGTERM":
                    self._kill(CONTINUE)
            if self._over.wait(_ENDING):
                return
        if self._last is not None:
            self._last()
