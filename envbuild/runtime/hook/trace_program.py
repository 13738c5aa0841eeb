"""Steps that the program enters into the trace itself: JAX's, and those of any loop of its own making.

    sys.audit("envbuild.step", params)
    sys.audit("envbuild.step", params, {"loss": loss, "epoch": epoch})

``sys.audit`` is Python's own (PEP 578) and does nothing where nobody listens: such a script needs no envbuild. The
first argument are the parameters after the step: arrays in dictionaries, lists, named tuples, or what JAX knows as a
tree. The second are numbers of the step. Three of them have a meaning: ``epoch``, counted from 1; ``step``, the number
of steps made so far, else each call is one; and ``batch``, arrays that the step was computed from.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Protocol

    class Tracer(Protocol):
        """What receives the steps."""

        def guarded(self, action: Callable[[], None]) -> None:
            """Run what may call ``step``."""

        def digest(self, values: list[Any]) -> int:
            """Return one digest of several tensors."""

        @property
        def step(self) -> Callable[..., None]:
            """Count a step, and enter the tensors if it is time to."""


EVENT = "envbuild.step"
_DEPTH = 32


def listen(tracer: Tracer) -> None:
    """Start to listen; there is no way back."""

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if event == EVENT:
            tracer.guarded(lambda: _step(tracer, arguments))

    sys.addaudithook(audit)


def _step(tracer: Tracer, arguments: tuple[Any, ...]) -> None:
    if not arguments or len(arguments) > 2:
        raise TypeError(f'expected sys.audit("{EVENT}", parameters, numbers), found {len(arguments)} arguments')
    numbers = dict(arguments[1]) if len(arguments) > 1 else {}
    epoch, step, batch = (numbers.pop(name, None) for name in ("epoch", "step", "batch"))
    named = list(leaves(arguments[0]))
    for _, value in named:
        if "Tracer" in type(value).__name__:
            raise TypeError(f'sys.audit("{EVENT}", …) was called within a function that JAX compiles: call it outside')
    tracer.step(
        "program",
        "step",
        lambda: named,
        at=None if step is None else int(step),
        epoch=None if epoch is None else int(epoch),
        observe=lambda: {name: float(number) for name, number in numbers.items()},
        batch=None if batch is None else lambda: tracer.digest([value for _, value in leaves(batch)]),
    )


def leaves(tree: Any) -> Iterator[tuple[str, Any]]:
    """Yield the arrays of a tree with names such as ``dense/kernel``; JAX's own trees as JAX takes them apart."""
    jax = sys.modules.get("jax")
    if jax is not None and hasattr(jax, "tree_util"):
        flat, _ = jax.tree_util.tree_flatten_with_path(tree)
        for path, value in flat:
            yield "/".join(_part(key) for key in path), _array(value)
    else:
        yield from _plain(tree, "", 0)


def _part(key: Any) -> str:
    """Return the readable part of one of JAX's keys."""
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def _plain(tree: Any, name: str, depth: int) -> Iterator[tuple[str, Any]]:
    if depth > _DEPTH:
        raise ValueError(f"parameters are nested deeper than {_DEPTH} levels at {name}")
    if isinstance(tree, dict):
        parts = [(str(key), tree[key]) for key in tree]
    elif isinstance(tree, tuple) and hasattr(tree, "_fields"):
        parts = list(zip(tree._fields, tree))
    elif isinstance(tree, (list, tuple)):
        parts = [(str(place), part) for place, part in enumerate(tree)]
    elif tree is None:
        return
    else:
        yield name, _array(tree)
        return
    for key, part in parts:
        yield from _plain(part, f"{name}/{key}" if name else key, depth + 1)


def _array(value: Any) -> Any:
    """Return an array of NumPy, or a tensor of PyTorch as it is; a key of JAX's random numbers as its words."""
    if hasattr(value, "detach") or "Tracer" in type(value).__name__:
        return value
    jax = sys.modules.get("jax")
    if jax is not None and hasattr(value, "dtype") and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    return sys.modules["numpy"].asarray(value)
