"""How PyTorch's ``DistributedDataParallel`` adds gradients up over ranks: recorded, since it decides how sums round.

Gradients are added up in buckets. Which bucket a gradient is in follows the limits of their sizes, and after the first
step the order in which rank 0's gradients were ready; another division rounds otherwise (pytorch/pytorch#30509,
#62751). The reducer itself reports them (``_get_ddp_logging_data``): when a model is wrapped, when all buckets are one
unless parameters may go unused, and once more when the wrapper is freed, or at the end of the process if it never is.
"""

from __future__ import annotations

from functools import wraps
from weakref import ref

from ...digest import sha256

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
    "rebuilt_per_bucket_param_indices",
    "static_graph",
)
_MOST = 20
"""Models that are recorded; a program may wrap one after the other."""
_LONGEST = 1000
"""Characters of a value; of a longer one the rest is a digest."""


def set_up(module: Any, process: Process) -> None:
    """Record each wrapper once it is made, and once more before it goes."""
    kind = module.DistributedDataParallel
    make, free = kind.__init__, getattr(kind, "__del__", None)
    known: dict[int, tuple[dict[str, Any], Any]] = {}

    @wraps(make)
    def made(self: Any, *arguments: Any, **options: Any) -> None:
        make(self, *arguments, **options)
        process.guarded("DistributedDataParallel", lambda: _record(self, process, known), vital=False)

    def freed(self: Any) -> None:
        settings, _ = known.pop(id(self), ({}, None))
        if settings:
            process.guarded("DistributedDataParallel", lambda: settings.update(_settings(self)), vital=False)
        if free is not None:
            free(self)

    kind.__init__, kind.__del__ = made, freed
    process.closing.append(lambda: _close(known))


def _record(model: Any, process: Process, known: dict[int, tuple[dict[str, Any], Any]]) -> None:
    if len(process.parallel) >= _MOST or getattr(model, "logger", None) is None:  # none: a reducer written in Python
        return
    entry: dict[str, Any] = {"kind": "DistributedDataParallel", "settings": _settings(model)}
    process.parallel.append(entry)
    known[id(model)] = entry["settings"], ref(model)
    process.write()


def _close(known: dict[int, tuple[dict[str, Any], Any]]) -> None:
    """Read all wrappers that are left once more; what is freed later has nothing to add."""
    while known:
        settings, held = known.popitem()[1]
        model = held()
        if model is not None:
            settings.update(_settings(model))


def _settings(model: Any) -> dict[str, bool | int | str]:
    """Return what the reducer reports, as far as it decides sums."""
    known = model._get_ddp_logging_data()
    found: dict[str, bool | int | str] = {}
    for name in _SETTINGS:
        value = known.get(name)
        if isinstance(value, (bool, int)):
            found[name] = value
        elif isinstance(value, str) and value:
            rest = f"… ({sha256(value.encode())[:12]})" if len(value) > _LONGEST else ""
            found[name] = f"{value[:_LONGEST]}{rest}"
    return found
