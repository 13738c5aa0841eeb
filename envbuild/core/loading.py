"""Modules that a long command needs at its end, loaded while it waits for programs.

Who installs another version of envbuild meanwhile replaces their files: what is imported then fits nothing, and what
took minutes would be lost. At the start it would cost every short command a third of a second.
"""

from __future__ import annotations

import importlib
import pkgutil
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress


def load_meanwhile(packages: Iterable[str]) -> threading.Thread | None:
    """Begin to load all modules of some packages, in a thread that nobody waits for.

    What cannot be loaded, as under a limit of files or memory, is not: who needs it reports why.

    Args:
        packages: their names.

    Returns:
        The thread; None if none can be started.
    """
    thread = threading.Thread(target=_load, args=(tuple(packages),), name="load", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # a limit of threads
        return None
    return thread


def _load(packages: Iterable[str]) -> None:
    for package in packages:
        with suppress(Exception):
            for name in _modules(package):
                importlib.import_module(name)


def _modules(package: str) -> Iterator[str]:
    found = importlib.import_module(package)
    yield package
    for module in pkgutil.iter_modules(found.__path__, f"{package}."):
        if module.ispkg:
            yield from _modules(module.name)
        else:
            yield module.name
