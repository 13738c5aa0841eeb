"""JAX: keys are explicit, so that there is no seed to set; its version goes into the record."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..process import Process


def set_up(module: Any, process: Process) -> None:
    """Record that JAX is there."""
    process.modules["jax"] = module
    process.write()
