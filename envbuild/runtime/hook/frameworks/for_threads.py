"""``threading``: threads that wait before they do what they are for (turns.py). ``multiprocessing``: processes, too.

``Thread.start`` returns when the new thread has set ``_started``, right before its ``run`` (Python 3.10 to 3.14).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..process import Process


def set_up(module: Any, process: Process) -> None:
    """Have threads wait once those that began them go on."""
    next_turn = process.turn
    if next_turn is None:
        return
    inner = module.Thread._bootstrap_inner

    def _bootstrap_inner(self: Any) -> None:
        turn, started = next_turn(), self._started.set

        def set_then_turn() -> None:
            started()
            del self._started.set
            turn()

        self._started.set = set_then_turn
        inner(self)

    module.Thread._bootstrap_inner = _bootstrap_inner


def set_up_processes(module: Any, process: Process) -> None:
    """Have processes that are no forks, but Pythons of their own, be interrupted once they do what they are for."""
    own_turn = process.own_turn
    if own_turn is None:
        return
    bootstrap = module.BaseProcess._bootstrap

    def _bootstrap(self: Any, *arguments: Any, **options: Any) -> Any:
        if not process.forked:
            own_turn()
        return bootstrap(self, *arguments, **options)

    module.BaseProcess._bootstrap = _bootstrap
