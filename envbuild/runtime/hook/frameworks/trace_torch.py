"""The step trace of PyTorch: a hook that all optimisers call after their step (2.0 and later).

Names come from the modules that hold the parameters: at an optimiser's first step they are looked for among the
objects that Python keeps. No module is given a hook, which could change what ``torch.compile`` compiles.

Epoch and place come from the ``DataLoader`` that was last begun: its passes, and its batches in this pass. The batches
that loaders gave since the step before are digested, so that other data are distinguished from other arithmetic.
"""

from __future__ import annotations

import sys
from functools import partial, wraps
from weakref import WeakKeyDictionary

from .. import trace, trace_tensors
from ..trace_measure import splitmix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from ..process import Process
    from ..trace import Tracer


def set_up(module: Any, process: Process) -> None:
    """Watch all optimisers, and the loaders of data."""
    watch = _Watch(module, trace.tracer(process))
    optimizer = sys.modules["torch.optim.optimizer"]
    optimizer.register_optimizer_step_pre_hook(watch.before)
    optimizer.register_optimizer_step_post_hook(watch.after)
    loader = sys.modules.get("torch.utils.data.dataloader")
    if loader is not None:
        loader.DataLoader.__iter__ = _around(loader.DataLoader.__iter__, watch.begun)
        kind = loader._BaseDataLoaderIter
        kind.__next__ = kind.next = _around(kind.__next__, watch.given)


def _around(original: Any, after: Callable[[Any, Any], None]) -> Any:
    """Have ``after`` called with the object and what its method returned."""

    @wraps(original)
    def wrapper(self: Any, *arguments: Any, **options: Any) -> Any:
        result = original(self, *arguments, **options)
        after(self, result)
        return result

    return wrapper


class _Watch:
    """What is known between the steps of one process."""

    def __init__(self, torch: Any, tracer: Tracer) -> None:
        self.torch, self.tracer = torch, tracer
        self.names: WeakKeyDictionary[Any, tuple[list[int], list[str]]] = WeakKeyDictionary()
        self.labels: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        self.passes: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self.epoch: int | None = None
        self.place = 0
        self.batch: int | None = None
        self.used = False

    def begun(self, loader: Any, iterator: Any) -> None:
        """Count a pass over a loader's data."""
        self.epoch = self.passes[loader] = self.passes.get(loader, 0) + 1
        self.place = 0

    def given(self, iterator: Any, batch: Any) -> None:
        """Digest a batch, together with the others of one step; all optimisers that make a step then have it."""
        self.place += 1
        self.tracer.guarded(lambda: self._add(batch))

    def before(self, optimizer: Any, arguments: Any, options: Any) -> None:
        """Enter the parameters as they are before the first step."""
        if not self._compiling():
            self.tracer.initial("torch.optim", self._label(optimizer), partial(self._read, optimizer))

    def after(self, optimizer: Any, arguments: Any, options: Any) -> None:
        """Enter a step."""
        if self._compiling():
            return
        batch = self._batch()
        self.tracer.step(
            "torch.optim",
            self._label(optimizer),
            partial(self._read, optimizer),
            epoch=self.epoch,
            place=self.place,
            batch=lambda: batch,
        )

    def _compiling(self) -> bool:
        compiler = getattr(self.torch, "compiler", None)
        return bool(compiler is not None and hasattr(compiler, "is_compiling") and compiler.is_compiling())

    def _add(self, batch: Any) -> None:
        if self.used:
            self.batch, self.used = None, False
        found = [tensor for tensor in _tensors(batch, 0) if tensor.device.type == "cpu"]
        if found and sum(tensor.numel() * tensor.element_size() for tensor in found) <= trace.BATCH_SIZE:
            digest = self.tracer.digest(found)
            self.batch = digest if self.batch is None else splitmix(self.batch ^ digest)

    def _batch(self) -> int | None:
        self.used = True
        return self.batch

    def _label(self, optimizer: Any) -> str:
        """Return the optimiser's class, numbered if it is not the first of it."""
        label = self.labels.get(optimizer)
        if label is None:
            label = self.labels[optimizer] = self.tracer.label(type(optimizer).__name__)
        return label

    def _read(self, optimizer: Any) -> Iterator[tuple[str, Any]]:
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        numbers = [id(parameter) for parameter in parameters]
        known = self.names.get(optimizer)
        if known is None or known[0] != numbers:
            known = self.names[optimizer] = (numbers, _names(self.torch, parameters))
        for name, parameter in zip(known[1], parameters):
            yield name, trace_tensors.local(parameter)


def _tensors(value: Any, depth: int) -> Iterator[Any]:
    """Yield the tensors of a batch."""
    if isinstance(value, (list, tuple)) and depth < 4:
        for part in value:
            yield from _tensors(part, depth + 1)
    elif isinstance(value, dict) and depth < 4:
        for part in value.values():
            yield from _tensors(part, depth + 1)
    elif hasattr(value, "detach") and hasattr(value, "element_size"):
        yield value.detach()


def _names(torch: Any, parameters: list[Any]) -> list[str]:
    """Name parameters as the modules do that hold them, each after the outermost module that has it.

    If the parameters belong to several such modules their names begin with the module's class, numbered in the order
    of the parameters. A parameter that no module has is called by its place.
    """
    import gc

    modules = [thing for thing in gc.get_objects() if issubclass(type(thing), torch.nn.Module)]
    inner = {id(child) for module in modules for child in module._modules.values()}
    wanted = {id(parameter) for parameter in parameters}
    holders: list[dict[int, str]] = []
    kinds = []
    for module in modules:
        if id(module) not in inner:
            held = {id(value): name for name, value in module.named_parameters() if id(value) in wanted}
            if held:
                holders.append(held)
                kinds.append(type(module).__name__)
    # The one that has most of them: a wrapper that was given parts of a model comes after the model itself.
    order = sorted(range(len(holders)), key=lambda place: -len(holders[place]))
    prefixes: dict[int, str] = {}
    counts: dict[str, int] = {}
    found: list[tuple[int, str]] = []
    for place, parameter in enumerate(parameters):
        holder = next((each for each in order if id(parameter) in holders[each]), -1)
        if holder >= 0 and holder not in prefixes:
            number = counts[kinds[holder]] = counts.get(kinds[holder], 0) + 1
            prefixes[holder] = f"{kinds[holder]}{f' {number}' if number > 1 else ''}."
        found.append((holder, holders[holder][id(parameter)] if holder >= 0 else f"parameter {place}"))
    if len(prefixes) < 2:
        return [name for _, name in found]
    return [prefixes.get(holder, "") + name for holder, name in found]
