"""``multiprocess``, pathos' copy of ``multiprocessing`` that pickles with dill: what ``datasets`` maps with."""

from __future__ import annotations

import sys

from . import for_pools, standard
from .for_pools import ORDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..process import Process


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
