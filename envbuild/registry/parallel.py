"""Several transfers at once, of which the first that fails ends the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")


class StoppedError(Exception):
    """Another transfer failed, or the user has had enough."""


def run_all(calls: Sequence[Callable[[], T]], stop: threading.Event, threads: int) -> list[T]:
    """Call all, in threads, and return what they returned.

    Args:
        stop: set as soon as one fails; the others look at it often and raise ``StoppedError``.

    Raises:
        Exception: what the first one that failed raised.
    """
    pool = ThreadPoolExecutor(threads, thread_name_prefix="transfer")
    try:
        jobs = [pool.submit(call) for call in calls]
        done, _ = wait(jobs, return_when=FIRST_EXCEPTION)
        errors = [error for job in done if (error := job.exception()) is not None]
        if errors:
            raise next((error for error in errors if not isinstance(error, StoppedError)), errors[0])
        return [job.result() for job in jobs]
    except BaseException:
        stop.set()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
