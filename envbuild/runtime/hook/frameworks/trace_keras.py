"""The step trace of Keras 2 and 3, on all its backends.

- ``fit`` is entered where Keras calls its callbacks, after them: epoch, place in the epoch and logs are known there.
  No callback is added, which could change how Keras runs the others.
- A loop of one's own is entered after ``Optimizer.apply``, if that ran eagerly. If it was traced into a
  ``tf.function`` nothing is put into the graph: whenever an outermost ``tf.function`` returns and the optimiser has
  counted further, the tensors are entered; several steps within one call are one entry.
- ``train_on_batch`` is entered when it returns.

Steps inside ``jax.jit`` are seen by ``fit`` and ``train_on_batch`` alone; the program can enter others itself
(``trace_program``).
"""

from __future__ import annotations

import sys
from functools import partial, wraps
from weakref import WeakKeyDictionary

from .. import trace
from .trace_variables import all_variables, counted, current, is_eager, is_initialised, is_stateless, read, read_numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from ..process import Process
    from ..trace import Tracer


def set_up(module: Any, process: Process) -> None:
    """Watch Keras's own loop and its optimisers."""
    watch = _Watch(trace.tracer(process))
    _wrap(module.Model, "fit", watch.around_fit)
    _wrap(module.Model, "train_on_batch", watch.around_train_on_batch)
    for name in ("on_train_begin", "on_epoch_begin", "on_train_batch_end"):
        _wrap(module.callbacks.CallbackList, name, getattr(watch, name))
    legacy = getattr(module.optimizers, "legacy", None)
    for optimizers in (module.optimizers, legacy, getattr(module.optimizers, "experimental", None)):
        kind = getattr(optimizers, "Optimizer", None)
        if hasattr(kind, "apply"):
            _wrap(kind, "apply", watch.around_apply)
        elif kind is not None:
            _wrap(kind, "apply_gradients", watch.around_apply_gradients)
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is not None and hasattr(tensorflow, "function"):
        _wrap(type(tensorflow.function(lambda: None)), "__call__", watch.around_function)


def _wrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    """Have ``around`` called with the method and its arguments, in the class of the line that defines it."""
    kind = next((kind for kind in owner.__mro__ if name in vars(kind)), None)
    if kind is None or hasattr(vars(kind)[name], "envbuild_trace"):
        return
    original = vars(kind)[name]

    @wraps(original)
    def wrapper(self: Any, *arguments: Any, **options: Any) -> Any:
        return around(partial(original, self), self, *arguments, **options)

    wrapper.envbuild_trace = True  # type: ignore[attr-defined]
    setattr(kind, name, wrapper)


class _Fit:
    """One call of ``fit``, by its list of callbacks."""

    def __init__(self) -> None:
        self.epoch: int | None = None
        self.place = self.counted = 0
        self.variables: list[Any] = []


