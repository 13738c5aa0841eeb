"""Which lines take arrays of NumPy that nothing was written to, in an experiment with filled memory (fix_memory.py).

Lines that get what is real have their arrays filled with other values in each run: what is in such memory is luck, and
may be the same for long. The values are small (from 0 to 1, integers 0 or 1), so that the program goes on with them.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .fix_callers import Callers

CALLS = ("empty", "empty_like")
_KINDS = "biufc"
"""NumPy's kinds of numbers; objects have ``None`` for what nothing wrote, and texts and dates are left out."""
_MOST = 1 << 24
"""Elements of an array that are filled; the rest has what the C library wrote."""
_PIECE = 1 << 16
"""Bytes that are drawn for one array; they repeat in a larger one."""


def note_calls(module: Any, callers: Callers) -> None:
    """Put functions in the place of NumPy's that make such arrays; there is no way back."""
    for name in CALLS:
        original = getattr(module, name)

        def replacement(*arguments: Any, original: Any = original, call: str = f"numpy.{name}", **options: Any) -> Any:
            made = original(*arguments, **options)
            if callers.real("memory", call, sys._getframe(1)):
                fill(module, made)
            return made

        replacement.__module__, replacement.__name__, replacement.__qualname__ = "numpy", name, name
        setattr(module, name, replacement)


def fill(module: Any, array: Any) -> None:
    """Write drawn values into a new array of numbers."""
    kind = getattr(getattr(array, "dtype", None), "kind", "")
    if not kind or kind not in _KINDS or not isinstance(array, module.ndarray) or not array.size:
        return
    array = array.view(module.ndarray)  # a matrix has two dimensions, whatever it is asked for
    drawn = module.frombuffer(os.urandom(min(array.size, _PIECE)), dtype=module.uint8)
    values = drawn / 256.0 if kind in "fc" else drawn % 2
    flat = array.reshape(-1, order="A") if array.flags.forc else None
    if flat is None:  # of an array that was the pattern, with strides of its own
        array[...] = module.resize(values, array.shape)
        return
    for start in range(0, min(flat.size, _MOST), values.size):
        part = flat[start : start + values.size]
        part[...] = values[: part.size]
