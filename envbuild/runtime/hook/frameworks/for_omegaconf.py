"""OmegaConf: a configuration of which a part was typed, ``OmegaConf.merge(…, OmegaConf.from_cli())``.

Interpolations stay as written: to resolve one may call the program's own code, and can bring secrets in.
"""

from __future__ import annotations

import sys

from ..parameters import COMMAND, CONFIG

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..process import Process


def set_up(module: Any, process: Process) -> None:
    """Wrap ``from_cli``, and the merges that one of its results goes into."""
    typed: list[tuple[Any, set[str]]] = []
    own = module.OmegaConf
    from_cli = own.from_cli

    def read(args_list: Any = None) -> Any:
        config = from_cli(args_list)
        process.guarded("omegaconf", lambda: _remember(config, typed, process), vital=False)
        return config

    _replace(own, "from_cli", from_cli, read)
    for name in ("merge", "unsafe_merge"):
        if hasattr(own, name):
            _watch_merge(own, name, typed, process)


def leaves(config: Any) -> list[tuple[str, Any]]:
    """Return the values of a configuration with dotted names, interpolations as written."""
    from ..parameters import flat

    omegaconf = sys.modules["omegaconf"].OmegaConf
    return list(flat("", omegaconf.to_container(config, resolve=False)))


def _watch_merge(own: Any, name: str, typed: list[tuple[Any, set[str]]], process: Process) -> None:
    original = getattr(own, name)

    def merge(*configs: Any) -> Any:
        merged = original(*configs)
        for config, names in typed:
            if any(config is part for part in configs):
                values = _values(merged, names)
                process.guarded("omegaconf", lambda values=values: _record(values, process), vital=False)  # type: ignore[misc]
        return merged

    _replace(own, name, original, merge)


def _replace(own: Any, name: str, original: Any, new: Any) -> None:
    new.__wrapped__, new.__name__, new.__doc__ = original, name, original.__doc__
    setattr(own, name, staticmethod(new))


def _remember(config: Any, typed: list[tuple[Any, set[str]]], process: Process) -> None:
    names = {name for name, _ in leaves(config)}
    typed.append((config, names))
    _record(_values(config, names), process)


def _record(values: Iterator[tuple[str, Any, str]], process: Process) -> None:
    if process.parameters.add("omegaconf", sys.argv[0].rpartition("/")[2], values, replace=True):
        process.write()


def _values(config: Any, typed: set[str]) -> Iterator[tuple[str, Any, str]]:
    for name, value in leaves(config):
        yield name, value, COMMAND if name in typed else CONFIG
