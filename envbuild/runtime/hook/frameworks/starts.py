"""Programs that this process starts: each has its number, and a Python with an environment of its own has what the run
asks of it.

A Python finds in ``ENVBUILD_PROCESS`` where it was started (lineage.py). Where the program gives it an environment
without that (``env={}``), it would draw the main process's numbers, have its sets in any order, and after
``os.execve`` no process is left whose environment has the guard's marker. So a Python gets all that, and takes what it
was lent out of its environment before the program sees it (``startup``); other programs get what they were given.
A Python that reads no start-up files (``-S``) takes nothing out: it gets the hash seed alone, which it obeys too.
"""

from __future__ import annotations

import os

from ...guard.gate import MARKER
from .. import lineage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from ..process import Process

HASHES = "PYTHONHASHSEED"
"""Decides the order of sets, and has no effect once a Python has started."""
LENT = "ENVBUILD_LENT"
"""Names, separated by commas, of variables that the program did not give."""
LATE = "ENVBUILD_LATE"
"""Milliseconds that a Python waits before it begins (turns.py)."""


def number_starts(process: Process) -> None:
    """Number what functions of ``os`` start; a process that becomes another program has a place already."""
    system: Any = os
    starts = Starts(process)
    for name in ("posix_spawn", "posix_spawnp"):
        _replace(name, _spawning(starts, getattr(system, name)))
    execv, execve = system.execv, system.execve

    def numbered_execv(path: Any, argv: Any, /) -> Any:
        return starts.call((path,), argv, None, lambda _: execv(path, argv), becomes=True)

    def numbered_execve(path: Any, argv: Any, env: Any) -> Any:
        return starts.call((path,), argv, env, lambda env: execve(path, argv, env), becomes=True)

    _replace("execv", numbered_execv)
    _replace("execve", numbered_execve)


def number_programs(module: Any, process: Process) -> None:
    """Number what ``subprocess`` starts, and ``asyncio`` and ``multiprocessing`` by the same function."""
    low: Any = __import__("_posixsubprocess")
    if hasattr(low.fork_exec, "__wrapped__"):  # the module is loaded again
        return
    fork_exec, starts = low.fork_exec, Starts(process)

    def numbered(*arguments: Any) -> Any:
        # args, executables, close_fds, pass_fds, cwd, env, …: the same places since Python 3.2.
        words, paths, given = arguments[0], arguments[1], arguments[5]
        return starts.call(paths, words, given, lambda env: fork_exec(*arguments[:5], env, *arguments[6:]))

    numbered.__wrapped__ = fork_exec  # type: ignore[attr-defined]
    low.fork_exec = numbered
    if hasattr(module, "_fork_exec"):  # since Python 3.11
        module._fork_exec = numbered


class Starts:
    """Calls what starts a program with the environment that the program is to have.

    Args:
        process: this one.
    """

    def __init__(self, process: Process) -> None:
        self.process = process

    def call(
        self, paths: Sequence[Any], words: Any, environment: Any, call: Callable[[Any], Any], *, becomes: bool = False
    ) -> Any:
        """Start a program.

        Args:
            paths: of the program; ``subprocess`` tries several.
            words: its command line.
            environment: a mapping, a list of ``NAME=value``, or None for this process's own, which C reads.
            call: starts it with an environment.
            becomes: this process becomes the program.
        """
        process = self.process
        try:
            names = [os.fsdecode(word) for word in words]
            python = lineage.is_python([*names[:1], *map(os.fsdecode, paths)])
            bare = python and lineage.is_bare(names)
        except (TypeError, ValueError):  # which the call itself reports
            return call(environment)
        with process.starting:
            place = process.announce_program(names) if not becomes else process.announcement()
            late = process.late_program() if python and not bare and not becomes and process.late_program else ""
            if environment is not None:
                added = self._added(place, python=python, bare=bare, has=_names(environment), late=late)
                return call(_with(environment, added) if added else environment)
            added = self._added(place, python=python, bare=bare, has=os.environ, late=late)
            before = {name: os.environ.get(name) for name in added}
            try:
                for name, value in added.items():
                    os.putenv(name, value)
                return call(None)
            finally:
                for name, own in before.items():
                    os.unsetenv(name) if own is None else os.putenv(name, own)

    def _added(self, place: str, *, python: bool, bare: bool, has: Any, late: str) -> dict[str, str]:
        """Return the variables that a program gets.

        Args:
            place: where it was started.
            python, bare: it is a Python, and one that reads no start-up files.
            has: the names of the variables that it was given.
            late: milliseconds that it waits before it begins.
        """
        if lineage.VARIABLE not in has and (bare or not python):
            seed = self.process.lent.get(HASHES) if bare and HASHES not in has else None
            return {HASHES: seed} if seed is not None else {}
        lent = {}
        if python and not bare:  # what the program chose itself, such as PYTHONHASHSEED, is its own
            mine = self.process.hidden if MARKER in has else {**self.process.lent, **self.process.hidden}
            lent = {name: value for name, value in mine.items() if name not in has}
            lent |= {LATE: late} if late else {}
        return {lineage.VARIABLE: place, **lent, **({LENT: ",".join(lent)} if lent else {})}


def _spawning(starts: Starts, original: Any) -> Any:
    def spawn(path: Any, argv: Any, env: Any, **options: Any) -> Any:
        return starts.call((path,), argv, env, lambda env: original(path, argv, env, **options))

    return spawn


def _replace(name: str, new: Any) -> None:
    new.__wrapped__ = original = getattr(os, name)
    new.__doc__ = original.__doc__
    new.__module__, new.__name__, new.__qualname__ = "os", name, name  # it is handed to pools
    setattr(os, name, new)


def _names(environment: Any) -> set[str]:
    """Return the names in an environment; what is none is left to the call to report."""
    return set(_each_name(environment))


def _each_name(environment: Any) -> Iterator[str]:
    try:
        for entry in environment:
            name = os.fsdecode(entry)
            yield name if hasattr(environment, "keys") else name.partition("=")[0]
    except (TypeError, ValueError):
        return


def _with(environment: Any, added: dict[str, str]) -> Any:
    """Return an environment with other values of some variables."""
    if hasattr(environment, "keys"):
        return {name: value for name, value in environment.items() if os.fsdecode(name) not in added} | added
    kept_entries = [entry for entry in environment if os.fsdecode(entry).partition("=")[0] not in added]
    return [*kept_entries, *(f"{name}={value}".encode() for name, value in added.items())]
