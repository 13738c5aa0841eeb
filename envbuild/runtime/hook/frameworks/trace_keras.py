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
from functools import cache, partial, wraps
from weakref import WeakKeyDictionary

from .. import trace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
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
        source, label = "keras.train_on_batch", self._label(model)
        if model.built:
            self.tracer.initial(source, label, lambda: _read(_all_variables(model), model))
        result = self._within(original, *arguments, **options)
        batch = partial(_batch, self.tracer, (arguments, options))
        self.tracer.step(source, label, lambda: _read(_all_variables(model), model), batch=batch)
        return result

    def on_train_begin(self, original: Callable[..., Any], callbacks: Any, *arguments: Any, **options: Any) -> Any:
        """Enter the initial weights."""
        result = original(*arguments, **options)
        self.fits[callbacks] = fit = _Fit()
        model = getattr(callbacks, "model", None)
        if model is not None and model.built:
            self.tracer.guarded(partial(self._begin, fit, model))
        return result

    def _begin(self, fit: _Fit, model: Any) -> None:
        fit.variables, fit.counted = _all_variables(model), _counted(model)
        self.tracer.initial("keras.fit", self._label(model), lambda: _read(fit.variables, model))

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
            fit.variables = fit.variables or _all_variables(model)
            covers = max(batch + 1 - fit.place, 1)
            if getattr(model, "steps_per_execution", 1) > 1:  # the last batch of an epoch is counted as if it were full
                before, fit.counted = fit.counted, _counted(model)
                covers = fit.counted - before if 0 < fit.counted - before <= covers else covers
            fit.place += covers
            self.tracer.step(
                "keras.fit",
                self._label(model),
                lambda: _read(fit.variables, model),
                covers=covers,
                epoch=fit.epoch,
                place=fit.place,
                observe=lambda: _numbers(logs),
            )
        return result

    def around_apply(self, original: Callable[..., Any], optimizer: Any, *arguments: Any, **options: Any) -> Any:
        """Run an optimiser's step; enter what it changed, or remember it if it is only being put into a graph."""
        if self.depth:
            return original(*arguments, **options)
        source, label = "keras.optimizer", self._label(optimizer)
        variables, eager = _given(optimizer, arguments, options), _eager()
        if variables and (eager or not _stateless()):
            self._initial(label, variables)
        result = self._within(original, *arguments, **options)
        variables = variables or _given(optimizer, (), {})
        if eager:
            self.tracer.step(source, label, lambda: _read(variables))
        elif not _stateless() and optimizer not in self.compiled:
            self.compiled[optimizer] = variables
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
        if self.compiled and not self.depth and _eager():
            for optimizer, variables in list(self.compiled.items()):
                batch = partial(_batch, self.tracer, (arguments, options))
                self.tracer.guarded(partial(self._count, optimizer, variables, batch))
        return result

    def _count(self, optimizer: Any, variables: list[Any], batch: Callable[[], int | None]) -> None:
        iterations = getattr(optimizer, "_iterations", None)
        iterations = optimizer.iterations if iterations is None else iterations
        if not _is_initialised(iterations):  # it was only put into a graph so far
            return
        count = int(_value(iterations))
        covers = count - self.counts.get(optimizer, 0)
        self.counts[optimizer] = count
        if covers > 0:
            label = self._label(optimizer)
            self.tracer.step("tf.function", label, lambda: _read(variables), covers=covers, batch=batch)

    def _initial(self, label: str, variables: list[Any]) -> None:
        """Enter variables before a step; while a graph is built they are looked at from outside of it."""
        if _eager():
            self.tracer.initial("keras.optimizer", label, lambda: _read(variables))
            return
        tensorflow = sys.modules["tensorflow"]
        if not tensorflow.distribute.has_strategy():
            with tensorflow.init_scope():
                if _eager() and all(_is_initialised(variable) for variable in variables):
                    self.tracer.initial("tf.function", label, lambda: _read(variables))

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


def _all_variables(model: Any) -> list[Any]:
    return [*model.trainable_variables, *model.non_trainable_variables]


def _counted(model: Any) -> int:
    """Return how many steps a model's optimiser has counted; 0 for one that does not count, or not yet."""
    iterations = getattr(model.optimizer, "_iterations", None)
    if iterations is None or not _is_initialised(iterations):
        return 0
    state = _state(model)
    if state is None:
        return int(_value(iterations))
    places = [place for place, variable in enumerate(model.optimizer.variables) if variable is iterations]
    return int(_value(state["optimizer_variables"][places[0]])) if places else 0


