"""The standard library: ``random``, and the identity of ``multiprocessing`` children."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..process import Process


def seed_random(module: Any, process: Process) -> None:
    """Seed the module's functions. ``random.Random()`` objects are left alone: ``tempfile`` relies on them."""
    process.seeds("random", lambda process: module.seed(process.seed("random")), lambda: str(module.getrandbits(64)))


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
