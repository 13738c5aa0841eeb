"""Waits for what is ready first, in an experiment with tasks in order (fix_order.py): they give all, in one order.

``multiprocessing.connection.wait``, ``select.select`` and selectors go on to wait where the project calls them and
something can be read: until all that was asked for can be, as long as patience lasts. So whoever serves several pipes,
sockets or processes finds them in the order in which it named them. One that was waited for in vain is waited for no
more, until it was ready once. Where libraries and packages wait, all stays as it is; so do ``select.poll`` and
``select.epoll``, which are types of C.
"""

from __future__ import annotations

import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from types import CodeType
    from typing import Any

_MOMENT = 0.002
"""Seconds between two looks at those that are waited for."""
_sleep = time.sleep


class Ready:
    """Waits until all are ready.

    Args:
        wait: calls a function with the seconds that it may take (fix_order.py).
        is_project: whether code is the project's.
    """

    def __init__(self, wait: Callable[[Callable[[float], None]], None], is_project: Callable[[CodeType], bool]) -> None:
        self._wait, self._is_project = wait, is_project
        self._monotonic = time.monotonic
        self._idle: set[int] = set()

    def install(self) -> None:
        """Put these waits in the place of the libraries'; the modules are imported for that."""
        import select
        import selectors
        from multiprocessing import connection

        self.connections(connection)
        self._select(select)
        for kind in (selectors.SelectSelector, selectors.PollSelector, selectors.EpollSelector):
            self._selector(kind)

    def until_all(self, asked: Collection[int], look: Callable[[], Collection[int]]) -> None:
        """Wait until all are ready, by their descriptors; ``look`` returns those that are."""
        late = set(asked) - self._idle

        def until(seconds: float) -> None:
            ends = self._monotonic() + seconds
            while True:
                ready = look()
                late.difference_update(ready)
                self._idle.difference_update(ready)
                if not late or self._monotonic() >= ends:
                    return
                _sleep(_MOMENT)

        if len(asked) > 1:
            self._wait(until)
            self._idle |= late

    def connections(self, module: Any) -> None:
        """Reach ``wait`` of ``multiprocessing.connection``, or of a copy of it."""
        take = module.wait

        def waited(object_list: Any, timeout: float | None = None) -> Any:
            objects = list(object_list)
            found = take(objects, timeout)
            if not found or not self._is_project(sys._getframe(1).f_code):
                return found
            self.until_all([_number(each) for each in objects], lambda: [_number(each) for each in take(objects, 0)])
            ready = {_number(each) for each in take(objects, 0)}
            return [each for each in objects if _number(each) in ready]

        module.wait = waited

    def _select(self, module: Any) -> None:
        take = module.select

        def waited(rlist: Any, wlist: Any, xlist: Any, timeout: float | None = None) -> Any:
            reading, writing, failing = list(rlist), list(wlist), list(xlist)
            found = take(reading, writing, failing, timeout)
            if not found[0] or not self._is_project(sys._getframe(1).f_code):
                return found
            self.until_all(
                [_number(each) for each in reading], lambda: [_number(each) for each in take(reading, (), (), 0)[0]]
            )
            return take(reading, writing, failing, 0)

        module.select = waited

    def _selector(self, kind: Any) -> None:
        from selectors import EVENT_READ

        take = kind.select

        def selected(selector: Any, timeout: float | None = None) -> Any:
            found = take(selector, timeout)
            if not any(events & EVENT_READ for _, events in found) or not self._is_project(sys._getframe(1).f_code):
                return found
            keys = [key for key in selector.get_map().values() if key.events & EVENT_READ]
            self.until_all(
                [key.fd for key in keys],
                lambda: [key.fd for key, events in take(selector, 0) if events & EVENT_READ],
            )
            order = {fd: number for number, fd in enumerate(selector.get_map())}
            return sorted(take(selector, 0), key=lambda pair: order.get(pair[0].fd, 0))

        kind.select = selected


def _number(waitable: Any) -> int:
    """Return the descriptor of what can be waited for."""
    return waitable if isinstance(waitable, int) else int(waitable.fileno())
