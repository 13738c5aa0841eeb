"""Something that changes names in a folder all the time, as a program that runs at the same time could."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_AT_FDCWD, _EXCHANGE = -100, 2


@contextmanager
def changing(one: Path, other: Path) -> Iterator[None]:
    """Let two names change places, by renameat2(2), until the block ends; at least once before it begins."""
    library = ctypes.CDLL(None, use_errno=True)
    stop, began = threading.Event(), threading.Event()

    def change() -> None:
        names = os.fsencode(one), os.fsencode(other)
        while not stop.is_set():
            library.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _EXCHANGE)
            began.set()

    thread = threading.Thread(target=change)
    thread.start()
    try:
        assert began.wait(60)
        yield
    finally:
        stop.set()
        thread.join()
