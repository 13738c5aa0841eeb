"""Lines that say which thread or task wrote them, in an experiment (fix.py): its name is before each, in marks.

Nothing is fixed. A thread is called by who began it, and how many that one had begun before; so is a task of a pool of
threads, whichever of them does it; one of asyncio by its own name. A pool of one thread does all tasks under one name:
they come in one order, which is that in which others gave them. What the first thread prints has no mark, nor what
reaches the stream by other ways (``os.write``, C). A thread that C began, or ``_thread``, has the name ``?``.

Marked are both streams, and files that handlers of ``logging`` open.
"""

from __future__ import annotations

import sys
from _thread import allocate_lock, get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

MARK = "\x1f"
"""Before and behind a name: the separator of units, which programs do not print."""
_UNKNOWN = "?"
_EARLIER = "_envbuild_name"


class Names:
    """Knows what each thread is called at the moment."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._counts: dict[str, int] = {}
        self._pools = 0
        self._of = {get_ident(): ""}

    def current(self) -> str:
        """Return the name of this thread, or of the task that it does; empty for the first thread."""
        own = self._of.get(get_ident(), _UNKNOWN)
        asyncio = sys.modules.get("asyncio")
        running = getattr(asyncio, "_get_running_loop", lambda: None)() if asyncio is not None else None
        task = asyncio.current_task(running) if asyncio is not None and running is not None else None
        return f"{own}/{task.get_name()}" if task is not None else own

    def next(self) -> str:
        """Return the name of what this thread begins now."""
        own = self.current()
        with self._lock:
            number = self._counts[own] = self._counts.get(own, 0) + 1
        return f"{own}/{number}"

    def of_pool(self, pool: Any) -> str:
        """Return the one name of a pool of one thread."""
        with self._lock:
            if not hasattr(pool, _EARLIER):
                self._pools += 1
                setattr(pool, _EARLIER, f"/pool {self._pools}")
        return str(getattr(pool, _EARLIER))

    def named(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        """Return a function that has a thread be called by a name while it runs."""

        def run(*arguments: Any, **options: Any) -> Any:
            thread = get_ident()
            before = self._of.get(thread, _UNKNOWN)
            self._of[thread] = name
            try:
                return function(*arguments, **options)
            finally:
                self._of[thread] = before

        return run


def install() -> None:
    """Mark lines of both streams from now on."""
    import logging
    import threading
    from concurrent.futures import thread as executors
    from multiprocessing import pool

    names = Names()
    _threads(threading.Thread, names)
    _executors(executors.ThreadPoolExecutor, names)
    _pools(pool.ThreadPool, names)
    _logs(logging.FileHandler, names)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            mark(stream, names)


def mark(stream: Any, names: Names) -> None:
    """Have a stream of text put a name before each line that is begun by another thread than the first."""
    write = stream.write
    begins = [True]

    def marked(text: Any) -> Any:
        if not isinstance(text, str) or not text:
            return write(text)
        name = names.current()
        shown = f"{MARK}{_plain(name)}{MARK}" if name else ""
        *whole, last = text.split("\n")
        lines = [*(f"{line}\n" for line in whole), *([last] if last else [])]
        found = "".join(f"{shown if at or begins[0] else ''}{line}" for at, line in enumerate(lines))
        begins[0] = not last
        write(found)
        return len(text)

    stream.write = marked


def _plain(name: str) -> str:
    return name.encode("ascii", "backslashreplace").decode().replace("\n", " ").replace(MARK, " ")


def _logs(kind: Any, names: Names) -> None:
    opened = kind._open

    def marked(self: Any) -> Any:
        stream = opened(self)
        mark(stream, names)
        return stream

    kind._open = marked


def _threads(kind: Any, names: Names) -> None:
    start = kind.start

    def started(self: Any) -> None:
        if not self._started.is_set():  # of one that was begun before it is an error
            self.run = names.named(self.run, names.next())
        start(self)

    kind.start = started


def _executors(kind: Any, names: Names) -> None:
    submit = kind.submit

    def submitted(self: Any, fn: Any, /, *arguments: Any, **options: Any) -> Any:
        name = names.of_pool(self) if self._max_workers == 1 else names.next()
        return submit(self, names.named(fn, name), *arguments, **options)

    kind.submit = submitted


def _pools(kind: Any, names: Names) -> None:
    apply_async, generate = kind.apply_async, kind._guarded_task_generation

    def applied(self: Any, func: Any, *arguments: Any, **options: Any) -> Any:
        name = names.of_pool(self) if self._processes == 1 else names.next()
        return apply_async(self, names.named(func, name), *arguments, **options)

    def generated(self: Any, result_job: Any, func: Any, iterable: Any) -> Iterator[Any]:
        whole = names.of_pool(self) if self._processes == 1 else ""
        call = names.next()  # tasks are taken from here by a thread of the pool
        for job, number, function, arguments, options in generate(self, result_job, func, iterable):
            yield job, number, names.named(function, whole or f"{call}.{number}"), arguments, options

    kind.apply_async, kind._guarded_task_generation = applied, generated
