"""PyTorch: seed, threads, deterministic algorithms, no benchmarking, full precision. No variable exists for these."""

from __future__ import annotations

from .. import refusals
from ..switching import Absent, Access, apply, attribute

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..process import Process


def set_up(module: Any, process: Process) -> None:
    """Set every switch right after the import."""
    process.modules["torch"] = module
    refusals.watch(process)
    apply("torch", module, process, ACCESS, str(getattr(module, "__version__", "")))
    if any(entry["name"] == _INTEROP for entry in process.switches):
        _answer(module, process)
    process.write()


def _answer(module: Any, process: Process) -> None:
    """PyTorch takes the number once and raises at a second call: the program's own must not end it."""
    original = module.set_num_interop_threads

    def set_num_interop_threads(number: int) -> None:
        if number != module.get_num_interop_threads():
            process.warn(f"{_INTEROP}({number}) comes too late: the locked {module.get_num_interop_threads()} stays")

    set_num_interop_threads.__wrapped__ = original  # type: ignore[attr-defined]
    set_num_interop_threads.__doc__ = original.__doc__
    set_num_interop_threads.__module__ = "torch"
    set_num_interop_threads.__qualname__ = "set_num_interop_threads"
    module.set_num_interop_threads = set_num_interop_threads


def _mkl_threads(module: Any) -> str:
    _, found, rest = module.__config__.parallel_info().partition("mkl_get_max_threads() : ")
    if not found:
        raise Absent
    return str(rest.split("\n")[0].strip())


_INTEROP = "torch.set_num_interop_threads"
_ATTRIBUTES = (
    "torch.utils.deterministic.fill_uninitialized_memory",
    "torch.backends.cudnn.benchmark",
    "torch.backends.cudnn.deterministic",
    "torch.backends.cudnn.allow_tf32",
    "torch.backends.cuda.matmul.allow_tf32",
    "torch.backends.cudnn.conv.fp32_precision",
    "torch.backends.cudnn.rnn.fp32_precision",
    "torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction",
    "torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction",
)
ACCESS = {
    # All devices; CUDA's seed is kept until CUDA is initialised, and left alone in a forked child.
    "torch.manual_seed": Access(
        lambda module, value: module.manual_seed(value),
        lambda module, wanted: module.initial_seed(),
        generator="torch",
        draw=lambda module: str(module.initial_seed()),
    ),
    "torch.set_num_threads": Access(
        lambda module, value: module.set_num_threads(value), lambda module, wanted: module.get_num_threads()
    ),
    _INTEROP: Access(
        lambda module, value: module.set_num_interop_threads(value),
        lambda module, wanted: module.get_num_interop_threads(),
    ),
    "mkl_get_max_threads": Access(None, lambda module, wanted: _mkl_threads(module)),
    "torch.use_deterministic_algorithms": Access(
        lambda module, value: module.use_deterministic_algorithms(value),
        lambda module, wanted: module.are_deterministic_algorithms_enabled(),
    ),
    "torch.set_float32_matmul_precision": Access(
        lambda module, value: module.set_float32_matmul_precision(value),
        lambda module, wanted: module.get_float32_matmul_precision(),
    ),
    "torch.backends.cpu.get_cpu_capability": Access(
        None, lambda module, wanted: module.backends.cpu.get_cpu_capability().lower()
    ),
    **{name: attribute(name) for name in _ATTRIBUTES},
}
