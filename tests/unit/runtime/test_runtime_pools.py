"""Tasks of executors have numbers of their own (hook/frameworks/for_pools.py); see integration/test_multiprocess.py."""

from __future__ import annotations

import sys
import threading
import types
from typing import Any

import pytest

from envbuild.runtime.hook import stacks
from envbuild.runtime.hook.frameworks import for_pools
from envbuild.runtime.hook.tasks import Task


class Executor:
    """Keeps what is handed in."""

    def __init__(self) -> None:
        self.given: list[Any] = []

    def submit(self, fn: Any, /, *arguments: Any, **options: Any) -> None:
        """Hand a task in."""
        self.given.append((fn, arguments, options))


def _process() -> Any:
    return types.SimpleNamespace(
        calls=0, task="", path="rank 1", main_thread=threading.get_ident(), states=lambda: {"random": "1"}
    )


@pytest.mark.parametrize(
    ("name", "set_up"),
    [("ProcessPoolExecutor", for_pools.set_up_executor), ("MPIPoolExecutor", for_pools.set_up_mpi)],
)
def test_what_is_submitted_is_numbered(name: str, set_up: Any) -> None:
    """By the process that hands it in, and with the state of its generators; the method keeps its name."""
    kind = type("Executor", (), dict(Executor.__dict__))
    set_up(types.SimpleNamespace(**{name: kind}), _process())
    executor: Any = kind()
    for _ in range(2):
        executor.submit(print, 3, end="")
    tasks, arguments, options = zip(*executor.given, strict=True)
    assert [type(task) for task in tasks] == [Task, Task]
    assert [(task.place, task.inherited, task.function) for task in tasks] == [
        (f"rank 1/task {number}.0", {"random": "1"}, print) for number in (1, 2)
    ]
    assert (arguments, options) == (((3,),) * 2, ({"end": ""},) * 2)
    assert executor.submit.__name__ == "submit"


def test_a_module_without_the_executor_is_left_alone() -> None:
    """Another version of mpi4py may have it elsewhere."""
    module = types.SimpleNamespace()
    for_pools.set_up_mpi(module, _process())
    assert vars(module) == {}


def test_an_interpreter_beside_the_first_answers_no_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    """``faulthandler`` cannot be imported there: no warning of it is the program's."""
    monkeypatch.setitem(sys.modules, "faulthandler", None)
    stacks.answer()
