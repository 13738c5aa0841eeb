"""How TensorFlow, JAX, Horovod and DeepSpeed add values up over ranks: recorded, since it decides how sums round.

PyTorch's own wrapper is in ``for_buckets``. What a library cannot do in one order is warned of: nothing here sets it.

- TensorFlow: ``MultiWorkerMirroredStrategy`` packs gradients by ``bytes_per_pack`` and adds them up by the ring of its
  own or NCCL (``tensorflow/python/distribute/collective_util.py``; tensorflow/tensorflow#121429).
  ``ParameterServerStrategy`` applies gradients in the order in which they arrive.
- JAX: the library that carries sums between processes on CPUs (``jax_cpu_collectives_implementation``).
- Horovod fuses messages up to ``HOROVOD_FUSION_THRESHOLD`` bytes that are ready in one cycle: a matter of time.
- DeepSpeed: with ``overlap_comm`` ZeRO 1 and 2 add gradients up on a second stream while they are made
  (deepspeedai/DeepSpeed#5523, #2868).
"""

from __future__ import annotations

import os
from functools import wraps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..process import Process

_MOST = 20
"""Strategies and engines that are recorded."""
_ZERO = ("allgather_bucket_size", "contiguous_gradients", "overlap_comm", "reduce_bucket_size", "stage")


def set_up_mirrored(module: Any, process: Process) -> None:
    """Record how each ``MultiWorkerMirroredStrategy`` adds up."""

    def look(strategy: Any) -> None:
        options = strategy._communication_options
        implementation = getattr(options.implementation, "value", options.implementation)
        pieces, workers = int(options.bytes_per_pack), int(strategy._num_workers)
        settings: dict[str, bool | int | str] = {
            "bytes_per_pack": pieces,
            "implementation": str(implementation),
            "workers": workers,
        }
        _record(process, "MultiWorkerMirroredStrategy", settings)

    _after(module.CollectiveAllReduceExtended, "__init__", look, process)


def set_up_parameter_servers(module: Any, process: Process) -> None:
    """Warn of strategies with parameter servers."""

    def look(strategy: Any) -> None:
        process.warn(
            "ParameterServerStrategy applies gradients in the order in which they arrive: results differ from run to "
            "run; use MultiWorkerMirroredStrategy"
        )

    _after(module.ParameterServerStrategyV2, "__init__", look, process)


def set_up_jax(module: Any, process: Process) -> None:
    """Record what carries sums between processes once they have met."""

    def look(state: Any) -> None:
        config = process.modules["jax"].config
        collectives = str(getattr(config, "jax_cpu_collectives_implementation", "") or "none")
        _record(process, "jax.distributed", {"collectives on CPUs": collectives, "processes": int(state.num_processes)})

    _after(module.State, "initialize", look, process)


def set_up_horovod(module: Any, process: Process) -> None:
    """Record the size of fused messages; warn if there are any."""
    threshold = os.environ.get("HOROVOD_FUSION_THRESHOLD", "")
    _record(process, "Horovod", {"fusion threshold": threshold or "default"})
    if threshold != "0":
        process.warn(
            "Horovod fuses the messages that are ready at the same time: sums differ from run to run; "
            'env: {HOROVOD_FUSION_THRESHOLD: "0"} in spec.yaml'
        )


def set_up_deepspeed(module: Any, process: Process) -> None:
    """Record the settings of ZeRO of each engine; warn where its sums depend on time."""

    def look(engine: Any) -> None:
        zero = engine._config.zero_config
        settings = {name: getattr(zero, name, None) for name in _ZERO}
        plain = {name: value if isinstance(value, (bool, int)) else str(value) for name, value in settings.items()}
        _record(process, "DeepSpeed", {f"zero.{name}": value for name, value in plain.items()})
        if settings["overlap_comm"] and int(settings["stage"] or 0) in (1, 2):
            process.warn(
                "DeepSpeed adds gradients up while they are made (overlap_comm): results differ from run to run; "
                '"overlap_comm": false in zero_optimization'
            )

    _after(module.DeepSpeedEngine, "__init__", look, process)


def _record(process: Process, kind: str, settings: dict[str, bool | int | str]) -> None:
    if len(process.parallel) < _MOST:
        process.parallel.append({"kind": kind, "settings": settings})
        process.write()


def _after(owner: Any, name: str, look: Callable[[Any], None], process: Process) -> None:
    """Call ``look`` with the object after each call of one of its methods; what goes wrong in it is a warning."""
    original = getattr(owner, name)

    @wraps(original)
    def wrapped(self: Any, *arguments: Any, **options: Any) -> Any:
        result = original(self, *arguments, **options)
        process.guarded(f"{owner.__name__}.{name}", lambda: look(self), vital=False)
        return result

    setattr(owner, name, wrapped)
