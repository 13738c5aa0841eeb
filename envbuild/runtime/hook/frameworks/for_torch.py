"""PyTorch: seed, threads, deterministic algorithms, no benchmarking. No variable exists for these."""

from __future__ import annotations

from _functools import partial  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..process import Process


_ATTRIBUTES = {
    "backends.cudnn.benchmark": False,
    "backends.cudnn.deterministic": True,
    "backends.cudnn.allow_tf32": False,
    "backends.cuda.matmul.allow_tf32": False,
}
"""Attribute to its value. TF32 (10 bits of mantissa) is on by default in convolutions, on GPUs that have it."""


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
    for path, wanted in _ATTRIBUTES.items():
        owner_path, _, name = path.rpartition(".")
        owner = module
        for part in owner_path.split("."):
            owner = getattr(owner, part, None)
        if hasattr(owner, name):
            put, get = partial(setattr, owner, name, wanted), partial(getattr, owner, name)
            process.switch(f"torch.{path}", wanted, put, get)


def _seed(module: Any, process: Process) -> None:
    """Seed all devices; CUDA's seed is kept until CUDA is initialised, and left alone in a forked child."""
    seed = process.seed("torch")
    process.switch("torch.manual_seed", seed, lambda: module.manual_seed(seed), module.initial_seed)
