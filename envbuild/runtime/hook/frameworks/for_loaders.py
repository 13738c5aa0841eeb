"""PyTorch's ``DataLoader`` with workers, in an experiment with tasks in order (fix_order.py): one batch at a time.

Workers make batches ahead of the program, which may change meanwhile what they read: memory that they share, files. In
the experiment a worker is given its next batch when the program wants it. Streams (``IterableDataset``) are not waited
for: a worker has to be given more to say that it has no more.
"""

from __future__ import annotations

import sys

from .for_pools import ORDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..process import Process

_DUE = "_envbuild_due"
"""Attribute of an iterator: batches that its workers would have been given by now."""


def set_up(module: Any, process: Process) -> None:
    """Have a batch made when it is wanted; ``module`` is ``torch.utils.data.dataloader``."""
    if ORDER not in sys.modules:
        return
    kind = module._MultiProcessingDataLoaderIter
    begin, put, following = kind.__init__, kind._try_put_index, kind._next_data

    def initialize(self: Any, *arguments: Any, **options: Any) -> None:
        sys.modules[ORDER].noted("torch.utils.data.DataLoader", sys._getframe(1))
        begin(self, *arguments, **options)

    def _try_put_index(self: Any) -> None:
        if self._dataset_kind == module._DatasetKind.Map:
            setattr(self, _DUE, getattr(self, _DUE, 0) + 1)
        else:
            put(self)

    def _next_data(self: Any) -> Any:
        if getattr(self, _DUE, 0) and not self._tasks_outstanding:
            setattr(self, _DUE, getattr(self, _DUE) - 1)
            put(self)
        return following(self)

    kind.__init__, kind._try_put_index, kind._next_data = initialize, _try_put_index, _next_data
