"""Sets the switches of one framework: those of the table that are for its version and for the locked level.

``table_switches`` has which and to what value, ``frameworks/for_*.py`` how to set and read each of them.
"""

from __future__ import annotations

import os
from _functools import partial  # type: ignore[import-not-found]

from ..guard import ranges
from .table_switches import SWITCHES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .process import Process

LEVELS = ("", "seeds", "ops", "portable")
DIAGNOSE = "ENVBUILD_DIAGNOSE"
"""``1``: this run looks for what makes runs differ, and may be slower for it."""


class Access:
    """How to set a switch and read it back.

    Args:
        put: called with the module and the value; None if nothing is to be set.
        get: called with the module and the wanted value, returns what is found; None in its place: nothing to read.
        generator: for a seed, the generator's name; it is set anew in every child.
        draw: for a seed, describes the generator's state; called with the module.
        ready: for a seed, returns whether it may be set now; called with the module.
    """

    __slots__ = ("draw", "generator", "get", "put", "ready")

    def __init__(
        self,
        put: Callable[[Any, Any], Any] | None,
        get: Callable[[Any, Any], Any],
        *,
        generator: str = "",
        draw: Callable[[Any], str] | None = None,
        ready: Callable[[Any], bool] | None = None,
    ) -> None:
        self.put, self.get, self.generator, self.draw, self.ready = put, get, generator, draw, ready


OWN_SEEDS: dict[str, Any] = {}
"""The last seed that the program gave by itself, by the name of the function; such generators return no seed."""


def notice_seeds(module: Any, function: str, name: str, process: Process) -> None:
    """Keep the seeds that the program gives from now on, but not those of a pool's tasks: which came last is a race.

    Args:
        module: that has the function; it is replaced there, and pickled by its name there.
        function: its name.
        name: of the switch.
        process: the hook's state.
    """
    original = getattr(module, function)

    def noticed(*arguments: Any, **options: Any) -> Any:
        result = original(*arguments, **options)
        if not process.task:
            given = [*arguments, *options.values()][:1]
            OWN_SEEDS[name] = _shown(given[0] if given else None)
        return result

    noticed.__name__ = noticed.__qualname__ = function
    noticed.__module__, noticed.__doc__ = module.__name__, original.__doc__
    noticed.__wrapped__ = original  # type: ignore[attr-defined]
    if hasattr(original, "__self__"):
        noticed.__self__ = original.__self__  # type: ignore[attr-defined] # programs ask it for the generator
    setattr(module, function, noticed)


def _shown(seed: Any) -> Any:
    if seed is None:
        return "the system's entropy"
    return seed if isinstance(seed, (int, float)) else str(seed)[:99]


class Absent(Exception):  # noqa: N818 - no error: there is nothing that the switch could change
    """Raised by ``get``: the library that the switch belongs to is not there."""


def attribute(name: str) -> Access:
    """Return the access to an attribute by its path from the module, which is the path's first part."""
    owner_path, _, last = name.partition(".")[2].rpartition(".")

    def owner(module: Any) -> Any:
        for part in owner_path.split(".") if owner_path else ():
            module = getattr(module, part)
        return module

    return Access(
        lambda module, value: setattr(owner(module), last, value), lambda module, wanted: getattr(owner(module), last)
    )


def apply(framework: str, module: Any, process: Process, access: Mapping[str, Access], version: str = "") -> None:
    """Set every switch of a framework and read each one back.

    Args:
        framework: its name in the table.
        module: what ``access`` is called with.
        process: keeps the record and decides what a failure means.
        access: how, by the switch's name; a switch that is not in it belongs to another module of the framework.
        version: of the framework; empty if it has none: then no row with a range of versions applies.
    """
    for name, versions, level, value, variable in SWITCHES[framework]:
        how = access.get(name)
        if how is None or LEVELS.index(level) > LEVELS.index(process.config.LEVEL) or not _within(versions, version):
            continue
        if variable:
            _read(name, module, process, how, variable)
        elif how.generator:
            draw = how.draw and partial(how.draw, module)
            process.seeds(how.generator, partial(_reseed, name, module, how), draw)
        else:
            wanted = _value(value, process)
            put = partial(how.put, module, wanted)
            process.switch(name, wanted, put, partial(how.get, module, wanted))


def _reseed(name: str, module: Any, how: Access, process: Process) -> None:
    if how.ready is None or how.ready(module):
        OWN_SEEDS.pop(name, None)
        seed = process.seed(how.generator)
        process.switch(name, seed, partial(how.put, module, seed), partial(how.get, module, seed))


def _read(name: str, module: Any, process: Process, how: Access, variable: str) -> None:
    """Look what a library made of a variable that the lock exports; one that the program changed is its own."""
    wanted = process.config.ENVIRONMENT.get(variable)
    if wanted is None or os.environ.get(variable) != wanted:
        return
    try:
        how.get(module, wanted)
    except Absent:
        return
    process.switch(name, wanted, lambda: None, partial(how.get, module, wanted))


def _value(value: bool | str, process: Process) -> Any:
    if value == "{threads}":
        return process.config.THREADS
    if value == "{diagnosing}":
        return os.environ.get(DIAGNOSE) == "1"
    return value


def _within(versions: str, version: str) -> bool:
    try:
        return not versions or ranges.contains(versions, version)
    except ValueError:
        return False