class _Watch:
    """What is known between the calls of one process.

    Attributes:
        depth: calls under way that are one step by themselves: steps of an optimiser within are not entered.
        compiled: optimisers that were put into a graph, with their variables and how far they had counted.
    """

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer
        self.depth = 0
        self.fits: WeakKeyDictionary[Any, _Fit] = WeakKeyDictionary()
        self.compiled: WeakKeyDictionary[Any, list[Any]] = WeakKeyDictionary()
        self.counts: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self.labels: WeakKeyDictionary[Any, str] = WeakKeyDictionary()

    def around_fit(self, original: Callable[..., Any], model: Any, *arguments: Any, **options: Any) -> Any:
        """Run ``fit``: ``on_train_batch_end`` enters its steps."""
        return self._within(original, *arguments, **options)

    def around_train_on_batch(self, original: Callable[..., Any], model: Any, *arguments: Any, **options: Any) -> Any:
        """Run ``train_on_batch``, and enter the model."""
        if self.depth:
            return original(*arguments, **options)
        self.tracer.guarded(lambda: self._before_batch(model))
        result = self._within(original, *arguments, **options)
        self.tracer.guarded(lambda: self._after_batch(model, (arguments, options)))
        return result

    def _before_batch(self, model: Any) -> None:
        if model.built:
            self.tracer.initial("keras.train_on_batch", self._label(model), lambda: read(all_variables(model), model))

    def _after_batch(self, model: Any, given: Any) -> None:
        batch = partial(_batch, self.tracer, given)
        variables = all_variables(model)
        self.tracer.step("keras.train_on_batch", self._label(model), lambda: read(variables, model), batch=batch)

    def on_train_begin(self, original: Callable[..., Any], callbacks: Any, *arguments: Any, **options: Any) -> Any:
        """Enter the initial weights."""
        result = original(*arguments, **options)
        self.fits[callbacks] = fit = _Fit()
        model = getattr(callbacks, "model", None)
        if model is not None and model.built:
            self.tracer.guarded(partial(self._begin, fit, model))
        return result

    def _begin(self, fit: _Fit, model: Any) -> None:
        fit.variables, fit.counted = all_variables(model), counted(model)
        self.tracer.initial("keras.fit", self._label(model), lambda: read(fit.variables, model))

    def on_epoch_begin(
        self, original: Callable[..., Any], callbacks: Any, epoch: int, *arguments: Any, **options: Any
    ) -> Any:
        """Remember the epoch; Keras counts from 0 and prints from 1."""
        fit = self.fits.setdefault(callbacks, _Fit())
        fit.epoch, fit.place = epoch + 1, 0
        return original(epoch, *arguments, **options)

    def on_train_batch_end(
        self, original: Callable[..., Any], callbacks: Any, batch: int, logs: Any = None, **options: Any
    ) -> Any:
        """Enter the model, after the program's own callbacks have had the step."""
        result = original(batch, logs, **options)
        model, fit = getattr(callbacks, "model", None), self.fits.setdefault(callbacks, _Fit())
        if model is not None:
            self.tracer.guarded(lambda: self._batch_end(fit, model, batch, logs))
        return result

    def _batch_end(self, fit: _Fit, model: Any, batch: int, logs: Any) -> None:
        fit.variables = fit.variables or all_variables(model)
        covers = max(batch + 1 - fit.place, 1)
        if getattr(model, "steps_per_execution", 1) > 1:  # the last batch of an epoch is counted as if it were full
            before, fit.counted = fit.counted, counted(model)
            covers = fit.counted - before if 0 < fit.counted - before <= covers else covers
        fit.place += covers
        self.tracer.step(
            "keras.fit",
            self._label(model),
            lambda: read(fit.variables, model),
            covers=covers,
            epoch=fit.epoch,
            place=fit.place,
            observe=lambda: read_numbers(logs),
        )

    def around_apply(self, original: Callable[..., Any], optimizer: Any, *arguments: Any, **options: Any) -> Any:
        """Run an optimiser's step; enter what it changed, or remember it if it is only being put into a graph."""
        if self.depth:
            return original(*arguments, **options)
        variables, eager = _given(optimizer, arguments, options), is_eager()
        if variables and (eager or not is_stateless()):
            self.tracer.guarded(lambda: self._initial(self._label(optimizer), variables))
        result = self._within(original, *arguments, **options)
        changed = variables or _given(optimizer, (), {})
        if eager:
            self.tracer.step("keras.optimizer", self._label(optimizer), lambda: read(changed))
        elif not is_stateless() and optimizer not in self.compiled:
            self.compiled[optimizer] = changed
        return result

    def around_apply_gradients(
        self, original: Callable[..., Any], optimizer: Any, grads_and_vars: Any, *arguments: Any, **options: Any
    ) -> Any:
        """Run an optimiser's step in Keras 2, which is given pairs, often as an iterator."""
        pairs = list(grads_and_vars)
        variables = [variable for _, variable in pairs]

        def step(_: Any, trainable_variables: Any) -> Any:
            return original(pairs, *arguments, **options)

        return self.around_apply(step, optimizer, pairs, variables)

    def around_function(self, original: Callable[..., Any], function: Any, *arguments: Any, **options: Any) -> Any:
        """Run a ``tf.function``; when the outermost has returned, enter the optimisers that have counted further."""
        result = original(*arguments, **options)
        if self.compiled and not self.depth and is_eager():
            for optimizer, variables in list(self.compiled.items()):
                batch = partial(_batch, self.tracer, (arguments, options))
                self.tracer.guarded(partial(self._count, optimizer, variables, batch))
        return result

    def _count(self, optimizer: Any, variables: list[Any], batch: Callable[[], int | None]) -> None:
        iterations = getattr(optimizer, "_iterations", None)
        iterations = optimizer.iterations if iterations is None else iterations
        if not is_initialised(iterations):  # it was only put into a graph so far
            return
        count = int(current(iterations))
        covers = count - self.counts.get(optimizer, 0)
        self.counts[optimizer] = count
        if covers > 0:
            label = self._label(optimizer)
            self.tracer.step("tf.function", label, lambda: read(variables), covers=covers, batch=batch)

    def _initial(self, label: str, variables: list[Any]) -> None:
        """Enter variables before a step; while a graph is built they are looked at from outside of it."""
        if is_eager():
            self.tracer.initial("keras.optimizer", label, lambda: read(variables))
            return
        tensorflow = sys.modules["tensorflow"]
        if not tensorflow.distribute.has_strategy():
            with tensorflow.init_scope():
                if is_eager() and all(is_initialised(variable) for variable in variables):
                    self.tracer.initial("tf.function", label, lambda: read(variables))

    def _within(self, original: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        self.depth += 1
        try:
            return original(*arguments, **options)
        finally:
            self.depth -= 1

    def _label(self, owner: Any) -> str:
        """Return the name of a model or optimiser."""
        label = self.labels.get(owner)
        if label is None:
            name = str(getattr(owner, "name", None) or getattr(owner, "_name", type(owner).__name__))
            label = self.labels[owner] = self.tracer.label(name)
        return label


def _given(optimizer: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> list[Any]:
    """Return the variables that a step is about: of ``apply``, of ``apply_gradients``, or all the optimiser has."""
    variables = options.get("trainable_variables", arguments[1] if len(arguments) > 1 else None)
    if isinstance(variables, (list, tuple)):
        return list(variables)
    return list(getattr(optimizer, "_trainable_variables", ()))


def _batch(tracer: Tracer, value: Any) -> int | None:
    """Return the digest of the arrays among arguments; None if there are none."""
    found = list(_arrays(value, 0))
    if not found or sum(array.nbytes for array in found) > trace.BATCH_SIZE:
        return None
    return tracer.digest(found)


def _arrays(value: Any, depth: int) -> Iterator[Any]:
    if isinstance(value, (list, tuple)) and depth < 4:
        for part in value:
            yield from _arrays(part, depth + 1)
    elif isinstance(value, dict) and depth < 4:
        for name in value:
            yield from _arrays(value[name], depth + 1)
    elif hasattr(value, "_numpy") or type(value).__name__ == "ndarray":
        array = value._numpy() if hasattr(value, "_numpy") else value
        if getattr(array, "dtype", None) is not None and array.dtype.kind in "biufc":
            yield array
