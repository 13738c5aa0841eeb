"""NumPy: the global generator, and those made without a seed.

``default_rng()``, ``SeedSequence()`` and ``RandomState()`` without a seed draw entropy through the name ``randbits``
of ``numpy.random.bit_generator`` (numpy/random/bit_generator.pyx, since 1.17): it gets a seeded stream of its own.
"""

from __future__ import annotations

from ...digest import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..process import Process


def set_up(module: Any, process: Process) -> None:
    """Seed ``numpy.random`` right after its import."""
    process.modules["numpy"] = module
    process.seeds("numpy", lambda process: _seed(module, process), lambda: _state(module))
    if hasattr(module, "bit_generator"):
        process.seeds("numpy.entropy", lambda process: _seed_entropy(module, process))
    process.write()


def _seed(module: Any, process: Process) -> None:
    """Seed the global generator; its first word shows an integer seed (numpy/random/src/mt19937/mt19937.c)."""
    lock = module.mtrand._rand._bit_generator.lock
    if not lock.acquire(False):
        raise RuntimeError("forked while another thread was drawing numbers")
    lock.release()
    seed = process.seed("numpy")
    process.switch("numpy.random.seed", seed, lambda: module.seed(seed), lambda: _first_word(module, seed))


def _first_word(module: Any, seed: int) -> int:
    """Read the seed back; once numbers were drawn the state has moved on and tells nothing."""
    state = module.get_state()
    return seed if state[2] != 624 or state[0] != "MT19937" else int(state[1][0])


def _state(module: Any) -> str:
    """Describe the global generator."""
    name, words, *rest = module.get_state()
    return f"{name} {sha256(bytes(words))} {rest}"


def _seed_entropy(module: Any, process: Process) -> None:
    from random import Random

    from ..lineage import derive

    seed = derive(process.config.SEED, process.path, "entropy" + process.inherited.get("numpy", ""))
    module.bit_generator.randbits = Random(seed).getrandbits  # noqa: S311 - it has to be predictable
