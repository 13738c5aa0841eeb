"""Variables of Keras 2 and 3: what they are called and what they hold, on all backends, read for the step trace."""

from __future__ import annotations

import sys
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


def all_variables(model: Any) -> list[Any]:
    """Return a model's variables, those that are trained first."""
    return [*model.trainable_variables, *model.non_trainable_variables]


def counted(model: Any) -> int:
    """Return how many steps a model's optimiser has counted; 0 for one that does not count, or not yet."""
    iterations = getattr(model.optimizer, "_iterations", None)
    if iterations is None or not is_initialised(iterations):
        return 0
    state = _state(model)
    if state is None:
        return int(current(iterations))
    places = [place for place, variable in enumerate(model.optimizer.variables) if variable is iterations]
    return int(current(state["optimizer_variables"][places[0]])) if places else 0


def _state(model: Any) -> Any:
    """Return where JAX keeps a model's values while ``fit`` runs; None if they are in its variables."""
    state = getattr(model, "_jax_state", None)
    return None if not state or getattr(model, "_jax_state_synced", True) else state


def read(variables: list[Any], model: Any = None) -> Iterable[tuple[str, Any]]:
    """Return names and values of variables, of a model's in the order of ``all_variables``."""
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
    return [current(value) for value in inner]


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


def current(variable: Any) -> Any:
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


def read_numbers(logs: Any) -> dict[str, float]:
    """Return what Keras passes its callbacks of a step, as far as it is numbers."""
    found = {}
    for name, value in (logs or {}).items():
        try:
            found[str(name)] = float(value)
        except (TypeError, ValueError):  # a dictionary or an array: no number of this step
            continue
    return found


def is_eager() -> bool:
    """Return whether operations are run now, and not put into a graph or a function without effects."""
    tensorflow: Any = sys.modules.get("tensorflow")
    eager = tensorflow.executing_eagerly() if hasattr(tensorflow, "executing_eagerly") else True
    return bool(eager) and not is_stateless()


def is_stateless() -> bool:
    """Return whether Keras only computes what it would change, as it does within JAX's functions."""
    scope = sys.modules.get("keras.src.backend.common.stateless_scope")
    return scope is not None and scope.in_stateless_scope()


def is_initialised(variable: Any) -> bool:
    """Return whether a variable holds anything yet; one of a ``tf.function`` may not."""
    value = getattr(variable, "_value", variable)
    return value is not None and bool(value.is_initialized() if hasattr(value, "is_initialized") else True)
