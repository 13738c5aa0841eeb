"""PyTorch: seed, threads, deterministic algorithms, no benchmarking. No variable exists for these."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..process import Process


def set_up(module: Any, process: Process) -> None:
    """Set every switch right after the import."""
    process.modules["torch"] = module
    process.seeds("torch", lambda process: _seed(module, process), lambda: str(module.initial_seed()))
    threads = process.config.THREADS
    process.switch("torch.set_num_threads", threads, lambda: module.set_num_threads(threads), module.get_num_threads)
    if process.ops:
        _deterministic(module, process)
    process.write()


def _deterministic(module: Any, process: Process) -> None:
    process.switch(
        "torch.use_deterministic_algorithms",
        True,
        lambda: module.use_deterministic_algorithms(True),
        module.are_deterministic_algorithms_enabled,
    )
    for name, wanted in (("benchmark", False), ("deterministic", True)):
        process.switch(
            f"torch.backends.cudnn.{name}",
            wanted,
            lambda name=name, wanted=wanted: setattr(module.backends.cudnn, name, wanted),  # type: ignore[misc]
            lambda name=name: getattr(module.backends.cudnn, name),  # type: ignore[misc]
        )


def _seed(module: Any, process: Process) -> None:
    """Seed all devices; CUDA's seed is kept until CUDA is initialised, and left alone in a forked child."""
    seed = process.seed("torch")
    process.switch("torch.manual_seed", seed, lambda: module.manual_seed(seed), module.initial_seed)
