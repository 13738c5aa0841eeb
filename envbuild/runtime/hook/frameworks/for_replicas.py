"""Where frameworks cut batches for replicas: an uneven cut is warned of, once (replicas.py has the reason)."""

from __future__ import annotations

from .. import replicas

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..process import Process


def set_up_tensorflow(module: Any, process: Process) -> None:
    """Watch the data sets that strategies distribute: Keras' and those of hand-written loops."""

    def look(strategy: Any, dataset: Any, *_: Any, **__: Any) -> None:
        count = strategy.num_replicas_in_sync
        if count > 1:
            batch, tail = _batch_of(dataset)
            _say(process, batch, tail, count)

    _before(module.StrategyBase, "experimental_distribute_dataset", look, process)


def set_up_keras(module: Any, process: Process) -> None:
    """Watch how Keras 3 splits arrays: it cuts them without a batching data set."""

    def look(iterator: Any, *_: Any, **__: Any) -> None:
        _adapted(process, iterator._distribute_strategy, iterator.data_adapter)

    _after(module.TFEpochIterator, "__init__", look, process)


def set_up_keras_2(module: Any, process: Process) -> None:
    """Watch how Keras 2 splits arrays."""

    def look(handler: Any, *_: Any, **__: Any) -> None:
        from tensorflow import distribute

        _adapted(process, distribute.get_strategy(), handler._adapter)

    _after(module.DataHandler, "__init__", look, process)


def set_up_sampler(module: Any, process: Process) -> None:
    """Watch data sets whose length the processes cannot share evenly; only rank 0 prints it."""

    def look(sampler: Any, *_: Any, **__: Any) -> None:
        found = replicas.uneven_examples(len(sampler.dataset), sampler.num_replicas, bool(sampler.drop_last))
        if found and sampler.rank and found not in process.warnings:
            process.warnings.append(found)
        _warn(process, found)

    _after(module.DistributedSampler, "__init__", look, process)


def set_up_data_parallel(module: Any, process: Process) -> None:
    """Watch the batches that ``DataParallel`` scatters over the GPUs of one process."""

    def look(parallel: Any, inputs: Any, kwargs: Any, device_ids: Any, *_: Any, **__: Any) -> None:
        count = len(device_ids)
        sizes = [value.shape[parallel.dim] for value in [*inputs, *(kwargs or {}).values()] if hasattr(value, "chunk")]
        if count > 1 and sizes:
            batch = int(sizes[0])
            _warn(process, replicas.uneven_batch("DataParallel", batch, replicas.chunk(batch, count), count))

    _before(module.DataParallel, "scatter", look, process)


def _adapted(process: Process, strategy: Any, adapter: Any) -> None:
    """Look at what one of Keras' data adapters knows of itself; in Keras 2 its facts are methods."""
    count = getattr(strategy, "num_replicas_in_sync", 1)
    if count > 1:
        batch, tail = (
            value() if callable(value) else value
            for value in (getattr(adapter, "batch_size", 0), getattr(adapter, "partial_batch_size", 0))
        )
        _say(process, _number(batch), _number(tail), count)


def _batch_of(dataset: Any) -> tuple[int, int]:
    """Return batch size and size of the last batch of a ``tf.data`` data set; 0 for what is not known."""
    from tensorflow import executing_eagerly

    if not executing_eagerly():
        return 0, 0
    for _ in range(64):
        if type(dataset).__name__.endswith("BatchDataset") and hasattr(dataset, "_batch_size"):
            batch = int(dataset._batch_size)
            before = int(dataset._input_dataset.cardinality())
            whole = before < 0 or bool(getattr(dataset, "_drop_remainder", True))
            return batch, 0 if whole else before % batch
        dataset = getattr(dataset, "_input_dataset", None)
        if dataset is None:
            break
    return 0, 0


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _say(process: Process, batch: int, tail: int, count: int) -> None:
    _warn(process, replicas.uneven_batch("tf.distribute", batch, replicas.split(batch, count), count))
    _warn(process, replicas.uneven_tail("tf.distribute", tail, batch, count))


def _warn(process: Process, found: str) -> None:
    if found and found not in process.warnings:
        process.warn(found)
        process.write()


def _before(owner: Any, name: str, look: Callable[..., None], process: Process) -> None:
    original = getattr(owner, name)

    def watched(self: Any, *arguments: Any, **options: Any) -> Any:
        process.guarded("replicas", lambda: look(self, *arguments, **options), vital=False)
        return original(self, *arguments, **options)

    _replace(owner, name, original, watched)


def _after(owner: Any, name: str, look: Callable[..., None], process: Process) -> None:
    original = getattr(owner, name)

    def watched(self: Any, *arguments: Any, **options: Any) -> Any:
        result = original(self, *arguments, **options)
        process.guarded("replicas", lambda: look(self, *arguments, **options), vital=False)
        return result

    _replace(owner, name, original, watched)


def _replace(owner: Any, name: str, original: Any, new: Any) -> None:
    new.__wrapped__, new.__name__, new.__qualname__ = original, name, getattr(original, "__qualname__", name)
    new.__module__, new.__doc__ = original.__module__, original.__doc__
    setattr(owner, name, new)
