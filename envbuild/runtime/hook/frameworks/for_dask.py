"""Dask: which worker takes a task is a race, so numbers belong to tasks (tasks.py), whichever worker takes them.

A task's place is its key. Keys are hashes of what a task is made of, or hold a UUID (``pure=False``, ``dask.delayed``).
UUIDs that Dask draws in the thread that hands tasks in therefore have two halves: 64 bits that follow from the place
of this process or task and the number of the UUID there, and 64 bits that no other process has (``_OWN``), so that a
scheduler which several runs share never takes one's task for another's. Hashes of texts with such a UUID have the same
two halves. A task's numbers follow from the first ones.

Workers with several threads are left alone: their tasks share the generators, and who draws first is a race that no
seed decides. So are workers that are threads of the program itself, tasks that are coroutines, and methods of actors.
A task that gave up its place (``secede``) shares the generators too, until it has it again (``rejoin``).

What a version of Dask has not is left alone: its tasks are then numbered in part, or not at all.

Source: ``Worker.execute`` in distributed/worker.py, ``get_async`` in dask/local.py, ``_tokenize`` in dask/tokenize.py
of Dask 2026.8; ``apply_function``, and ``tokenize`` in dask/base.py, until 2024; ``_md5`` there until 2023. Tried from
2022.12 on.
"""

from __future__ import annotations

import os
import re
import sys
from _thread import get_ident

from ...digest import sha256
from ..tasks import Task, by_value
from .for_pools import JOBLIB, ORDER, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..process import Process

_HALF = 16
"""Hexadecimal digits of each half of a name."""
_NAME = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_VARIANT = "8"
"""The digit of a UUID behind the first half, as RFC 9562 has it."""


class _Names:
    """What is the same in all of this process's names, and the thread that does a task now."""

    own = ""
    doing: int | None = None


_tasks: dict[int, list[Any]] = {}
"""For each thread that does a task: its key, and how often it gave up its place to others and came back."""


def set_up_names(module: Any, process: Process) -> None:
    """Have a module of Dask draw UUIDs of which the first half repeats."""
    _Names.own = _Names.own or _VARIANT + _own_half(process)[1:]
    if hasattr(getattr(module, "uuid", None), "uuid4"):
        module.uuid = _Uuids(module.uuid, module.__name__, process)


