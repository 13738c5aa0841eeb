"""``multiprocess``, pathos' copy of ``multiprocessing`` that pickles with dill: what ``datasets`` maps with."""

from __future__ import annotations

import sys

from . import for_pools, standard
from .for_pools import ORDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..process import Process

_LIMITS = f"{ORDER.rpartition('.')[0]}.fix_limits"
"""The module that is there in an experiment with limits of time that are not reached."""


def set_up_process(module: Any, process: Process) -> None:
    """Reseed each child by its identity; in an experiment with tasks in order, one after another."""
    standard.number_workers(module, process)
    if ORDER in sys.modules:
        sys.modules[ORDER].processes(module)


def set_up_pool(module: Any, process: Process) -> None:
    """Number what ``Pool`` is given; in an experiment with tasks in order, its results come in order."""
    for_pools.set_up_pool(module, process)
    if ORDER in sys.modules:
        sys.modules[ORDER].pools(module)


def set_up_synchronize(module: Any, process: Process) -> None:
    """In an experiment with limits of time that are not reached, have its locks keep to none."""
    if (limits := _limits()) is not None:
        limits.of_locks(module)


def set_up_queues(module: Any, process: Process) -> None:
    """In an experiment with limits of time that are not reached, have its queues keep to none."""
    if (limits := _limits()) is not None:
        limits.of_queues(module)
    if ORDER in sys.modules:
        sys.modules[ORDER].shared_queues(module)


def set_up_connection(module: Any, process: Process) -> None:
    """In an experiment with limits of time that are not reached, have its pipes keep to none; as in ``queues``."""
    if (limits := _limits()) is not None:
        limits.of_connections(module)
    if ORDER in sys.modules:
        sys.modules[ORDER].connections(module)


def _limits() -> Any:
    """Return what keeps limits from being reached; None outside such an experiment."""
    module = sys.modules.get(_LIMITS)
    return module.current if module is not None else None
