"""Keras: the seed that ``keras.utils.set_random_seed`` would remember.

That function would also reseed Python, NumPy and the backend, and so undo what the script did before it imported
Keras. Those are seeded already; layers take their default seeds from Python's ``random``.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..process import Process


def set_up(module: Any, process: Process) -> None:
    """Remember the seed in Keras 3's global state; Keras 2 keeps none."""
    process.modules["keras"] = module
    state = sys.modules.get("keras.src.backend.common.global_state")
    if state is not None and hasattr(module.utils, "set_random_seed"):
        process.seeds("keras", lambda process: _seed(state, process))
    process.write()


def _seed(state: Any, process: Process) -> None:
    seed = process.seed("keras")
    process.switch(
        "keras.utils.set_random_seed",
        seed,
        lambda: state.set_global_attribute("global_random_seed", seed),
        lambda: state.get_global_attribute("global_random_seed"),
    )
