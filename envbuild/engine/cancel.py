"""End what runs elsewhere as soon as it is not wanted any more."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_PERIOD = 0.1


@contextmanager
def ended_early(unwanted: threading.Event | None, end: Callable[[], None]) -> Iterator[None]:
    """Call ``end``, from another thread, if ``unwanted`` is set before the block ends."""
    if unwanted is None:
        yield
        return
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            if unwanted.wait(_PERIOD):
                if not over.is_set():
                    end()
                return

    thread = threading.Thread(target=watch, name="ended-early", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
