"""Tasks that are done in the order in which they were begun, in an experiment (fix.py): one after another.

Who begins a thread, a process, a program or a task, or forks itself, waits until it has ended, ``_PATIENCE`` seconds at
most: one that waits for others would never end; threads and processes that end with the program (``daemon``) only if
they are the project's own. One that waits for a queue is waited for no longer. Of several threads or processes that
take from one queue, the first takes all as long as it lives. Pools of ``multiprocessing`` have one worker. Results that
come as they are completed come in the order of their beginning: ``as_completed`` and ``wait`` of
``concurrent.futures``, ``asyncio.as_completed``, ``imap_unordered`` of pools, multiprocess' too, joblib's
``generator_unordered``, ``ray.wait``; PyTorch's ``recv`` from any rank takes from each in its turn, and workers of its
``DataLoader`` make a batch when it is wanted. Who waits for what is ready first gets all (fix_ready.py). Threads and
processes of the standard library's own pools are left alone, as is what packages in C++ begin.

The lines that begin something concurrent are noted (fix.py).
"""

from __future__ import annotations

import os
import sys
import time
from _thread import allocate_lock, get_ident

from . import fix_ready
from .fix_clock import forget_cached, members_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from .fix_callers import Callers

_PATIENCE, _ALL = 3.0, 15.0
"""Seconds that one is waited for, and that waiting in vain may take in all."""
_MOMENT, _SOON = 0.002, 0.1
"""Seconds between two looks at one that is waited for; in which a thread that has done its task is ready for more."""
_sleep = time.sleep
_EARLY = "_envbuild_number"


class _Patience:
    """Waits, and ends to do so where it was too often in vain."""

    def __init__(self) -> None:
        self.left = _ALL
        self.monotonic = time.monotonic

    def wait(self, until: Any) -> None:
        """Call with the seconds that there are; what took all of them was in vain."""
        seconds = min(_PATIENCE, self.left)
        if seconds <= 0:
            return
        begin, me = self.monotonic(), get_ident()
        _patient.add(me)
        try:
            until(seconds)
        finally:
            _patient.discard(me)
        spent = self.monotonic() - begin
        if spent >= seconds:
            self.left -= spent


_callers: Callers | None = None
"""Notes lines that begin something concurrent, and knows the project's."""


def install(callers: Callers | None = None) -> None:
    """Put tasks in order from now on; the modules are imported for that. ``callers``: notes the lines."""
    from multiprocessing import pool, process, queues

    global _callers
    _callers = callers
    _threads()
    _queues()
    _simple_queues()
    _forks()
    processes(process)
    shared_queues(queues)
    _programs()
    _futures(_patience)
    _ready.install()
    pools(pool)
    _asyncio()


_patience = _Patience()
_ready = fix_ready.Ready(_Patience().wait, lambda code: is_own(code))
connections = _ready.connections
_patient: set[int] = set()
"""Threads that wait for others because of the order, and not by a limit of the program's."""
_waiting: set[int] = set()
"""Threads that wait for a queue."""
_kept: list[Any] = []
"""Programs that were begun."""
_turns: list[Any] = []
"""References to what a process has that takes from a queue of several."""
_LIBRARY = os.path.dirname(os.__file__) + os.sep


def is_waiting(thread: int) -> bool:
    """Return whether a thread waits so that others come first; the program knows nothing of that wait."""
    return thread in _patient


def is_own(code: Any) -> bool:
    """Return whether code is the project's; without ``callers``, no library's."""
    return _callers.is_project(code) if _callers is not None else not code.co_filename.startswith(_LIBRARY)


def noted(call: str, frame: Any) -> None:
    """Note a line that begins something concurrent, or takes what any of several may give first."""
    if _callers is not None:
        _callers.real("order", call, frame)


