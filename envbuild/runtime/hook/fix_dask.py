"""Dask's tasks in the order in which they were handed in, in an experiment (fix_order.py).

A local cluster has one worker with one thread; a task that waits for others lets them have it. ``as_completed`` gives
futures in the order in which it got them, and ``wait`` sets that are gone through in that order.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque

from .frameworks.for_pools import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_MOMENT = 0.01
"""Seconds between two looks whether a future is done."""
_WAITING = ("_gather", "_result", "_exception", "_wait")
"""What a client does to wait for tasks."""


def cluster(module: Any) -> None:
    """Give each local cluster one worker; ``module`` is ``distributed.deploy.local``."""
    kind: Any = getattr(module, "LocalCluster", None)
    made: Any = getattr(kind, "__init__", None) if kind else None

    def begun(
        self: Any, name: Any = None, n_workers: Any = None, threads: Any = None, *rest: Any, **options: Any
    ) -> None:
        _noted("dask.distributed.LocalCluster", sys._getframe(1))
        options.pop("threads_per_worker", None)
        wanted = 0 if n_workers == 0 else 1
        made(self, name, wanted, 1, *rest, **options)

    replace(kind, "__init__", made, begun)


def client(module: Any, does_task: Callable[[], bool]) -> None:
    """Have futures come in order.

    Args:
        module: is ``distributed.client``.
        does_task: whether the thread that asks does a task on a worker.
    """
    _as_completed(getattr(module, "as_completed", None))
    _wait(module)
    kind = getattr(module, "Client", None)
    wait_for_workers: Any = getattr(kind, "wait_for_workers", None)

    def waited(self: Any, n_workers: Any = 1, timeout: Any = None) -> Any:
        return wait_for_workers(self, min(n_workers, 1) if isinstance(n_workers, int) else n_workers, timeout)

    replace(kind, "wait_for_workers", wait_for_workers, waited)
    _nested(kind, does_task)


def _nested(kind: Any, does_task: Callable[[], bool]) -> None:
    """Have a task that waits for others give up its place, as they have no other worker."""
    sync: Any = getattr(kind, "sync", None)

    def synced(self: Any, function: Any, *arguments: Any, **options: Any) -> Any:
        waits = does_task() and getattr(function, "__name__", "") in _WAITING
        gave_up = waits and _gave_up()
        try:
            return sync(self, function, *arguments, **options)
        finally:
            if gave_up:
                sys.modules["distributed.threadpoolexecutor"].rejoin()

    replace(kind, "sync", sync, synced)


def _gave_up() -> bool:
    """Give up the task's place; whether it had one still."""
    try:
        sys.modules["distributed.worker"].secede()
    except KeyError:
        return False
    return True


def _as_completed(kind: Any) -> None:
    later = "_anext" if hasattr(kind, "_anext") else "__anext__"  # until 2022
    update: Any = getattr(kind, "update", None)
    take: Any = getattr(kind, "__next__", None)
    take_later: Any = getattr(kind, later, None)
    if update is None or take is None:
        return

    def updated(self: Any, futures: Any) -> None:
        _noted("dask.distributed.as_completed", sys._getframe(1))
        given = list(futures)
        self.__dict__.setdefault("_envbuild_order", deque()).extend(given)
        update(self, given)

    def taken(self: Any) -> Any:
        while _waits(self) and not getattr(getattr(self, "_deadline", None), "expired", False):
            with self.thread_condition:
                self.thread_condition.wait(_MOMENT)
        return take(self)

    async def taken_later(self: Any) -> Any:
        while _waits(self):
            await asyncio.sleep(_MOMENT)
        return await take_later(self)

    def batch(self: Any, block: bool = True) -> list[Any]:
        return [taken(self)] if block or not (_waits(self) or self.is_empty()) else []

    replace(kind, "update", update, updated)
    replace(kind, "__next__", take, taken)
    replace(kind, later, take_later, taken_later)
    kind.next, kind.next_batch = taken, batch


def _waits(self: Any) -> bool:
    """Bring the first future that was given to the front of those that are done; whether it is not done yet."""
    order = self.__dict__.get("_envbuild_order", ())
    with self.lock, self.queue.mutex:
        done = [item[0] if self.with_results else item for item in self.queue.queue]
        while order and order[0] not in done and order[0] not in self.futures:
            order.popleft()  # given out, or cleared
        if not order or order[0] in self.futures:
            return bool(order)
        self.queue.queue.rotate(-done.index(order[0]))
        return False


def _wait(module: Any) -> None:
    wait, wait_later = getattr(module, "wait", None), getattr(module, "_wait", None)
    if wait is None or wait_later is None:
        return

    class InOrder(set):  # type: ignore[type-arg]
        """A set that is gone through in the order in which futures were given."""

        def __init__(self, futures: Any, order: list[Any]) -> None:
            super().__init__(futures)
            self.order = order

        def __iter__(self) -> Iterator[Any]:
            return iter([future for future in self.order if future in self])

    async def waited_later(fs: Any, timeout: Any = None, return_when: str = module.ALL_COMPLETED) -> Any:
        order = list(dict.fromkeys(module.futures_of(fs)))
        one = return_when == module.FIRST_COMPLETED and bool(order)
        done, left = await wait_later(order[:1] if one else fs, timeout, return_when)
        left = set(order).difference(done) if one else left
        return module.DoneAndNotDoneFutures(InOrder(done, order), InOrder(left, order))

    def waited(fs: Any, timeout: Any = None, return_when: str = module.ALL_COMPLETED) -> Any:
        _noted("dask.distributed.wait", sys._getframe(1))
        return wait(fs, timeout, return_when)

    replace(module, "_wait", wait_later, waited_later)
    replace(module, "wait", wait, waited)


def _noted(call: str, frame: Any) -> None:
    from . import fix_order

    fix_order.noted(call, frame)
