"""Calls that end before an interrupt does: what they make has to be known to be removed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from envbuild.core import leftovers

T = TypeVar("T")


def uninterrupted(call: Callable[[], T]) -> tuple[T, KeyboardInterrupt | None]:
    """Return what a call returns, and the interrupt that came meanwhile, which the caller raises once it can undo it.

    Such a call is that which makes a container: an engine makes it, whether anybody still waits for its answer or not.
    A command that ends nevertheless, since it takes too long, leaves word that something may come.

    Raises:
        KeyboardInterrupt: the call failed, and was interrupted.
        BaseException: whatever the call raises.
    """
    if threading.current_thread() is not threading.main_thread():
        return call(), None  # Python interrupts no other thread
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    interrupt: KeyboardInterrupt | None = None
    with leftovers.expected():
        thread.start()
        while thread.is_alive():
            try:
                thread.join()
            except KeyboardInterrupt as again:
                interrupt = again
    if errors:
        raise interrupt or errors[0]
    return results[0], interrupt
