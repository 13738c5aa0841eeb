"""Draws from the system's entropy, with their callers: recorded while diagnosing (``ENVBUILD_DIAGNOSE=1``).

Seeds do not reach ``os.urandom`` and what is built on it: ``secrets``, ``uuid.uuid4``, ``random.SystemRandom``, and
generators of ``random`` that get no seed. A draw belongs to the innermost line outside those modules. Draws by other
modules of the standard library are left out: names of semaphores, keys of connections.

An entry holds facts by which a draw can be ranked later:

- ``call``, ``file``, ``line``, ``module``: what was called, and the line that did;
- ``count``: how often that line drew; ``step``: steps of an optimiser made when it drew first, null for unknown;
- ``importing``: the installed package during whose import the line drew, as the program imported it (``torch`` where
  ``torch`` imports ``sympy``, which draws); empty for a draw at any other time. A line that draws during an import
  and again later has two entries;
- ``chain``: the calls from the innermost line of the project to the draw, outermost first, each ``file``, ``line`` and
  ``function``; without a line of the project, the whole stack. At most ``CHAIN`` calls: the first and the last ones;
- ``used``, for generators that were seeded from the entropy: whether numbers were drawn from one of them. False: its
  state is the one that the seed gave, so nothing depends on the draw. Null: unknown, since a generator is gone.
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
"""Lines that are recorded."""
CHAIN = 8
GENERATORS = 1000
"""Generators whose use is observed."""
_BETWEEN = frozenset(("os", "random", "secrets", "uuid", __name__.partition(".")[0]))
"""Modules and packages that draw for whoever calls them."""


class EntropyLog:
    """What was drawn in one process.

    Args:
        steps: returns how many steps of an optimiser were made so far; None for unknown.
        within: returns whether an absolute path is a file of the project.
    """

    def __init__(self, steps: Callable[[], int | None], within: Callable[[str], bool]) -> None:
        self.steps, self.within = steps, within
        self.found: dict[tuple[str, str, int, str], dict[str, Any]] = {}
        self.generators: dict[int, tuple[dict[str, Any], Any, int]] = {}
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
            self._settle(id(generator))
            original(generator, a, *arguments, **options)
            if a is None and not isinstance(generator, random.SystemRandom):
                entry = self.note("random.seed", sys._getframe(1))
                if entry is not None:
                    self._observe(entry, generator)

        random.Random.seed = seed
        random.seed = random._inst.seed

    def note(self, call: str, frame: FrameType | None) -> dict[str, Any] | None:
        """Record a draw, and return its entry; ``frame`` is the caller's."""
        while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _BETWEEN:
            frame = frame.f_back
        if frame is None or self._of_library(frame.f_code.co_filename):
            return None
        stack = _stack(frame)
        importing = _importing(stack)
        key = (call, frame.f_code.co_filename, frame.f_lineno, importing)
        entry = self.found.get(key)
        if entry is not None:
            entry["count"] += 1
        elif len(self.found) < PLACES:
            module = str(frame.f_globals.get("__name__") or "")
            where = {"call": call, "file": key[1], "line": key[2], "module": module}
            entry = {**where, "step": self.steps(), "count": 1, "importing": importing, "chain": self._chain(stack)}
            self.found[key] = entry
        return entry

    def clear(self) -> None:
        """In a forked child: the parent's record has all that was drawn so far."""
        self.found, self.generators = {}, {}

    def as_list(self) -> list[dict[str, Any]]:
        """Return what was drawn, in the order in which each line drew first."""
        for entry, reference, state in self.generators.values():
            self._judge(entry, reference(), state)
        return list(self.found.values())

    def _observe(self, entry: dict[str, Any], generator: Any) -> None:
        """Remember the state that a seed gave, by its hash: a state has 625 numbers."""
        from weakref import ref

        if len(self.generators) < GENERATORS:
            entry.setdefault("used", False)
            self.generators[id(generator)] = entry, ref(generator), hash(generator.getstate())
        else:
            entry["used"] = None

    def _settle(self, key: int) -> None:
        """Judge a generator before it is seeded once more."""
        if key in self.generators:
            entry, reference, state = self.generators.pop(key)
            self._judge(entry, reference(), state)

    def _judge(self, entry: dict[str, Any], generator: Any, state: int) -> None:
        """Set ``used`` of an entry; what was found to be used stays so."""
        if generator is None:
            entry["used"] = entry["used"] or None
        elif hash(generator.getstate()) != state:
            entry["used"] = True

    def _chain(self, stack: list[FrameType]) -> list[dict[str, Any]]:
        """Return the calls from the innermost line of the project on; ``stack`` is innermost first."""
        last = next((place for place, frame in enumerate(stack) if self._of_project(frame)), len(stack) - 1)
        chain = [
            {"file": frame.f_code.co_filename, "line": frame.f_lineno, "function": frame.f_code.co_name}
            for frame in reversed(stack[: last + 1])
        ]
        return chain if len(chain) <= CHAIN else [chain[0], *chain[1 - CHAIN :]]

    def _of_project(self, frame: FrameType) -> bool:
        return self.within(os.path.abspath(frame.f_code.co_filename))

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
    log = EntropyLog(_steps, process.observer.within)
    log.install()
    process.entropy = log.as_list
    os.register_at_fork(after_in_child=log.clear)


def _steps() -> int | None:
    """Return the steps that the trace of this process has seen, of all optimisers the most."""
    trace = sys.modules.get(f"{__package__}.trace")
    counts = [group.step for tracer in trace._tracers.values() for group in tracer.groups.values()] if trace else []
    return max(counts, default=0 if trace else None)


def _stack(frame: FrameType | None) -> list[FrameType]:
    """Return a frame and its callers, innermost first, without those of the import system."""
    found = []
    while frame is not None:
        if not frame.f_code.co_filename.startswith("<frozen"):
            found.append(frame)
        frame = frame.f_back
    return found


def _importing(stack: list[FrameType]) -> str:
    """Return the outermost installed package whose module body is running; empty if none is."""
    for frame in reversed(stack):
        if frame.f_code.co_name == "<module>" and "-packages" in frame.f_code.co_filename:
            name = str(frame.f_globals.get("__name__") or "")
            if name != "__main__":  # an installed program: python -m package
                return name.partition(".")[0]
    return ""
