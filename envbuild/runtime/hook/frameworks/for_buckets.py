"""How PyTorch's ``DistributedDataParallel`` adds gradients up over ranks: recorded, since it decides how sums round.

Gradients are added up in buckets. Which bucket a gradient is in follows the limits of their sizes, and after the first
step the order in which rank 0's gradients were ready; another division rounds otherwise (pytorch/pytorch#30509,
#62751). The reducer itself reports them (``_get_ddp_logging_data``): when a model is wrapped, and once more at the end
of the process if the wrapper is still there.
"""

from __future__ import annotations

from functools import wraps
from weakref import ref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..process import Process

_SETTINGS = (
    "backend_name",
    "bucket_cap_bytes",
    "bucket_sizes",
    "comm_hook",
    "find_unused_parameters",
    "gradient_as_bucket_view",
    "rebuilt_bucket_sizes",
    "static_graph",
)
_MOST = 20
"""Models that are recorded; a program may wrap one after the other."""
_LONGEST = 1000


def set_up(module: Any, process: Process) -> None:
    """Record each wrapper once it is made."""
    kind = module.DistributedDataParallel
    original = kind.__init__

    @wraps(original)
    def wrapped(self: Any, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        process.guarded("DistributedDataParallel", lambda: _record(self, process), vital=False)

    kind.__init__ = wrapped


def _record(model: Any, process: Process) -> None:
    if len(process.parallel) >= _MOST or getattr(model, "logger", None) is None:  # none: a reducer written in Python
        return
    entry: dict[str, Any] = {"kind": "DistributedDataParallel", "settings": _settings(model)}
    process.parallel.append(entry)
    held = ref(model)

    def refresh() -> None:
        found = held()
        if found is not None:
            entry["settings"].update(_settings(found))

    process.closing.append(refresh)
    process.write()


def _settings(model: Any) -> dict[str, bool | int | str]:
    """Return what the reducer reports, as far as it decides sums."""
    known = model._get_ddp_logging_data()
    found: dict[str, bool | int | str] = {}
    for name in _SETTINGS:
        value = known.get(name)
        if isinstance(value, (bool, int)):
            found[name] = value
        elif isinstance(value, str) and value:
            found[name] = value[:_LONGEST]
    return found
