"""The standard library: ``random``, and the identity of ``multiprocessing`` children."""

from __future__ import annotations

import os

from ..switching import OWN_SEEDS, Access, apply, notice_seeds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..process import Process


def seed_random(module: Any, process: Process) -> None:
    """Seed the module's functions. ``random.Random()`` objects are left alone: ``tempfile`` relies on them."""
    notice_seeds(module, "seed", "random.seed", process)
    apply("python", module, process, ACCESS)
    # The module itself reseeds forked children from the system's entropy, after the hook's own handler.
    os.register_at_fork(after_in_child=lambda: process.reapply("random"))


def _state(module: Any) -> str:
    """Describe the generator. The hash of a tuple of integers is the same in every process."""
    _, words, gauss = module.getstate()
    return f"{hash(words)} {gauss}"


def _read(module: Any, seed: int) -> Any:
    """Return the program's own seed if it gave one; there is no function that tells the generator's."""
    return OWN_SEEDS.get("random.seed", seed)


ACCESS = {"random.seed": Access(lambda module, value: module._inst.seed(value), _read, generator="random", draw=_state)}


def number_workers(module: Any, process: Process) -> None:
    """Reseed each ``multiprocessing`` child by its identity, whichever way it was started."""
    original = module.BaseProcess._bootstrap

    def _bootstrap(self: Any, *arguments: Any, **options: Any) -> Any:
        process.enter_worker(self._identity)
        try:
            return original(self, *arguments, **options)
        finally:
            process.finish()

    _bootstrap.__wrapped__ = original  # type: ignore[attr-defined]
    module.BaseProcess._bootstrap = _bootstrap
