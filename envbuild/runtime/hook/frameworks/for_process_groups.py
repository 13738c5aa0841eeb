"""PyTorch's process groups of gloo: their end is put off, which may hang otherwise.

The destructor of ``ProcessGroupGloo`` holds Python's lock while it waits for the group's threads. Such a thread needs
the lock to let go of a work whose state keeps a Python object, and in 2.13 each work of a backward pass keeps one
(``torch/autograd/graph.py``: ``_stash_obj_in_tls``; ``c10d/ProcessGroupGloo.cpp``: ``AsyncWork`` keeps the thread's
state). A program that ends right after its last step may then wait for ever: 3 of 17 runs of a small one did, without
envbuild.
A group that is kept for a while is destroyed when its threads have nothing left; the last ones never are.

In an experiment with tasks in order (fix_order.py), what takes from any rank takes from each in its turn.
"""

from __future__ import annotations

import sys
from collections import deque
from functools import wraps

from .for_pools import ORDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..process import Process

_KEPT = 16
"""Groups that are kept after a program destroyed them."""


def set_up(module: Any, process: Process) -> None:
    """Keep the groups that the program destroys; not longer than the process lives, but beyond Python's own end."""
    import ctypes

    kept: deque[Any] = deque(maxlen=_KEPT)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    original = module.destroy_process_group

    @wraps(original)
    def destroy_process_group(*arguments: Any, **options: Any) -> Any:
        process.guarded("torch.distributed", lambda: kept.extend(_unknown(module, kept)), vital=False)
        return original(*arguments, **options)

    module.destroy_process_group = destroy_process_group
    if ORDER in sys.modules:
        for name in ("recv", "irecv"):
            setattr(module, name, _in_turn(module, getattr(module, name)))


def _in_turn(module: Any, receive: Any) -> Any:
    """Return a function that takes from one rank after another where none is named; each has to send as often."""
    turns: dict[tuple[int, ...], int] = {}

    @wraps(receive)
    def received(tensor: Any, src: Any = None, group: Any = None, *arguments: Any, **options: Any) -> Any:
        if src is None and options.get("group_src") is None:
            sys.modules[ORDER].noted(f"torch.distributed.{receive.__name__}", sys._getframe(1))
            ranks = tuple(module.get_process_group_ranks(group))
            others = [each for each in ranks if each != module.get_rank()]
            turns[ranks] = turn = turns.get(ranks, -1) + 1
            src = others[turn % len(others)] if others else None
        return receive(tensor, src, group, *arguments, **options)

    return received


def _unknown(module: Any, known: deque[Any]) -> list[Any]:
    """Return what does the work of the groups, as far as that is gloo and not known."""
    found: list[Any] = []
    for backend in _backends(module):
        if type(backend).__name__ == "ProcessGroupGloo" and not any(each is backend for each in (*known, *found)):
            found.append(backend)
    return found


def _backends(module: Any) -> Iterator[Any]:
    for group in list(module._world.pg_map):
        for device in getattr(group, "_device_types", ()):
            yield group._get_backend(device)
