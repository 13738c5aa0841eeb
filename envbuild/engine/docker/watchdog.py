"""Ends a container whose time is up: its processes print their stacks first, then they get SIGTERM, then SIGKILL."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from envbuild.engine.docker.http import ApiError, EngineClient
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
        client: of the engine.
        identity: of the container.
        limit: returns the seconds it may run, None while there is no limit.
        stacks: number of the signal at which processes print their stacks; 0 for none.
    """

    def __init__(self, client: EngineClient, identity: str, limit: Callable[[], float | None], stacks: int) -> None:
        self._client, self._identity, self._limit, self._stacks = client, identity, limit, stacks
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
        if self._stacks:
            self._print_stacks()
            if self._over.wait(_PRINTING):
                return
        for name in ("SIGTERM", "SIGKILL"):
            with suppress(ApiError, EngineError):
                self._client.call("POST", f"/containers/{self._identity}/kill", {"signal": name})
            if self._over.wait(_ENDING):
                return

    def _print_stacks(self) -> None:
        """Send the signal to all processes: a program that hangs often waits for one of its children."""
        command = ["/bin/sh", "-c", f"kill -{self._stacks} -1"]
        with suppress(ApiError, EngineError):
            made = self._client.call("POST", f"/containers/{self._identity}/exec", body={"Cmd": command})
            self._client.call("POST", f"/exec/{made['Id']}/start", body={"Detach": True})
