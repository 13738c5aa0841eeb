"""The system's entropy, made the same in each run of an experiment (fix.py).

``os.urandom`` and ``os.getrandom``, and so ``secrets``, ``uuid.uuid4`` and ``random.SystemRandom``, generators of
``random`` without a seed, and ``/dev/urandom`` opened by Python give a stream that follows from the process's seed
(in a pool from the task's, since which worker takes it is a race) and the thread's name. A line that gets what is
real takes its part of the stream all the same, so that the others get what they got without it. What C or C++ draws
is reached by ``fix_native``.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .fix_callers import Callers
    from .process import Process

_DEVICES = frozenset(("/dev/urandom", "/dev/random", "/proc/sys/kernel/random/uuid", "/proc/sys/kernel/random/boot_id"))


class Entropy:
    """A stream of bytes for each thread that is the same in each run.

    Args:
        process: whose seed it follows from.
        callers: notes who asks, and with a stream what was drawn, so that it is recognised where it is written.
        stream: the name of another stream; empty for what is usual.
    """

    def __init__(self, process: Process, callers: Callers, stream: str = "") -> None:
        self.process, self.callers, self.stream = process, callers, stream
        self.counts: dict[str, int] = {}
        self.system = os.urandom
        self.task = ""
        os.register_at_fork(after_in_child=self.counts.clear)

    def bytes(self, size: int) -> bytes:
        """Return the next bytes of this thread's stream."""
        from hashlib import sha256

        if self.process.task != self.task:
            self.task = self.process.task
            self.counts.clear()
        threading = sys.modules.get("threading")
        name = threading.current_thread().name if threading is not None else ""
        found = b""
        while len(found) < size:
            self.counts[name] = count = self.counts.get(name, 0) + 1
            found += sha256(f"{self.process.seed('entropy')} {name} {count}{self.stream}".encode()).digest()
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
        real, original_open = self.callers.real, builtins.open

        def drawn(call: str) -> Any:
            def urandom(size: int, flags: int = 0, /) -> bytes:
                fixed = self.bytes(size)
                return original(size) if real("entropy", call, sys._getframe(1)) else fixed

            return urandom

        def seed(generator: Any, a: Any = None, *arguments: Any, **options: Any) -> None:
            unseeded = a is None and not isinstance(generator, random.SystemRandom)
            if unseeded:
                fixed = int.from_bytes(self.bytes(32), "big")
                a = None if real("entropy", "random.seed", sys._getframe(1)) else fixed
            original_seed(generator, a, *arguments, **options)

        def opened(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            known = isinstance(file, (str, os.PathLike)) and os.fspath(file) in _DEVICES
            if not known:
                return original_open(file, mode, *arguments, **options)
            as_it_is = real("entropy", f"reading {file}", sys._getframe(1))
            if "random/" in str(os.fspath(file)):
                text = self.bytes(16).hex()
                if as_it_is:
                    return original_open(file, mode, *arguments, **options)
                data = "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:])) + "\n"
                return io.BytesIO(data.encode()) if "b" in mode else io.StringIO(data)
            return _Device(self, original if as_it_is else None)

        system.urandom = generators._urandom = drawn("os.urandom")
        system.getrandom = drawn("os.getrandom")
        generators.Random.seed = seed
        generators.seed = generators._inst.seed
        files.open = opened
        io.open = opened  # pathlib's


class _Device:
    """``/dev/urandom``, opened; with ``real``, which takes a number of bytes, it gives the system's."""

    def __init__(self, entropy: Entropy, real: Callable[[int], bytes] | None) -> None:
        self._entropy, self._real = entropy, real

    def read(self, size: int = 0) -> bytes:
        """Return the next bytes."""
        fixed = self._entropy.bytes(size)
        return fixed if self._real is None else self._real(size)

    def close(self) -> None:
        """Nothing is open."""

    def __enter__(self) -> _Device:
        return self

    def __exit__(self, *_: object) -> None:
        pass
