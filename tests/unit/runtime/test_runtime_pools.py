"""Tasks of executors have numbers of their own (hook/frameworks/for_pools.py); see integration/test_multiprocess.py."""

from __future__ import annotations

import contextlib
import sys
import threading
import types
from typing import Any

import pytest

from envbuild.runtime.hook import stacks
from envbuild.runtime.hook.frameworks import for_pools
from envbuild.runtime.hook.tasks import STARTUP, Task, enter


class Executor:
    """Keeps what is handed in."""

    def __init__(self) -> None:
        self.given: list[Any] = []

    def submit(self, fn: Any, /, *arguments: Any, **options: Any) -> None:
        """Hand a task in."""
        self.given.append((fn, arguments, options))


def _process() -> Any:
    def guarded(_: str, action: Any, **__: Any) -> None:
        with contextlib.suppress(ValueError):
            action()

    thread = threading.get_ident()
    return types.SimpleNamespace(
        calls=0, task="", path="rank 1", main_thread=thread, states=lambda: {"random": "1"}, guarded=guarded
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


class Context:
    """What ``concurrent.futures.interpreter`` has to run tasks in an interpreter."""

    def __init__(self, failing: bool = False) -> None:
        self.called: list[Any] = []
        self.failing = failing
        self.interp = self

    def call(self, function: Any, *arguments: Any) -> None:
        self.called.append((function, arguments))
        if self.failing:
            raise ValueError("not shareable")

    def run(self, task: Any) -> Any:
        function, arguments, options = task
        return function(*arguments, **options)


def _interpreters(process: Any) -> Any:
    class InterpreterPoolExecutor:
        @classmethod
        def prepare_context(cls, initializer: Any, initargs: Any) -> Any:
            return (cls, initializer, initargs), lambda *given: given

    context = type("WorkerContext", (Context,), {"run": Context.run})
    module = types.SimpleNamespace(InterpreterPoolExecutor=InterpreterPoolExecutor, WorkerContext=context)
    for_pools.set_up_interpreters(module, process)
    return module


def test_interpreters_enter_the_task_before_they_do_it() -> None:
    """Whichever of them takes it; what it calls is not wrapped, as functions may travel that are not pickled."""
    module = _interpreters(_process())
    created, resolve = module.InterpreterPoolExecutor.prepare_context(None, ())
    assert created == (module.InterpreterPoolExecutor, None, ())
    tasks = [resolve(len, ("ab",), {}), resolve(len, ("abc",), {})]
    context = module.WorkerContext()
    assert [context.run(task) for task in reversed(tasks)] == [3, 2]
    assert tasks == [(len, ("ab",), {}), (len, ("abc",), {})]
    assert context.called == [(enter, (STARTUP, f"rank 1/task {number}.0", {"random": "1"})) for number in (2, 1)]


def test_an_initialiser_of_interpreters_has_no_number() -> None:
    """The worker's own tasks are numbered, not what prepares it."""
    context = _interpreters(_process()).WorkerContext()
    assert context.run((len, ("ab",), {})) == 2
    assert context.called == []


def test_an_interpreter_that_cannot_enter_does_its_task() -> None:
    """It may be one without the hook."""
    module = _interpreters(_process())
    _, resolve = module.InterpreterPoolExecutor.prepare_context(None, ())
    assert module.WorkerContext(failing=True).run(resolve(len, ("ab",), {})) == 2


@pytest.mark.parametrize("members", [{}, {"InterpreterPoolExecutor": object, "WorkerContext": object}])
def test_other_versions_of_interpreters_are_left_alone(members: dict[str, Any]) -> None:
    """Python 3.13 has none; another one may do it otherwise."""
    module = types.SimpleNamespace(**members)
    for_pools.set_up_interpreters(module, _process())
    assert vars(module) == members


def test_a_task_is_entered_where_the_hook_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere nothing happens; the function needs none of its module's names, to be sent to any interpreter."""
    entered: list[Any] = []
    process = types.SimpleNamespace(enter_task=lambda *given: entered.append(given))
    enter("no.module", "task 1.0", {})
    for started in (None, process):
        monkeypatch.setitem(sys.modules, "started", types.SimpleNamespace(process=started))
        enter("started", "task 1.0", {"random": "1"})
    assert entered == [("task 1.0", {"random": "1"})]
    assert enter.__code__.co_names == ("sys", "modules", "get", "process", "enter_task")
