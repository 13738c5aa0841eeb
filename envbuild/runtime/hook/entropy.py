"""Draws from the system's entropy, by who drew them and when: kept while diagnosing (``ENVBUILD_DIAGNOSE=1``).

Seeds do not reach ``os.urandom`` and what stands on it: ``secrets``, ``uuid.uuid4``, ``random.SystemRandom``, and
generators of ``random`` that get no seed. A draw belongs to the innermost line outside those modules. Draws by other
modules of the standard library are left out: names of temporary files, keys of connections. What a step of the
training has to do with it is judged later, by the number of steps made when a line drew first.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

    from .process import Process

PLACES = 200
"""Lines that are kept."""
_BETWEEN = frozenset(("os", "random", "secrets", "uuid", __name__.partition(".")[0]))
"""Modules and packages that draw for whoever calls them."""


class EntropyLog:
    """What was drawn in one process.

    Args:
        steps: tells how many steps of an optimiser were made so far; None for unknown.
    """

    def __init__(self, steps: Callable[[], int | None]) -> None:
        self.steps = steps
        self.found: dict[tuple[str, str, int], dict[str, Any]] = {}
        self._library = os.path.dirname(os.__file__) + os.sep

    def install(self) -> None:
        """Watch from now on. There is no way back."""
        for name in ("urandom", "getrandom"):
            original = getattr(os, name, None)
            if original is not None:
                setattr(os, name, self._watched(original, f"os.{name}"))
        random: Any = __import__("random")
        if not hasattr(random._urandom, "__wrapped__"):  # it was imported before
            random._urandom = self._watched(random._urandom, "os.urandom")
        original = random.Random.seed

        def seed(generator: Any, a: Any = None, *arguments: Any, **options: Any) -> None:
            if a is None and not isinstance(generator, random.SystemRandom):
                self.note("random.seed", sys._getframe(1))
            original(generator, a, *arguments, **options)

        random.Random.seed = seed
        random.seed = random._inst.seed

    def note(self, call: str, frame: FrameType | None) -> None:
        """Keep a draw; ``frame`` is the caller's."""
        while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _BETWEEN:
            frame = frame.f_back
        if frame is None or self._of_library(frame.f_code.co_filename):
            return
        key = (call, frame.f_code.co_filename, frame.f_lineno)
        entry = self.found.get(key)
        if entry is not None:
            entry["count"] += 1
        elif len(self.found) < PLACES:
            module = str(frame.f_globals.get("__name__") or "")
            where = {"call": call, "file": key[1], "line": key[2], "module": module}
            self.found[key] = {**where, "step": self.steps(), "count": 1}

    def as_list(self) -> list[dict[str, Any]]:
        """Return what was drawn, in the order in which each line drew first."""
        return list(self.found.values())

    def _watched(self, original: Any, call: str) -> Any:
        def drawn(*arguments: Any, **options: Any) -> Any:
            self.note(call, sys._getframe(1))
            return original(*arguments, **options)

        drawn.__wrapped__ = original  # type: ignore[attr-defined]
        drawn.__name__, drawn.__doc__ = original.__name__, original.__doc__
        return drawn

    def _of_library(self, file: str) -> bool:
        return file.startswith("<frozen") or (file.startswith(self._library) and "-packages" not in file)


def begin(process: Process) -> None:
    """Watch the draws of this process, and have them in its record."""
    log = EntropyLog(_steps)
    log.install()
    process.entropy = log.as_list
    os.register_at_fork(after_in_child=log.found.clear)


def _steps() -> int | None:
    """Return the steps that the trace of this process has seen, of all optimisers the most."""
    trace = sys.modules.get(f"{__package__}.trace")
    counts = [group.step for tracer in trace._tracers.values() for group in tracer.groups.values()] if trace else []
    return max(counts, default=0 if trace else None)