def _own_half(process: Process) -> str:
    """Return what no other process has; in an experiment, no other of this run: Dask's warnings print it."""
    return sha256(f"names/{process.path}".encode())[:_HALF] if ORDER in sys.modules else os.urandom(_HALF // 2).hex()


def set_up_tokens(module: Any, process: Process) -> None:
    """The same for the hashes of what has such a UUID in it."""
    set_up_names(module, process)
    if hasattr(getattr(module, "hashlib", None), "md5"):
        module.hashlib = _Hashes(module.hashlib)
    md5 = getattr(module, "_md5", None)
    if md5 is not None:
        module._md5 = _halved(md5)


def set_up_chance(module: Any, process: Process) -> None:
    """Give a module that draws in threads of its own a generator of its own: the program's is not moved by it."""
    from random import Random

    own = Random(process.seed())  # noqa: S311 - intervals of attempts, and what a worker writes to measure its disk
    for name, value in (("random", own), ("randint", own.randint)):
        if hasattr(module, name):
            setattr(module, name, value)


def set_up_worker(module: Any, process: Process) -> None:
    """Have each task of a worker with one thread seed all generators before it begins."""
    set_up_chance(module, process)
    for name, first in (("_run_task", 2), ("apply_function", 3)):
        run = getattr(module, name, None)
        if run is not None:
            replace(module, name, run, _entering(run, first, process))


def set_up_threads(module: Any, process: Process) -> None:
    """Seed all generators again for a task that let others have its place (``worker_client``) and comes back."""
    rejoin = getattr(module, "rejoin", None)

    def rejoined() -> None:
        rejoin()  # type: ignore[misc]
        task = _tasks.get(get_ident())
        if task is not None:
            task[1] += 1
            process.guarded("dask", lambda: _enter(process, *task), vital=False)

    replace(module, "rejoin", rejoin, rejoined)


def set_up_joblib(module: Any, process: Process) -> None:
    """Number the tasks that joblib hands to Dask: a stopwatch decides how many of them go to a worker together.

    Their places travel as texts: a worker of a cluster that lacks this package does the tasks as ever.
    """
    kind = getattr(module, "Batch", None)
    if kind is None:
        return
    make, call = kind.__init__, kind.__call__

    def made(self: Any, tasks: Any) -> None:
        if isinstance(tasks, list) and all(isinstance(task[0], Task) for task in tasks):
            self._envbuild_places = [(task[0].place, task[0].inherited) for task in tasks]
            tasks[:] = [(task[0].function, *task[1:]) for task in tasks]
        make(self, tasks)

    def called(self: Any, tasks: Any = None) -> Any:
        places = self.__dict__.get("_envbuild_places", ())
        if not does_task() or len(places) != len(tasks or ()):
            return call(self, tasks)
        results: list[Any] = []
        for place_of_task, task in zip(places, tasks):
            _begin(process, *place_of_task)
            results += call(self, [task])
        return results

    replace(kind, "__init__", make, made)
    replace(kind, "__call__", call, called)
    JOBLIB.add("DaskDistributedBackend")


def _begin(process: Process, place_of_task: str, inherited: dict[str, str]) -> None:
    """Become a task of joblib within one of Dask's; it has numbers of its own again where it comes back."""
    _tasks[get_ident()][:] = [place_of_task, 0]
    process.guarded("joblib", lambda: process.enter_task(place_of_task, inherited), vital=False)


def does_task() -> bool:
    """Whether this thread does a task that has its worker for itself."""
    return get_ident() in _tasks


def set_up_local(module: Any, process: Process) -> None:
    """Have tasks of the scheduler ``processes`` seed all generators: which of them are batched together is a race."""
    get: Any = getattr(module, "get_async", None)

    def got(submit: Any, *arguments: Any, **options: Any) -> Any:
        return get(_Submitting(submit), *arguments, **options)

    replace(module, "get_async", get, got)


def set_up_client(module: Any, process: Process) -> None:
    """Number the UUIDs of keys; in an experiment with tasks in order, have results come in order."""
    set_up_names(module, process)
    if ORDER in sys.modules:
        _in_order().client(module, does_task)


def set_up_cluster(module: Any, _: Process) -> None:
    """In an experiment with tasks in order, have one worker with one thread."""
    if ORDER in sys.modules:
        _in_order().cluster(module)


def place(key: object) -> str:
    """Return a task's place, which repeats where its key has UUIDs of ``_Uuids``."""
    stable = _NAME.sub(lambda found: found[0].replace("-", "")[:_HALF], str(key))
    return f"dask task {sha256(stable.encode('utf-8', 'surrogatepass'))[:_HALF]}"


class Batch:
    """Tasks of the scheduler ``processes`` for one worker, which seeds all generators for each.

    Args:
        run: takes a list of tasks, each a tuple that begins with the key.
    """

    __slots__ = ("process", "run")

    def __init__(self, run: Callable[[Any], Any]) -> None:
        self.run, self.process = run, os.getpid()

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to any worker."""
        return by_value(self, self.run, self.process)

    @classmethod
    def restored(cls, run: Callable[[Any], Any], process: int) -> Batch:
        """Return the batch that ``process`` has pickled."""
        batch = cls(run)
        batch.process = process
        return batch

    def __call__(self, tasks: Any) -> list[Any]:
        """Become each task in turn, then do it."""
        from ..startup import process

        results: list[Any] = []
        for task in tasks:
            if process is not None and os.getpid() != self.process:
                _enter(process, task[0])
            results += self.run([task])
        return results


class _Submitting:
    """Hands batches in; a pool of threads shares the program's generators, and gets them as they are."""

    def __init__(self, submit: Any) -> None:
        self.submit = submit
        pool = getattr(submit, "__self__", None)
        kinds = [base.__name__ for each in (pool, getattr(pool, "pool", None)) for base in type(each).__mro__]
        self.processes = "ProcessPoolExecutor" in kinds or ("Pool" in kinds and "ThreadPool" not in kinds)

    def __call__(self, run: Any, *arguments: Any) -> Any:
        return self.submit(Batch(run) if self.processes else run, *arguments)


def _entering(run: Any, first: int, process: Process) -> Any:
    def entered(*arguments: Any, **options: Any) -> Any:
        state, key = arguments[first : first + 2] if len(arguments) > first + 1 else ({}, None)
        if not isinstance(state, dict) or not _alone(state.get("worker")):
            return run(*arguments, **options)
        process.guarded("dask", lambda: _enter(process, key), vital=False)
        _tasks[get_ident()] = [key, 0]
        try:
            return run(*arguments, **options)
        finally:
            _tasks.pop(get_ident(), None)

    return entered


def _alone(worker: Any) -> bool:
    """Whether a worker has a process of its own, which its nanny began, and does one task at a time."""
    state = getattr(worker, "state", worker)
    return bool(getattr(worker, "nanny", None)) and getattr(state, "nthreads", 0) == 1


def _enter(process: Process, key: object, again: int = 0) -> None:
    _Names.doing = get_ident()
    process.enter_task(place(key) + (f" again {again}" if again else ""), {})


class _Uuids:
    """The module ``uuid`` for a module of Dask.

    Args:
        real: the module.
        user: the name of Dask's module: each has numbers of its own.
        process: hands tasks in.
    """

    def __init__(self, real: Any, user: str, process: Process) -> None:
        self._real, self._user, self._process = real, user, process

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def uuid4(self) -> Any:
        """Return a UUID; one for another thread than those that do what the program says has no number."""
        process = self._process
        if get_ident() != (_Names.doing or process.main_thread):
            return self._real.uuid4()
        counts, key = process.programs, f"uuid {self._user}"
        counts[key] = counts.get(key, 0) + 1
        stable = sha256(f"{process.task or process.path}/{key}.{counts[key]}".encode())[:_HALF]
        return self._real.UUID(f"{stable[:12]}4{stable[13:]}{_Names.own}")

    def uuid1(self, *_: Any, **__: Any) -> Any:
        """The same where Dask wants one with the time in it, which it only prints."""
        return self.uuid4()


class _Hashes:
    """The module ``hashlib`` for Dask's tokens."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def md5(self, data: bytes = b"", **options: Any) -> Any:
        """Return the digest of a text; where that has a name of this process in it, one in two halves."""
        return _Digest(self._real.md5, data, options)


def _halved(md5: Any) -> Any:
    def digest(data: bytes = b"", **options: Any) -> Any:
        return _Digest(md5, data, options)

    return digest


class _Digest:
    """A digest by ``md5``, in two halves where its data has a name of this process in it."""

    def __init__(self, md5: Any, data: Any, options: Any) -> None:
        self._real, self._md5, self._data, self._options = md5(data, **options), md5, bytearray(data), options

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def update(self, data: Any) -> None:
        """Add to the data."""
        self._real.update(data)
        self._data += data

    def copy(self) -> _Digest:
        """Return another digest of the same data."""
        return _Digest(self._md5, self._data, self._options)

    def hexdigest(self) -> str:
        """Return 32 digits; the second half is this process's if the data has a name of its."""
        own, data = _Names.own.encode(), self._data
        for form in (own, own[:4] + b"-" + own[4:]):
            data = data.replace(form, b"")
        if len(data) == len(self._data):
            return str(self._real.hexdigest())
        return str(self._md5(data, **self._options).hexdigest())[:_HALF] + _Names.own


def _in_order() -> Any:
    from .. import fix_dask

    return fix_dask
