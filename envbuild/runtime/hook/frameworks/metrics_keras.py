"""Keras: what ``History`` is given at the end of each epoch, appended to a file of this process as it comes.

``History`` is in every training that Keras runs itself, so no callback is added. The file is ``metrics-PID.jsonl`` in
the run's folder, one line an epoch: ``{"process", "fit", "epoch", "values"}``; ``fit`` counts the trainings that did
not go on where the one before ended. A killed program leaves the epochs it had finished.
"""

from __future__ import annotations

import os
from functools import wraps

from ...fastjson import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..process import Process

EPOCHS = 100_000


def set_up(module: Any, process: Process) -> None:
    """Watch the end of epochs, if the run has a folder to write to."""
    history = getattr(getattr(module, "callbacks", None), "History", None)
    if history is None or not process.recorded or hasattr(history.on_epoch_end, "envbuild_metrics"):
        return
    original = history.on_epoch_end
    metrics = Metrics(process)

    @wraps(original)
    def on_epoch_end(self: Any, epoch: int, logs: Any = None, *rest: Any, **options: Any) -> Any:
        result = original(self, epoch, logs, *rest, **options)
        process.guarded("metrics", lambda: metrics.add(epoch, logs or {}), vital=False)
        return result

    on_epoch_end.envbuild_metrics = True  # type: ignore[attr-defined]
    history.on_epoch_end = on_epoch_end


class Metrics:
    """The file of one process; a forked child begins one of its own."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.pid = os.getpid()
        self.fit, self.last = 1, float("-inf")
        self.left = EPOCHS

    def add(self, epoch: int, logs: dict[str, Any]) -> None:
        """Append the values of one epoch."""
        if os.getpid() != self.pid:
            self.__init__(self.process)  # type: ignore[misc]
        if epoch <= self.last:
            self.fit += 1
        self.last = epoch
        if self.left <= 0:
            return
        self.left -= 1
        values = {str(name): number for name, value in logs.items() if (number := _number(value)) is not None}
        line = {"process": self.process.path, "fit": self.fit, "epoch": int(epoch), "values": values}
        path = os.path.join(self.process.folder, f"metrics-{self.pid}.jsonl")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            os.write(descriptor, f"{dumps(line)}\n".encode())
        finally:
            os.close(descriptor)


def _number(value: Any) -> float | None:
    """Return a value to the last bit; None if it is no number."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
