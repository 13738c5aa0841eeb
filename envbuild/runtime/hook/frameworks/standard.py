"""The standard library: ``random``, names of temporary files, and the identity of children."""

from __future__ import annotations

import sys
from _thread import get_ident

from .. import lineage
from ..handlers import register_at_fork
from ..switching import OWN_SEEDS, Access, apply, notice_seeds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..process import Process

REPEATED = 100
"""Attempts at one temporary file with names that repeat; later attempts have Python's own random names."""
_OF_POOLS = (".pool", "concurrent.futures.process", ".process_executor")
"""Ends of the names of modules whose functions the workers of pools run."""


def seed_random(module: Any, process: Process) -> None:
    """Seed the module's functions. ``random.Random()`` objects are not seeded: names of semaphores rely on them."""
    notice_seeds(module, "seed", "random.seed", process)
    apply("python", module, process, ACCESS)
    generator = module._inst

    def reseed() -> None:
        """The module itself reseeds forked children from the system's entropy, after the hook's own handler."""
        process.reapply("random")
        if generator is not module._inst:  # the module was loaded again; names of before still draw from this one
            generator.seed(process.seed("random"))

    register_at_fork(repeat=reseed)


def _state(module: Any) -> str:
    """Describe the generator. The hash of a tuple of integers is the same in every process."""
    _, words, gauss = module.getstate()
    return f"{hash(words)} {gauss}"


def _read(module: Any, seed: int) -> Any:
    """Return the program's own seed if it gave one; there is no function that returns the generator's."""
    return OWN_SEEDS.get("random.seed", seed)


ACCESS = {"random.seed": Access(lambda module, value: module._inst.seed(value), _read, generator="random", draw=_state)}


def number_workers(module: Any, process: Process) -> None:
    """Reseed each ``multiprocessing`` child by its place, whichever way it is started.

    Its own number counts a pool's workers too, of which new ones replace others at moments that are a race
    (``maxtasksperchild``), or come as they are needed.
    """
    original, make = module.BaseProcess._bootstrap, module.BaseProcess.__init__

    def made(self: Any, *arguments: Any, **options: Any) -> None:
        make(self, *arguments, **options)
        target = str(getattr(getattr(self, "_target", None), "__module__", ""))
        self._envbuild_place = process.place_of_worker(pooled=target.endswith(_OF_POOLS))

    def _bootstrap(self: Any, *arguments: Any, **options: Any) -> Any:
        process.enter_worker(self._identity, getattr(self, "_envbuild_place", ""))
        try:
            return original(self, *arguments, **options)
        finally:
            process.finish()

    _bootstrap.__wrapped__ = original  # type: ignore[attr-defined]
    module.BaseProcess._bootstrap = _bootstrap
    made.__wrapped__ = make  # type: ignore[attr-defined]
    made.__name__, made.__qualname__ = "__init__", make.__qualname__
    module.BaseProcess.__init__ = made


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
