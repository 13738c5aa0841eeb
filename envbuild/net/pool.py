"""Several transfers at once, of which the first that fails ends the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

_PATIENCE = 1.0
"""Seconds that the others get to stop by themselves; one that waits for an answer ends with the process."""


class StoppedError(Exception):
    """Another transfer failed, or the user has interrupted the command."""


def run_all(calls: Sequence[Callable[[], T]], stop: threading.Event, threads: int) -> list[T]:
    """Call all, in threads, and return what they returned, in their order.

    Args:
        stop: set as soon as one fails; the others look at it often and raise ``StoppedError``.

    Raises:
        BaseException: what the first one that failed raised, or ``KeyboardInterrupt``, for which nobody is waited.
    """
    results: dict[int, T] = {}
    errors: list[BaseException] = []
    waiting = list(enumerate(calls))[::-1]
    lock = threading.Lock()

    def work() -> None:
        while not stop.is_set():
            with lock:
                if not waiting:
                    return
                number, call = waiting.pop()
            try:
                results[number] = call()
            except BaseException as error:
                errors.append(error)
                stop.set()

    # Daemons: Ctrl-C must not wait for a server that takes its time to answer.
    names = [f"transfer-{number}" for number in range(min(threads, len(calls)))]
    started = [threading.Thread(target=work, name=name, daemon=True) for name in names]
    try:
        for worker in started:
            worker.start()
        for worker in started:
            while worker.is_alive() and not stop.is_set():
                worker.join(0.1)
    except BaseException:
        stop.set()
        raise
    deadline = time.monotonic() + _PATIENCE
    for worker in started:
        worker.join(max(deadline - time.monotonic(), 0.0))
    if errors:
        raise next((error for error in errors if not isinstance(error, StoppedError)), errors[0])
    if len(results) < len(calls):  # somebody else has set ``stop``
        raise StoppedError
    return [results[number] for number in range(len(calls))]
