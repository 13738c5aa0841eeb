"""TensorFlow: the global seed, threads, op determinism (2.8 and later; before, variables do it), TF32 off."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..process import Process


def set_up(module: Any, process: Process) -> None:
    """Set every switch right after the import: nothing of TensorFlow's runtime has been initialised yet."""
    process.modules["tensorflow"] = module
    process.seeds("tensorflow", lambda process: _seed(module, process))
    threads = process.config.THREADS
    for kind in ("intra", "inter"):
        put = getattr(module.config.threading, f"set_{kind}_op_parallelism_threads")
        get = getattr(module.config.threading, f"get_{kind}_op_parallelism_threads")
        name = f"tf.config.threading.set_{kind}_op_parallelism_threads"
        process.switch(name, threads, lambda put=put: put(threads), get)  # type: ignore[misc]
    if process.ops:
        _deterministic(module, process)
    process.write()


def _deterministic(module: Any, process: Process) -> None:
    experimental = module.config.experimental
    if hasattr(experimental, "enable_op_determinism"):
        from tensorflow.python.framework import config

        process.switch(
            "tf.config.experimental.enable_op_determinism",
            True,
            experimental.enable_op_determinism,
            config.is_op_determinism_enabled,
        )
    if hasattr(experimental, "enable_tensor_float_32_execution"):
        process.switch(
            "tf.config.experimental.enable_tensor_float_32_execution",
            False,
            lambda: experimental.enable_tensor_float_32_execution(False),
            experimental.tensor_float_32_execution_enabled,
        )


def _seed(module: Any, process: Process) -> None:
    """Set the global seed. A forked child of an initialised runtime is left alone: touching it could hang."""
    from tensorflow.python.eager import context

    if getattr(context.context(), "_context_handle", None) is None:
        seed = process.seed("tensorflow")
        process.switch("tf.random.set_seed", seed, lambda: module.random.set_seed(seed), context.global_seed)