def _is_waited_for(task: Any, *, daemon: bool) -> bool:
    """Whether a thread or process is the program's, by what it is to do, which it has until it is begun."""
    target = getattr(task, "_target", None) or type(task).run
    code = getattr(getattr(target, "__func__", target), "__code__", None)
    if code is None or (daemon and not (_callers is None or _callers.is_project(code))):
        return False
    file = code.co_filename
    return "-packages" in file or not file.startswith((_LIBRARY, "<frozen"))


def _threads() -> None:
    import threading

    start = threading.Thread.start

    def started(thread: Any) -> None:
        waited_for = _is_waited_for(thread, daemon=thread.daemon)
        start(thread)
        if waited_for:
            noted("threading.Thread.start", sys._getframe(1))
            _patience.wait(lambda seconds: _until_idle(thread, seconds))

    threads: Any = threading.Thread
    threads.start = started


def _until_idle(thread: Any, seconds: float) -> None:
    """Wait until a thread has ended or waits for a queue."""
    ends = _patience.monotonic() + seconds
    while thread.is_alive() and thread.ident not in _waiting and _patience.monotonic() < ends:
        thread.join(_MOMENT)


def _queues() -> None:
    """Give what is in a queue to the thread that took from it first, as long as it lives; the main thread apart."""
    import queue

    kind: Any = queue.Queue
    take = kind.get
    main = get_ident()

    def got(self: Any, block: bool = True, timeout: float | None = None) -> Any:
        if get_ident() == main:
            return take(self, block, timeout)
        holder = self.__dict__.setdefault("_envbuild_taken", _held_by_this())
        return _taken_in_turn(holder, lambda: take(self, block, timeout))

    kind.get = got


def _simple_queues() -> None:
    """The same for queues of C, in their type; not for those by which the standard library's pools give tasks."""
    import queue
    from weakref import WeakKeyDictionary

    kind: Any = queue.SimpleQueue
    members = members_of(kind)
    if "get" not in members:  # queues of Python, or an interpreter that gives no dictionary
        return
    take = members["get"]
    main = get_ident()
    holders: WeakKeyDictionary[Any, list[Any]] = WeakKeyDictionary()

    def got(self: Any, block: bool = True, timeout: float | None = None) -> Any:
        if get_ident() == main or sys._getframe(1).f_code.co_filename.startswith(_LIBRARY):
            return take(self, block, timeout)
        holder = holders.setdefault(self, _held_by_this())
        return _taken_in_turn(holder, lambda: take(self, block, timeout))

    members["get"] = got
    forget_cached(kind)


def _held_by_this() -> list[Any]:
    """Return who takes from a queue, which is this thread, and how often somebody did."""
    import threading

    return [threading.current_thread(), 0]


def _taken_in_turn(taken: list[Any], take: Callable[[], Any]) -> Any:
    """Take from a queue once the thread that took from it before has left; ``taken`` says who that is."""
    me = get_ident()
    _waiting.add(me)
    try:
        if taken[0].ident != me:
            _until_left(taken)
            taken[0] = _held_by_this()[0]
        taken[1] += 1
        return take()
    finally:
        _waiting.discard(me)


def _forks() -> None:
    """Have a child that the project forks end before its parent goes on; what it is asked for stays to be asked."""
    system: Any = os
    fork = os.fork

    def forked() -> int:
        frame = sys._getframe(1)
        library = frame.f_code.co_filename.startswith(_LIBRARY)
        child = fork()
        if child and not library and (_callers is None or _callers.is_project(frame.f_code)):
            noted("os.fork", frame)
            _patience.wait(lambda seconds: _until_ended(child, seconds))
        return child

    system.fork = forked


def _until_ended(child: int, seconds: float) -> None:
    """Wait for the end of a process, and leave what there is to know of it to the program: it may ask ``os.wait``."""
    ends = _patience.monotonic() + seconds
    try:
        while _patience.monotonic() < ends:
            if os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None:
                return
            _sleep(_MOMENT)
    except ChildProcessError:
        return


