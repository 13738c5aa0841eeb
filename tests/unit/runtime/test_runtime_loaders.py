"""Workers of ``DataLoader`` in an experiment with tasks in order (hook/frameworks/for_loaders.py)."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from envbuild.runtime.hook.frameworks import for_loaders


def dataloader() -> Any:
    """A module with the parts of ``torch.utils.data.dataloader`` that count: workers make what they are given."""
    module: Any = types.SimpleNamespace(_DatasetKind=types.SimpleNamespace(Map=0, Iterable=1))

    class _MultiProcessingDataLoaderIter:
        def __init__(self, kind: int, make: Callable[[int], Any], ahead: int = 4) -> None:
            self._dataset_kind, self.make, self.indices = kind, make, iter(range(6))
            self._tasks_outstanding, self.made = 0, list[Any]()
            for _ in range(ahead):
                self._try_put_index()

        def _try_put_index(self) -> None:
            index = next(self.indices, None)
            if index is not None:
                self._tasks_outstanding += 1
                self.made.append(self.make(index))

        def _next_data(self) -> Any:
            if not self.made:
                raise StopIteration
            self._tasks_outstanding -= 1
            data = self.made.pop(0)
            self._try_put_index()
            return data

        def __iter__(self) -> Iterator[Any]:
            return self

        def __next__(self) -> Any:
            return self._next_data()

    module._MultiProcessingDataLoaderIter = _MultiProcessingDataLoaderIter
    return module


def seen(module: Any, kind: int) -> list[tuple[int, int]]:
    """Return, of each batch, its number and the step at which it was made."""
    batches: list[tuple[int, int]] = []
    for batch in module._MultiProcessingDataLoaderIter(kind, lambda index: (index, len(batches))):
        batches.append(batch)
    return batches


def test_a_batch_is_made_when_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each after the step before it, and all of them; a stream's workers go on as ever. The line is noted."""
    noted: list[str] = []
    order: Any = types.ModuleType("fix_order")
    order.noted = lambda call, frame: noted.append(f"{call} {frame.f_code.co_name}")
    monkeypatch.setitem(sys.modules, for_loaders.ORDER, order)
    module, process = dataloader(), Any
    for_loaders.set_up(module, process)  # type: ignore[arg-type]
    assert seen(module, module._DatasetKind.Map) == [(number, number) for number in range(6)]
    assert noted == ["torch.utils.data.DataLoader seen"]
    assert seen(module, module._DatasetKind.Iterable) == seen(dataloader(), 1) != [(n, n) for n in range(6)]


def test_without_an_experiment_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers make batches ahead."""
    monkeypatch.delitem(sys.modules, for_loaders.ORDER, raising=False)
    module = dataloader()
    for_loaders.set_up(module, Any)  # type: ignore[arg-type]
    assert seen(module, module._DatasetKind.Map)[:4] == [(number, 0) for number in range(4)]
