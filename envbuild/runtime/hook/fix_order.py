"""Tasks that are done in the order in which they were begun, in an experiment (fix.py): one after another.

Who begins a thread, a process, a program or a task waits until it has ended, ``_PATIENCE`` seconds at most: one that
waits for others would never end. Results that come as they are completed come in the order of their beginning:
``as_completed`` and ``wait`` of ``concurrent.futures``, ``asyncio.as_completed``, ``imap_unordered`` of pools,
multiprocess' too, joblib's ``generator_unordered``. Threads and processes of the standard library's own pools are
left alone, as is what packages in C++ begin.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_PATIENCE, _ALL = 3.0, 15.0
"""Seconds that one is waited for, and that waiting in vain may take in all."""
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
        begin = self.monotonic()
        until(seconds)
        spent = self.monotonic() - begin
        if spent >= seconds:
            self.left -= spent


def install() -> None:
    """Put tasks in order from now on; the modules are imported for that."""
    from multiprocessing import pool, process

    _threads()
    processes(process)
    _programs()
    _futures(_patience)
    pools(pool)
    _asyncio()


_patience = _Patience()
_LIBRARY = os.path.dirname(os.__file__) + os.sep


def _of_program(target: Any) -> bool:
    code = getattr(getattr(target, "__func__", target), "__code__", None)
    file = code.co_filename if code is not None else ""
    return bool(file) and ("-packages" in file or not file.startswith((_LIBRARY, "<frozen")))


def _threads() -> None:
    import threading

    start = threading.Thread.start

    def started(thread: Any) -> None:
        start(thread)
        target = getattr(thread, "_target", None) or type(thread).run
        if _of_program(target) and not thread.daemon:
            _patience.wait(thread.join)

    threads: Any = threading.Thread
    threads.start = started


def processes(module: Any) -> None:
    """Begin processes one after another; ``module`` is ``multiprocessing.process``, or a copy of it."""
    begin = module.BaseProcess.start

    def begun(child: Any) -> None:
        begin(child)
        if _of_program(getattr(child, "_target", None) or type(child).run) and not child.daemon:
            _patience.wait(child.join)

    module.BaseProcess.start = begun


def _programs() -> None:
    """Begin other programs one after another, but for those that are to be written to."""
    import subprocess

    begin = subprocess.Popen.__init__

    def begun(program: Any, *arguments: Any, **options: Any) -> None:
        begin(program, *arguments, **options)
        if options.get("stdin") != subprocess.PIPE:
            _patience.wait(lambda seconds: _ended(program, seconds))

    def _ended(program: Any, seconds: float) -> None:
        try:
            program.wait(seconds)
        except subprocess.TimeoutExpired:
            pass

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
    def submitted(*arguments: Any, **options: Any) -> Any:
        future = submit(*arguments, **options)
        patience.wait(ended(future))
        return future

    return submitted


def pools(module: Any) -> None:
    """Have results come in the order of their tasks; ``module`` is ``multiprocessing.pool``, or a copy of it."""
    pool = module.Pool
    pool.imap_unordered = pool.imap
    apply = pool.apply_async

    def applied(*arguments: Any, **options: Any) -> Any:
        result = apply(*arguments, **options)
        _patience.wait(result.wait)
        return result

    pool.apply_async = applied


def _asyncio() -> None:
    import asyncio
    from asyncio import tasks

    def as_completed(fs: Any, *, timeout: Any = None) -> Iterator[Any]:
        return iter([asyncio.ensure_future(each) for each in fs])

    modules: tuple[Any, ...] = (asyncio, tasks)
    for module in modules:
        module.as_completed = as_completed
