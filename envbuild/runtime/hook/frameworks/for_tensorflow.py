"""TensorFlow: the global seed, threads, op determinism (2.8 and later; before, variables do it), TF32 off."""

from __future__ import annotations

from .. import refusals
from ..switching import Access, apply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..process import Process


def set_up(module: Any, process: Process) -> None:
    """Set every switch right after the import: nothing of TensorFlow's runtime has been initialised yet."""
    process.modules["tensorflow"] = module
    refusals.watch(process)
    apply("tensorflow", module, process, ACCESS, str(getattr(module, "__version__", "")))
    process.write()


def _context() -> Any:
    from tensorflow.python.eager import context

    return context


def _untouched(module: Any) -> bool:
    """A forked child of an initialised runtime is left alone: touching it could hang."""
    return getattr(_context().context(), "_context_handle", None) is None


def _deterministic() -> bool:
    from tensorflow.python.framework import config

    return bool(config.is_op_determinism_enabled())


ACCESS = {
    "tf.random.set_seed": Access(
        lambda module, value: module.random.set_seed(value),
        lambda module, wanted: _context().global_seed(),
        generator="tensorflow",
        ready=_untouched,
    ),
    "tf.config.threading.set_intra_op_parallelism_threads": Access(
        lambda module, value: module.config.threading.set_intra_op_parallelism_threads(value),
        lambda module, wanted: module.config.threading.get_intra_op_parallelism_threads(),
    ),
    "tf.config.threading.set_inter_op_parallelism_threads": Access(
        lambda module, value: module.config.threading.set_inter_op_parallelism_threads(value),
        lambda module, wanted: module.config.threading.get_inter_op_parallelism_threads(),
    ),
    "tf.config.experimental.enable_op_determinism": Access(
        lambda module, value: module.config.experimental.enable_op_determinism(),
        lambda module, wanted: _deterministic(),
    ),
    "tf.config.experimental.enable_tensor_float_32_execution": Access(
        lambda module, value: module.config.experimental.enable_tensor_float_32_execution(value),
        lambda module, wanted: module.config.experimental.tensor_float_32_execution_enabled(),
    ),
}