def _until_left(taken: list[Any]) -> None:
    """Wait until the thread that takes from a queue has ended, or does nothing for as long as patience has."""
    while taken[0].is_alive():
        seen, holder = taken[1], taken[0]

        def moves(seconds: float, holder: Any = holder, seen: int = seen) -> None:
            ends = _patience.monotonic() + seconds
            while holder.is_alive() and taken[1] == seen and _patience.monotonic() < ends:
                holder.join(_MOMENT)
                if holder.ident in _waiting:
                    ends = _patience.monotonic() + seconds

        _patience.wait(moves)
        if taken[0] is not holder or taken[1] == seen:
            return


def shared_queues(module: Any) -> None:
    """The same for processes that take from one queue; ``module`` is ``multiprocessing.queues``, or a copy of it."""
    from importlib import import_module
    from weakref import ref

    package = module.__name__.rpartition(".")[0]
    process, util = (import_module(f"{package}.{name}") for name in ("process", "util"))
    kind: Any = module.Queue
    made, take = kind.__init__, kind.get
    held: set[int] = set()

    def begun(self: Any, maxsize: int = 0, *, ctx: Any) -> None:
        made(self, maxsize, ctx=ctx)
        self._envbuild_turn = ctx.Semaphore(1)
        _turns.append(ref(self._envbuild_turn))

    def got(self: Any, block: bool = True, timeout: float | None = None) -> Any:
        turn = self.__dict__.get("_envbuild_turn")  # one that was sent to a new interpreter has none
        if turn is not None and process.parent_process() is not None and id(turn) not in held:
            turn.acquire(True, _ALL)
            held.add(id(turn))
            util.Finalize(None, turn.release, exitpriority=1000)
        return take(self, block, timeout)

    kind.__init__, kind.get = begun, got


def processes(module: Any) -> None:
    """Begin processes one after another; ``module`` is ``multiprocessing.process``, or a copy of it."""
    begin = module.BaseProcess.start

    def begun(child: Any) -> None:
        waited_for = _is_waited_for(child, daemon=bool(child.daemon))
        begin(child)
        if waited_for:
            noted("multiprocessing.Process.start", sys._getframe(1))
            _patience.wait(lambda seconds: _until_turn(child, seconds))

    module.BaseProcess.start = begun


def _until_turn(child: Any, seconds: float) -> None:
    """Wait until a process has ended, or it or another one has a queue for itself."""
    ends = _patience.monotonic() + seconds
    while child.is_alive() and _patience.monotonic() < ends:
        child.join(_MOMENT)
        if any(turn is not None and turn._semlock._is_zero() for turn in [each() for each in _turns]):
            return


def _programs() -> None:
    """Begin other programs one after another, but for those that are to be written to."""
    import subprocess

    begin = subprocess.Popen.__init__

    def begun(program: Any, *arguments: Any, **options: Any) -> None:
        begin(program, *arguments, **options)
        noted("subprocess.Popen", sys._getframe(1))
        _kept.append(program)  # one that nobody holds asks for the end of its child when it goes
        if options.get("stdin") != subprocess.PIPE:
            _patience.wait(lambda seconds: _until_ended(program.pid, seconds))

    programs: Any = subprocess.Popen
    programs.__init__ = begun


