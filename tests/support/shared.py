"""Services that test processes share: whoever needs one first starts it, the last one stops it."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tests.support.environments import CACHE


@contextmanager
def shared(name: str, running: Callable[[], bool], start: Callable[[], str], stop: Callable[[], None]) -> Iterator[str]:
    """Give a service's address; it is stopped after its last user, unless it ran before the first.

    Args:
        name: the service's, for the files that count its users.
        start: starts it, or finds it running; returns its address.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.users").open("a+") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        with (CACHE / f"{name}.start").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not running():
                users.write("started by a test")
                users.flush()
            host = start()
        try:
            yield host
        finally:
            with suppress(BlockingIOError):
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                users.seek(0)
                if users.read():
                    users.truncate(0)
                    stop()
