"""``threading``: threads that wait before they do what they are for (turns.py).

``Thread.start`` returns when the new thread has set ``_started``, right before its ``run`` (Python 3.10 to 3.14).
"""

from __future__ import annotations

from ..turns import wait

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..process import Process


def set_up(module: Any, process: Process) -> None:
    """Have threads wait once those that began them go on."""
    next_late = process.late
    if next_late is None:
        return
    inner = module.Thread._bootstrap_inner

    def _bootstrap_inner(self: Any) -> None:
        late, started = next_late(), self._started.set

        def set_then_wait() -> None:
            started()
            del self._started.set
            wait(late)

        self._started.set = set_then_wait
        inner(self)

    module.Thread._bootstrap_inner = _bootstrap_inner
