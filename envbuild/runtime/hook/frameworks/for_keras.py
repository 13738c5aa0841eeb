"""Keras: the seed that ``keras.utils.set_random_seed`` would remember.

That function would also reseed Python, NumPy and the backend, and so undo what the script did before it imported
Keras. Those are seeded already; layers take their default seeds from Python's ``random``. Keras 2 remembers none.
"""

from __future__ import annotations

import sys

from ..switching import Access, apply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..process import Process


def set_up(module: Any, process: Process) -> None:
    """Remember the seed in Keras 3's global state."""
    process.modules["keras"] = module
    apply("keras", module, process, ACCESS, str(getattr(module, "__version__", "")))
    process.write()


def _state() -> Any:
    return sys.modules["keras.src.backend.common.global_state"]


ACCESS = {
    "keras.utils.set_random_seed": Access(
        lambda module, value: _state().set_global_attribute("global_random_seed", value),
        lambda module, wanted: _state().get_global_attribute("global_random_seed"),
        generator="keras",
    )
}