def _futures(patience: _Patience) -> None:
    import concurrent.futures
    from concurrent.futures import _base, process, thread

    numbers = iter(range(1 << 62))
    made = _base.Future.__init__
    wait = _base.wait

    def numbered(future: Any) -> None:
        made(future)
        setattr(future, _EARLY, next(numbers))

    def ended(future: Any) -> Any:
        return lambda seconds: wait([future], seconds)

    def in_order(futures: Any) -> list[Any]:
        return sorted({*futures}, key=lambda future: getattr(future, _EARLY, 0))

    def as_completed(fs: Any, timeout: Any = None) -> Iterator[Any]:
        for future in in_order(fs):
            wait([future], timeout)
            yield future

    class InOrder(set):  # type: ignore[type-arg]
        """A set that is gone through in the order of submission, and not in that of addresses."""

        def __iter__(self) -> Iterator[Any]:
            return iter(in_order(set.__iter__(self)))

    def waited(fs: Any, timeout: Any = None, return_when: str = _base.ALL_COMPLETED) -> Any:
        futures = in_order(fs)
        one = return_when == _base.FIRST_COMPLETED and bool(futures)
        done, _ = wait(futures[:1], timeout) if one else wait(futures, timeout, return_when)
        return _base.DoneAndNotDoneFutures(InOrder(done), InOrder(set(futures).difference(done)))

    future: Any = _base.Future
    future.__init__ = numbered
    bases: Any = _base
    everything: Any = concurrent.futures
    bases.as_completed = everything.as_completed = as_completed
    bases.wait = everything.wait = waited
    executors: tuple[Any, ...] = (thread.ThreadPoolExecutor, process.ProcessPoolExecutor)
    for executor in executors:
        executor.submit = _one_by_one(executor.submit, patience, ended)


def _one_by_one(submit: Any, patience: _Patience, ended: Any) -> Any:
    def submitted(executor: Any, *arguments: Any, **options: Any) -> Any:
        future = submit(executor, *arguments, **options)
        noted("concurrent.futures.Executor.submit", sys._getframe(1))
        patience.wait(ended(future))
        idle = getattr(executor, "_idle_semaphore", None)
        ends = patience.monotonic() + _SOON
        # The thread that was at work takes the next task too, and no new one is begun for it.
        while idle is not None and future.done() and idle._value < 1 and patience.monotonic() < ends:
            _sleep(_MOMENT / 10)
        return future

    return submitted


def pools(module: Any) -> None:
    """Have results come in the order of their tasks; ``module`` is ``multiprocessing.pool``, or a copy of it."""
    pool = module.Pool
    pool.imap_unordered = pool.imap
    apply, made = pool.apply_async, pool.__init__

    def begun(self: Any, processes: Any = None, *arguments: Any, **options: Any) -> None:
        noted("multiprocessing.Pool", sys._getframe(1))
        made(self, 1, *arguments, **options)

    def applied(self: Any, func: Any, *arguments: Any, **options: Any) -> Any:
        if get_ident() == self._result_handler.ident:  # which gives the results; joblib's callbacks begin tasks there
            return apply(self, func, *arguments, **options)
        if not isinstance(self, module.ThreadPool):
            result = apply(self, func, *arguments, **options)
            _patience.wait(result.wait)
            return result
        # A result is there when its callback has ended: joblib's waits for a lock that who begins tasks has.
        ended = allocate_lock()
        ended.acquire()

        def called(*given: Any, **named: Any) -> Any:
            try:
                return func(*given, **named)
            finally:
                ended.release()

        result = apply(self, called, *arguments, **options)
        _patience.wait(lambda seconds: ended.acquire(timeout=seconds))
        return result

    pool.__init__, pool.apply_async = begun, applied


def ray(module: Any) -> None:
    """Have ``ray.wait`` without a time limit give the first ones that it was asked for; ``module`` has it."""
    wait = module.wait

    def waited(ray_waitables: Any, *, num_returns: int = 1, timeout: float | None = None, **options: Any) -> Any:
        if timeout is not None or not isinstance(ray_waitables, list):
            return wait(ray_waitables, num_returns=num_returns, timeout=timeout, **options)
        noted("ray.wait", sys._getframe(1))
        first = ray_waitables[:num_returns]
        wait(first, num_returns=num_returns, **options)
        return first, ray_waitables[num_returns:]

    module.wait = waited


def _asyncio() -> None:
    import asyncio
    from asyncio import tasks

    def as_completed(fs: Any, *, timeout: Any = None) -> Iterator[Any]:
        return iter([asyncio.ensure_future(each) for each in fs])

    modules: tuple[Any, ...] = (asyncio, tasks)
    for module in modules:
        module.as_completed = as_completed
