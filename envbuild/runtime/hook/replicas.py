"""Batches that do not divide evenly over replicas (GPUs, or processes of a distributed job).

The replicas then work on unequal parts, which weigh the same or another number of times in sums and means over
replicas, and another number of replicas gives other numbers. The sentences are made here, from plain numbers; what
knows the numbers is in ``frameworks/for_replicas.py``. A single replica is not reported.
"""

from __future__ import annotations


def split(batch: int, replicas: int) -> list[int]:
    """Return the parts that TensorFlow makes of a batch (tensorflow/python/data/experimental/ops/distribute.py)."""
    size, more = divmod(batch, replicas)
    return [size + 1] * more + [size] * (replicas - more)


def chunk(batch: int, replicas: int) -> list[int]:
    """Return the parts that ``torch.Tensor.chunk`` makes: the last one smaller, and perhaps fewer than asked for."""
    size = -(-batch // replicas)
    return [min(size, batch - start) for start in range(0, batch, size)] if batch else []


def uneven_batch(owner: str, batch: int, parts: list[int], replicas: int) -> str:
    """Say that a batch falls into unequal parts; empty if it does not.

    Args:
        owner: who cuts it, as the script's writer calls it.
        batch: examples in a batch over all replicas.
        parts: examples for each replica.
        replicas: their number.
    """
    if replicas < 2 or batch < 1 or batch % replicas == 0:
        return ""
    shares = ", ".join(map(str, [*parts, *[0] * (replicas - len(parts))][:8])) + (", …" if replicas > 8 else "")
    return (
        f"{owner}: a batch of {batch} does not divide evenly over {replicas} replicas ({shares}): they weigh unequal "
        f"parts alike, and another number of replicas gives other numbers — take a multiple of {replicas}"
    )


def uneven_tail(owner: str, tail: int, batch: int, replicas: int) -> str:
    """Say that the last, smaller batch of an epoch falls into unequal parts; empty if there is none, or it does not.

    Args:
        owner: who cuts it.
        tail: examples in the last batch; 0 if it is a whole one.
        batch: examples in the others.
        replicas: number of replicas.
    """
    if replicas < 2 or tail < 1 or batch % replicas or tail % replicas == 0:
        return ""
    return (
        f"{owner}: the last batch of each epoch has {tail} of {batch} examples, which do not divide evenly over "
        f"{replicas} replicas — drop the remainder, or take a batch size that leaves none"
    )


def uneven_examples(examples: int, replicas: int, drop_last: bool) -> str:
    """Say that PyTorch's ``DistributedSampler`` repeats or leaves out examples; empty if it does not.

    Args:
        examples: in the data set.
        replicas: processes that share it.
        drop_last: whether the rest is left out instead of filled up.
    """
    rest = examples % replicas if replicas > 1 else 0
    if not rest:
        return ""
    count = rest if drop_last else replicas - rest
    what = "left out of" if drop_last else "taken twice in"
    number = "1 example is" if count == 1 else f"{count} examples are"
    return (
        f"DistributedSampler: {examples} examples do not divide evenly over {replicas} replicas: {number} {what} each "
        "epoch, and another number of replicas gives other numbers"
    )
