"""Numbers that belong to a task of a pool, not to the worker that happens to take it.

Which worker of a pool takes which task is a race, and so would be the numbers that a task draws. A task is numbered
by the process that hands it in, and right before it runs all generators are seeded by

    seed = first 32 bits of SHA-256("ROOT/PATH/task N.I" or "ROOT/PATH/task N.I/INHERITED")

with PATH the path of the process (or of the task) that handed it in, N the number of the call there, I the task's
number in that call. INHERITED is the state of the generator at the call, so that a seed which the script set by itself
still decides; it is left out for calls from other threads than the main one, whose moment is a race of its own.
"""

from __future__ import annotations

import os
from _thread import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from .process import Process


STARTUP = f"{__name__.rpartition('.')[0]}.startup"
"""The module that is there in each Python that has the hook."""


def enter(startup: str, place: str, inherited: dict[str, str]) -> None:
    """Become a task in an interpreter that has the hook; it needs nothing of this module, to be sent to any."""
    import sys

    found = sys.modules.get(startup)
    if found is not None and found.process is not None:
        found.process.enter_task(place, inherited)


def by_value(task: Any, *state: Any) -> tuple[Any, ...]:
    """Return how ``pickle`` makes a task again: as what the program gave, where the hook is not.

    A worker may be a Python that imports nothing of this package (``python -S``, one that the program brought along).

    Args:
        task: its class has ``restored``, which takes the state.
        state: begins with what the program gave.
    """
    kind = type(task)
    made = f"__import__({kind.__module__!r}, fromlist=['*']).{kind.__name__}.restored(*state)"
    return eval, (f"{made} if {STARTUP!r} in __import__('sys').modules else state[0]", {"state": state})


class Task:
    """Calls a function after the generators were seeded for it, in another process than the one that made it."""

    __slots__ = ("function", "inherited", "place", "process")

    def __init__(self, function: Callable[..., Any], call: Call, number: int = 0) -> None:
        self.function = function
        self.process = os.getpid()
        self.place = f"{call.place}.{number}"
        self.inherited = call.inherited

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to any worker."""
        return by_value(self, self.function, self.process, self.place, self.inherited)

    @classmethod
    def restored(cls, function: Callable[..., Any], process: int, place: str, inherited: dict[str, str]) -> Task:
        """Return the task that ``process`` has pickled."""
        task = cls.__new__(cls)
        task.function, task.process, task.place, task.inherited = function, process, place, inherited
        return task

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Become the task, then do it."""
        if os.getpid() != self.process:
            from .startup import process

            if process is not None:
                process.enter_task(self.place, self.inherited)
        return self.function(*arguments, **options)


class Call:
    """One call that hands tasks in.

    Args:
        process: the process that calls.
    """

    def __init__(self, process: Process) -> None:
        process.calls += 1
        place = process.task or process.path
        self.place = f"{place}/task {process.calls}" if place else f"task {process.calls}"
        self.inherited = process.states() if get_ident() == process.main_thread else {}

    def each(self, tasks: Any) -> Iterator[Any]:
        """Number the functions of ``(function, arguments, options)``, as joblib wants its tasks."""
        for number, (function, arguments, options) in enumerate(tasks):
            yield Task(function, self, number), arguments, options
