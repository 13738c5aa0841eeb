"""The system's entropy, made the same in each run of an experiment (fix.py).

``os.urandom`` and ``os.getrandom``, and so ``secrets``, ``uuid.uuid4`` and ``random.SystemRandom``, generators of
``random`` without a seed, and ``/dev/urandom`` opened by Python (also by ``os.open``) give a stream that follows from
the process's seed (in a pool from the task's, since which worker takes it is a race), the thread's name and the line
that draws. Each line has a stream of its own: how often one draws may depend on what it gets (``randrange`` draws again
what is too large), so that with a line that gets what is real the others would get something else. What C or C++ draws
is reached by ``fix_native``.
"""

from __future__ import annotations

import os
import sys
from _functools import partial  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .fix_callers import Callers
    from .process import Process

_DEVICES = frozenset(("/dev/urandom", "/dev/random", "/proc/sys/kernel/random/uuid", "/proc/sys/kernel/random/boot_id"))

_LENGTH = 4 << 20
"""Bytes that a descriptor of a device gives: a program that reads more of them fails, and nothing is proven."""


class Entropy:
    """A stream of bytes for each line of each thread that is the same in each run.

    Args:
        process: whose seed it follows from.
        callers: notes who asks, and with a stream what was drawn, so that it is recognised where it is written.
        stream: the name of another stream; empty for what is usual.
    """

    def __init__(self, process: Process, callers: Callers, stream: str = "") -> None:
        self.process, self.callers, self.stream = process, callers, stream
        self.counts: dict[tuple[str, str], int] = {}
        self.system = os.urandom
        self.task = ""
        os.register_at_fork(after_in_child=self.counts.clear)

    def bytes(self, size: int, place: str) -> bytes:
        """Return the next bytes of the stream that a line has in this thread."""
        from hashlib import sha256

        if self.process.task != self.task:
            self.task = self.process.task
            self.counts.clear()
        threading = sys.modules.get("threading")
        name = threading.current_thread().name if threading is not None else ""
        found = b""
        while len(found) < size:
            self.counts[name, place] = count = self.counts.get((name, place), 0) + 1
            found += sha256(f"{self.process.seed('entropy')} {name} {count}{self.stream} {place}".encode()).digest()
        if self.stream:
            self.callers.note_drawn(found[:size])
        return found[:size]

    def install(self) -> None:
        """Put the stream in the place of the system's entropy."""
        import builtins
        import io
        import random

        system: Any = os
        generators: Any = random
        files: Any = builtins

        original, original_seed = os.urandom, random.Random.seed
        note, original_open = self.callers.note, builtins.open
        wanted = self.callers.wanted

        def drawn(call: str) -> Any:
            def urandom(size: int, flags: int = 0, /) -> bytes:
                place = note("entropy", call, sys._getframe(1))
                return original(size) if place in wanted else self.bytes(size, place)

            return urandom

        def seed(generator: Any, a: Any = None, *arguments: Any, **options: Any) -> None:
            unseeded = a is None and not isinstance(generator, random.SystemRandom)
            if unseeded:
                place = note("entropy", "random.seed", sys._getframe(1))
                a = None if place in wanted else int.from_bytes(self.bytes(32, place), "big")
            original_seed(generator, a, *arguments, **options)

        def opened(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            known = isinstance(file, (str, os.PathLike)) and os.fspath(file) in _DEVICES
            if not known:
                return original_open(file, mode, *arguments, **options)
            place = note("entropy", f"reading {file}", sys._getframe(1))
            if "random/" in str(os.fspath(file)):
                if place in wanted:
                    return original_open(file, mode, *arguments, **options)
                text = self.bytes(16, place).hex()
                data = "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:])) + "\n"
                return io.BytesIO(data.encode()) if "b" in mode else io.StringIO(data)
            return _Device(partial(self.bytes, place=place) if place not in wanted else original)

        open_descriptor = os.open

        def descriptor(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
            """Return one of a file in memory: one of the device cannot give what is fixed."""
            if not isinstance(path, (str, os.PathLike)) or os.fspath(path) not in _DEVICES:
                return open_descriptor(path, flags, *arguments, **options)
            place = note("entropy", f"reading {path}", sys._getframe(1))
            if "random/" in str(os.fspath(path)) or place in wanted:
                return open_descriptor(path, flags, *arguments, **options)
            from hashlib import shake_256

            found = os.memfd_create("urandom")
            os.write(found, shake_256(self.bytes(32, place)).digest(_LENGTH))
            os.lseek(found, 0, os.SEEK_SET)
            return found

        os.supports_dir_fd.add(descriptor)  # shutil asks
        system.open = descriptor
        system.urandom = generators._urandom = drawn("os.urandom")
        system.getrandom = drawn("os.getrandom")
        generators.Random.seed = seed
        generators.seed = generators._inst.seed
        files.open = opened
        io.open = opened  # pathlib's


class _Device:
    """``/dev/urandom``, opened; ``draw`` takes a number of bytes."""

    def __init__(self, draw: Callable[[int], bytes]) -> None:
        self._draw = draw

    def read(self, size: int = 0) -> bytes:
        """Return the next bytes."""
        return self._draw(size)

    def close(self) -> None:
        """Nothing is open."""

    def __enter__(self) -> _Device:
        return self

    def __exit__(self, *_: object) -> None:
        pass
