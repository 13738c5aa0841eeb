"""LightGBM: how histograms are summed is not left to a stopwatch.

Where neither ``force_col_wise`` nor ``force_row_wise`` is given, LightGBM times both at the start of a training and
takes the faster one: their sums differ in their last bits. One function makes the text in which the library gets them.
"""

from __future__ import annotations

import sys

from ..switching import Access, apply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..process import Process

_NAMES = ("_param_dict_to_str", "param_dict_to_str")
"""The function since version 4, and before."""
_CHOICE = "force_col_wise"
_CHOSEN = frozenset((_CHOICE, "force_row_wise"))
_DEVICES = frozenset(("device", "device_type"))


def set_up(module: Any, process: Process) -> None:
    """Add the choice to the parameters right after the import."""
    if _function():
        apply("lightgbm", module, process, ACCESS)


def _function() -> str:
    """Return the name of the function that makes a text of parameters; empty if there is none."""
    return next((name for name in _NAMES if hasattr(sys.modules.get("lightgbm.basic"), name)), "")


def _put(module: Any, value: bool) -> None:
    basic, name = sys.modules["lightgbm.basic"], _function()
    original = getattr(basic, name)

    def to_text(data: Any) -> str:
        if (
            data is not None
            and not _CHOSEN.intersection(data)
            and all(data.get(key, "cpu") == "cpu" for key in _DEVICES)
        ):
            data = {**data, _CHOICE: value}
        return str(original(data))

    to_text.__wrapped__, to_text.__name__, to_text.__doc__ = original, name, original.__doc__  # type: ignore[attr-defined]
    setattr(basic, name, to_text)


def _get(module: Any, wanted: bool) -> bool:
    return f"{_CHOICE}={wanted}" in getattr(sys.modules["lightgbm.basic"], _function())({})


ACCESS = {"lightgbm.force_col_wise": Access(_put, _get)}