def _state(model: Any) -> Any:
    """Return where JAX keeps a model's values while ``fit`` runs; None if they are in its variables."""
    state = getattr(model, "_jax_state", None)
    return None if not state or getattr(model, "_jax_state_synced", True) else state


def _given(optimizer: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> list[Any]:
    """Return the variables that a step is about: of ``apply``, of ``apply_gradients``, or all the optimiser has."""
    variables = options.get("trainable_variables", arguments[1] if len(arguments) > 1 else None)
    if isinstance(variables, (list, tuple)):
        return list(variables)
    return list(getattr(optimizer, "_trainable_variables", ()))


def _read(variables: list[Any], model: Any = None) -> Iterable[tuple[str, Any]]:
    """Return names and values of variables, of a model's in the order of ``_all_variables``."""
    state = _state(model)
    values = [*state["trainable_variables"], *state["non_trainable_variables"]] if state else variables
    return zip(_names(variables), _values(values))


def _names(variables: list[Any]) -> list[str]:
    """Return the variables' names, numbered where several share one."""
    found: list[str] = []
    seen: dict[str, int] = {}
    for variable in variables:
        name = str(getattr(variable, "path", None) or variable.name).removesuffix(":0")
        seen[name] = number = seen.get(name, 0) + 1
        found.append(f"{name} #{number}" if number > 1 else name)
    return found


def _values(variables: list[Any]) -> list[Any]:
    """Return what variables hold now: arrays of NumPy, or tensors of PyTorch."""
    inner = [_held(variable) for variable in variables]
    handles: list[Any] = [getattr(value, "handle", None) for value in inner]
    if not any(handle is None for handle in handles) and len({handle.device for handle in handles}) == 1:
        try:
            # One operation for all: TensorFlow's own, without a name in its public interface.
            fetch, context = _fast_path()
            dtypes = [value.dtype for value in inner]
            return [value._numpy() for value in fetch(context, "_ReadVariablesOp", None, handles, "dtypes", dtypes)]
        except Exception:  # another version of TensorFlow: one by one
            pass
    return [_value(value) for value in inner]


def _held(variable: Any) -> Any:
    """Return what a variable holds; of one that a ``tf.distribute`` strategy keeps on several devices, the first copy.

    Keras 3 wraps TensorFlow's variables. One with copies has no handle of its own outside of a replica.
    """
    value = variable._value if hasattr(variable, "path") else variable
    return getattr(value, "_primary", value)


@cache
def _fast_path() -> tuple[Any, Any]:
    """Return TensorFlow's quick way to run one operation, and its context."""
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.eager import context

    return pywrap_tfe.TFE_Py_FastPathExecute, context.context()


def _value(variable: Any) -> Any:
    """Return what one variable, or what it holds, is worth now."""
    value = _held(variable)
    if hasattr(value, "detach"):
        return value.detach()
    handle = getattr(value, "handle", None)
    if handle is not None:
        # The quickest way: what is read is looked at before the next step and not kept, so that nothing is copied.
        value = sys.modules["tensorflow"].raw_ops.ReadVariableOp(resource=handle, dtype=value.dtype)
    if hasattr(value, "_numpy"):
        value = value._numpy()
    return value if type(value).__name__ == "ndarray" else sys.modules["numpy"].asarray(value)


def _numbers(logs: Any) -> dict[str, float]:
    found = {}
    for name, value in (logs or {}).items():
        try:
            found[str(name)] = float(value)
        except (TypeError, ValueError):  # a dictionary or an array: no number of this step
            continue
    return found


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


def _eager() -> bool:
    """Tell whether operations are run now, and not put into a graph or a function without effects."""
    tensorflow: Any = sys.modules.get("tensorflow")
    eager = tensorflow.executing_eagerly() if hasattr(tensorflow, "executing_eagerly") else True
    return bool(eager) and not _stateless()


def _stateless() -> bool:
    scope = sys.modules.get("keras.src.backend.common.stateless_scope")
    return scope is not None and scope.in_stateless_scope()


def _is_initialised(variable: Any) -> bool:
    value = getattr(variable, "_value", variable)
    return value is not None and bool(value.is_initialized() if hasattr(value, "is_initialized") else True)
