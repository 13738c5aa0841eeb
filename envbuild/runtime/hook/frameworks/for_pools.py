"""Pools of processes: ``multiprocessing.Pool``, ``concurrent.futures.ProcessPoolExecutor``, mpi4py's and joblib.

And of interpreters in one process: ``concurrent.futures.InterpreterPoolExecutor``.
"""

from __future__ import annotations

import sys

from ..tasks import STARTUP, Call, Task, enter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..process import Process

ORDER = f"{__name__.rpartition('.')[0].rpartition('.')[0]}.fix_order"
"""The module that is there if tasks are done in order, in an experiment."""
JOBLIB = {"LokyBackend", "MultiprocessingBackend"}
"""joblib's backends whose workers are processes of this run; those of clusters may lack this package (for_dask.py)."""


def set_up_pool(module: Any, process: Process) -> None:
    """Number what ``Pool`` is given: single calls, and the chunks of maps."""
    apply_async = module.Pool.apply_async
    generate = module.Pool._guarded_task_generation

    def apply_async_numbered(self: Any, func: Any, *arguments: Any, **options: Any) -> Any:
        # joblib numbers its own tasks: how many go into a batch is decided by a stopwatch.
        if not isinstance(self, module.ThreadPool) and not _of_joblib(func):
            func = Task(func, Call(process))
        return apply_async(self, func, *arguments, **options)

    def generate_numbered(self: Any, result_job: Any, func: Any, iterable: Any) -> Any:
        tasks = generate(self, result_job, func, iterable)
        if isinstance(self, module.ThreadPool):
            return tasks
        return _numbered(tasks, Call(process), func)

    replace(module.Pool, "apply_async", apply_async, apply_async_numbered)
    replace(module.Pool, "_guarded_task_generation", generate, generate_numbered)


def set_up_executor(module: Any, process: Process) -> None:
    """Number what ``ProcessPoolExecutor`` is given; its ``map`` submits too."""
    _number_submits(module.ProcessPoolExecutor, process)


class _Numbered(tuple):  # type: ignore[type-arg]
    """A task of ``InterpreterPoolExecutor``: what it calls stays what it is, as some functions are not pickled."""

    call: Call


def set_up_interpreters(module: Any, process: Process) -> None:
    """Have the interpreter that takes a task of ``InterpreterPoolExecutor`` seed all generators first."""
    kind: Any = getattr(module, "InterpreterPoolExecutor", None)
    context: Any = getattr(module, "WorkerContext", None)
    prepare: Any = getattr(kind, "prepare_context", None)
    run: Any = getattr(context, "run", None)
    if prepare is None or run is None:
        return

    def prepared(own: Any, *arguments: Any, **options: Any) -> Any:
        create_context, resolve = prepare.__func__(own, *arguments, **options)

        def resolved(*given: Any) -> Any:
            task = resolve(*given)
            if type(task) is tuple:
                task = _Numbered(task)
                task.call = Call(process)
            return task

        return create_context, resolved

    def run_numbered(self: Any, task: Any) -> Any:
        if isinstance(task, _Numbered):
            place = (f"{task.call.place}.0", task.call.inherited)
            process.guarded("interpreters", lambda: self.interp.call(enter, STARTUP, *place), vital=False)
        return run(self, task)

    kind.prepare_context = classmethod(named(prepare.__func__, prepared))
    replace(context, "run", run, run_numbered)


def set_up_mpi(module: Any, process: Process) -> None:
    """The same for ``MPIPoolExecutor``: which rank takes a task is a race."""
    _number_submits(getattr(module, "MPIPoolExecutor", None), process)


def _number_submits(kind: Any, process: Process) -> None:
    submit: Any = getattr(kind, "submit", None)

    def submit_numbered(self: Any, fn: Any, /, *arguments: Any, **options: Any) -> Any:
        if not _of_joblib(fn):
            fn = Task(fn, Call(process))
        return submit(self, fn, *arguments, **options)

    replace(kind, "submit", submit, submit_numbered)


def set_up_joblib(module: Any, process: Process) -> None:
    """Number the tasks of each ``Parallel(…)(tasks)``."""
    call = module.Parallel.__call__

    def call_numbered(self: Any, iterable: Any) -> Any:
        if type(getattr(self, "_backend", None)).__name__ in JOBLIB:
            numbered = Call(process).each(iterable)
            iterable = list(numbered) if hasattr(iterable, "__len__") else numbered
        if ORDER in sys.modules:
            self.return_ordered = True
        return call(self, iterable)

    replace(module.Parallel, "__call__", call, call_numbered)


def _numbered(tasks: Any, call: Call, func: Any) -> Any:
    """Yield a map's tasks; one that represents an exception of the caller's iterable stays what it is."""
    for job, number, function, arguments, options in tasks:
        yield job, number, Task(function, call, number) if function is func else function, arguments, options


def _of_joblib(function: Any) -> bool:
    return type(function).__module__.partition(".")[0] == "joblib"


def replace(owner: Any, name: str, original: Any, new: Any) -> None:
    """Put a function in another one's place, under its name; None for ``original``: this version has none there."""
    if original is not None:
        setattr(owner, name, named(original, new))


def named(original: Any, new: Any) -> Any:
    """Give a function another one's name, and return it."""
    from functools import update_wrapper

    return update_wrapper(new, original)
