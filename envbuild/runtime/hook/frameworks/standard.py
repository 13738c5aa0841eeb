"""The standard library: ``random``, names of temporary files, and the identity of children."""

from __future__ import annotations

import os
import sys
from _thread import get_ident

from .. import lineage
from ..switching import OWN_SEEDS, Access, apply, notice_seeds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..process import Process

REPEATED = 100
"""Attempts at one temporary file with names that repeat; later attempts have Python's own random names."""


def seed_random(module: Any, process: Process) -> None:
    """Seed the module's functions. ``random.Random()`` objects are left alone: names of semaphores rely on them."""
    notice_seeds(module, "seed", "random.seed", process)
    apply("python", module, process, ACCESS)
    generator = module._inst

    def reseed() -> None:
        """The module itself reseeds forked children from the system's entropy, after the hook's own handler."""
        process.reapply("random")
        if generator is not module._inst:  # the module was loaded again; names of before still draw from this one
            generator.seed(process.seed("random"))

    os.register_at_fork(after_in_child=reseed)


def _state(module: Any) -> str:
    """Describe the generator. The hash of a tuple of integers is the same in every process."""
    _, words, gauss = module.getstate()
    return f"{hash(words)} {gauss}"


def _read(module: Any, seed: int) -> Any:
    """Return the program's own seed if it gave one; there is no function that returns the generator's."""
    return OWN_SEEDS.get("random.seed", seed)


ACCESS = {"random.seed": Access(lambda module, value: module._inst.seed(value), _read, generator="random", draw=_state)}


def number_workers(module: Any, process: Process) -> None:
    """Reseed each ``multiprocessing`` child by its identity, whichever way it was started."""
    original = module.BaseProcess._bootstrap

    def _bootstrap(self: Any, *arguments: Any, **options: Any) -> Any:
        process.enter_worker(self._identity)
        try:
            return original(self, *arguments, **options)
        finally:
            process.finish()

    _bootstrap.__wrapped__ = original  # type: ignore[attr-defined]
    module.BaseProcess._bootstrap = _bootstrap


def number_programs(module: Any, process: Process) -> None:
    """Give each program that is started its number: ``subprocess``, ``asyncio`` and ``multiprocessing`` end here."""
    low: Any = __import__("_posixsubprocess")
    if hasattr(low.fork_exec, "__wrapped__"):  # the module is loaded again
        return
    fork_exec, posix_spawn = low.fork_exec, os.posix_spawn

    def start(words: Any, environment: Any, replaced: Any, call: Any) -> Any:
        """Call with an environment that has the child's number; ``None`` is this process's own, which C reads."""
        with process.starting:
            variable = process.announce_program([os.fsdecode(word) for word in words])
            if environment is not None:
                return call(replaced(environment, variable))
            before = os.environ.get(lineage.VARIABLE)
            if before is None:  # the program removed it: its children are to have none
                return call(None)
            os.putenv(lineage.VARIABLE, variable)
            try:
                return call(None)
            finally:
                os.putenv(lineage.VARIABLE, before)

    def numbered_fork_exec(*arguments: Any) -> Any:
        # args, executables, close_fds, pass_fds, cwd, env, …: the same places since Python 3.2.
        return start(
            arguments[0], arguments[5], _with_entry, lambda env: fork_exec(*arguments[:5], env, *arguments[6:])
        )

    def numbered_posix_spawn(path: Any, argv: Any, env: Any, **options: Any) -> Any:
        return start(argv, env, _with_value, lambda env: posix_spawn(path, argv, env, **options))

    numbered_fork_exec.__wrapped__ = fork_exec  # type: ignore[attr-defined]
    low.fork_exec = numbered_fork_exec
    if hasattr(module, "_fork_exec"):  # since Python 3.11
        module._fork_exec = numbered_fork_exec
    numbered_posix_spawn.__wrapped__ = posix_spawn  # type: ignore[attr-defined]
    numbered_posix_spawn.__name__ = numbered_posix_spawn.__qualname__ = "posix_spawn"
    numbered_posix_spawn.__doc__, numbered_posix_spawn.__module__ = posix_spawn.__doc__, "os"
    os.posix_spawn = numbered_posix_spawn


def _with_entry(environment: Any, variable: str) -> list[bytes]:
    """Replace the entry in a list of ``NAME=value``; a child that was to have none gets none."""
    name = f"{lineage.VARIABLE}=".encode()
    return [name + variable.encode() if entry.startswith(name) else entry for entry in environment]


def _with_value(environment: Any, variable: str) -> Any:
    """The same for a mapping."""
    return {**environment, lineage.VARIABLE: variable} if lineage.VARIABLE in environment else environment


def name_temporaries(module: Any, process: Process) -> None:
    """Have the names of temporary files and folders repeat: they become arguments, text in outputs, sort keys.

    Only for ``mkstemp`` and ``mkdtemp`` and what they serve, which create with O_EXCL and try the next name. ``mktemp``
    and others that merely ask for a name keep Python's random ones: two processes of the same place could collide.
    """
    original = module._get_candidate_names
    creating = {module.mkdtemp.__code__, module._mkstemp_inner.__code__}
    streams: dict[bool, tuple[str, Any]] = {}

    def stream() -> Any:
        """Return the generator of this process (or task); threads other than the main one share another one."""
        main = get_ident() == process.main_thread
        place = f"{process.task or process.path}/temporary names{'' if main else ' of threads'}"
        if streams.get(main, ("",))[0] != place:
            streams[main] = place, module._Random(lineage.derive(process.config.SEED, place))
        return streams[main][1]

    def names() -> Iterator[str]:
        choose, letters = stream().choices, "abcdefghijklmnopqrstuvwxyz0123456789_"
        for _ in range(REPEATED):
            yield "".join(choose(letters, k=8))
        yield from original()

    def candidates() -> Any:
        return names() if sys._getframe(1).f_code in creating else original()

    module._get_candidate_names = candidates
