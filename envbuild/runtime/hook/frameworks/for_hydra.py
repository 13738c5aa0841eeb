"""Hydra: the composed configuration of each job, and the choices of its groups; hydra's own settings left out."""

from __future__ import annotations

import sys

from ..parameters import COMMAND, CONFIG
from .for_omegaconf import leaves

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..process import Process


def set_up(module: Any, process: Process) -> None:
    """Wrap the composition, in which a run, each job of a sweep and ``hydra.compose`` end (Hydra 1.0 to 1.3)."""
    loader = module.ConfigLoaderImpl
    original = loader.load_configuration

    def load_configuration(self: Any, config_name: Any, overrides: Any, *rest: Any, **options: Any) -> Any:
        config = original(self, config_name, overrides, *rest, **options)
        process.guarded("hydra", lambda: _record(config, overrides, process), vital=False)
        return config

    load_configuration.__wrapped__ = original  # type: ignore[attr-defined]
    load_configuration.__doc__ = original.__doc__
    loader.load_configuration = load_configuration


def _record(config: Any, overrides: Any, process: Process) -> None:
    program = sys.argv[0].rpartition("/")[2]
    if process.parameters.add("hydra", program, _values(config, overrides), replace=True):
        process.write()


def _values(config: Any, overrides: Any) -> Iterator[tuple[str, Any, str]]:
    """Yield group choices, then the values; an override of a whole node gives all values below it."""
    typed = {override.lstrip("+~").partition("=")[0] for override in overrides}
    found = leaves(config)
    for name, value in found:
        group = name.removeprefix("hydra.runtime.choices.")
        if group != name and not group.startswith("hydra/"):
            yield f"{group}", value, COMMAND if group in typed else CONFIG
    for name, value in found:
        if name.partition(".")[0] != "hydra":
            given = any(name == key or name.startswith(f"{key}.") for key in typed)
            yield name, value, COMMAND if given else CONFIG
