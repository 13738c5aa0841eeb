"""Uneven batches: when they are warned of, and when nothing is reported."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from envbuild.runtime.hook import replicas
from envbuild.runtime.hook.frameworks import for_replicas


@pytest.mark.parametrize(
    ("batch", "count", "split", "chunk"),
    [(7, 2, [4, 3], [4, 3]), (5, 4, [2, 1, 1, 1], [2, 2, 1]), (8, 4, [2] * 4, [2] * 4), (0, 2, [0, 0], [])],
)
def test_parts(batch: int, count: int, split: list[int], chunk: list[int]) -> None:
    """TensorFlow's parts differ by at most one; PyTorch's are as large as the first allows, and may be fewer."""
    assert replicas.split(batch, count) == split
    assert replicas.chunk(batch, count) == chunk


def test_a_batch() -> None:
    """The sentence names who cuts, the parts and the way out; replicas without a part are shown as 0."""
    assert replicas.uneven_batch("DataParallel", 5, replicas.chunk(5, 4), 4) == (
        "DataParallel: a batch of 5 does not divide evenly over 4 replicas (2, 2, 1, 0): they weigh unequal parts "
        "alike, and another number of replicas gives other numbers — take a multiple of 4"
    )
    assert "(2, 1, 1, 1, 1, 1, 1, 1, …)" in replicas.uneven_batch("x", 17, replicas.split(17, 16), 16)


@pytest.mark.parametrize(("batch", "count"), [(7, 1), (8, 2), (0, 2), (-1, 2), (7, 0)])
def test_even_batches_are_not_reported(batch: int, count: int) -> None:
    """A single replica, an even batch and an unknown size are no cause."""
    assert replicas.uneven_batch("x", batch, [], count) == ""


def test_a_last_batch() -> None:
    """A tail that divides evenly is fine; where the whole batch does not divide, that alone is reported."""
    assert replicas.uneven_tail("tf.distribute", 1, 8, 2) == (
        "tf.distribute: the last batch of each epoch has 1 of 8 examples, which do not divide evenly over 2 replicas "
        "— drop the remainder, or take a batch size that leaves none"
    )
    assert [replicas.uneven_tail("x", *case) for case in ((2, 8, 2), (0, 8, 2), (1, 8, 1), (1, 7, 2))] == [""] * 4


def test_examples_for_ranks() -> None:
    """PyTorch's sampler takes examples twice, or leaves some out."""
    assert replicas.uneven_examples(61, 2, False) == (
        "DistributedSampler: 61 examples do not divide evenly over 2 replicas: 1 example is taken twice in each "
        "epoch, and another number of replicas gives other numbers"
    )
    assert "2 examples are left out of each epoch" in replicas.uneven_examples(62, 4, True)
    assert [replicas.uneven_examples(*case) for case in ((61, 1, False), (62, 2, True), (0, 2, False))] == [""] * 3


class Process:
    """Represents the process: keeps what is reported to it."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.aloud: list[str] = []

    def guarded(self, what: str, action: Any, *, vital: bool) -> None:
        assert (what, vital) == ("replicas", False)
        action()

    def warn(self, message: str) -> None:
        self.warnings.append(message)
        self.aloud.append(message)

    def write(self) -> None:
        pass


def test_data_parallel() -> None:
    """Each forward is looked at, and an uneven batch reported once; with one GPU nothing."""

    class DataParallel:
        dim = 0

        def scatter(self, inputs: Any, kwargs: Any, device_ids: Any) -> str:
            """Scatter."""
            return "scattered"

    reported: Any = Process()
    for_replicas.set_up_data_parallel(SimpleNamespace(DataParallel=DataParallel), reported)
    batch = SimpleNamespace(shape=(7, 3), chunk=None)
    assert DataParallel().scatter((batch,), {}, [0]) == "scattered"
    assert reported.warnings == []
    for _ in range(2):
        assert DataParallel().scatter((), {"x": batch, "flag": True}, [0, 1]) == "scattered"
    assert [text[:52] for text in reported.aloud] == ["DataParallel: a batch of 7 does not divide evenly ov"]
    assert DataParallel.scatter.__doc__ == "Scatter."


def test_only_the_first_rank_speaks() -> None:
    """Every rank records the warning; rank 0 alone writes to standard error."""

    class DistributedSampler:
        def __init__(self, dataset: Any, rank: int) -> None:
            self.dataset, self.num_replicas, self.rank, self.drop_last = dataset, 2, rank, False

    first, second = Process(), Process()
    original = DistributedSampler.__init__
    for reported, rank in ((first, 0), (second, 1)):
        DistributedSampler.__init__ = original  # type: ignore[method-assign]
        for_replicas.set_up_sampler(SimpleNamespace(DistributedSampler=DistributedSampler), reported)  # type: ignore[arg-type]
        DistributedSampler([1, 2, 3], rank)
    assert (len(first.warnings), len(first.aloud)) == (1, 1)
    assert (len(second.warnings), len(second.aloud)) == (1, 0)


def test_keras_2() -> None:
    """Keras 2 returns batch size and tail by methods, Keras 3 by attributes, and neither always knows."""
    reported: Any = Process()
    two = SimpleNamespace(num_replicas_in_sync=2)
    for adapter in (
        SimpleNamespace(batch_size=lambda: 8, partial_batch_size=lambda: 3),
        SimpleNamespace(batch_size=8, partial_batch_size=3),
        SimpleNamespace(batch_size=None, partial_batch_size=None),
        SimpleNamespace(),
    ):
        for_replicas._adapted(reported, two, adapter)
    for_replicas._adapted(reported, SimpleNamespace(num_replicas_in_sync=1), SimpleNamespace(batch_size=7))
    assert [text[:40] for text in reported.warnings] == ["tf.distribute: the last batch of each ep"]
