"""Calls that end before an interrupt does: what they make has to be known to be removed."""

from __future__ import annotations

import _thread
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
    begun, done = _thread.allocate_lock(), threading.Event()

    def run() -> None:
        if not begun.acquire(blocking=False):
            return  # an interrupt came between the start of a thread and the word that it was started
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)
        finally:
            done.set()

    interrupt: KeyboardInterrupt | None = None
    with leftovers.expected():
        while not done.is_set():
            try:
                # Not Thread.start() and join(): the first waits too, and Python 3.11 takes a thread whose join() was
                # interrupted for one that has ended.
                if not begun.locked():
                    _thread.start_new_thread(run, ())
                done.wait()
            except KeyboardInterrupt as again:
                interrupt = again
    if errors:
        raise interrupt or errors[0]
    return results[0], interrupt
