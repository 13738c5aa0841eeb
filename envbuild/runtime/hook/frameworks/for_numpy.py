"""NumPy: the global generator, those made without a seed, and what OpenBLAS and NumPy made of the locked variables.

``default_rng()``, ``SeedSequence()`` and ``RandomState()`` without a seed draw entropy through the name ``randbits``
of ``numpy.random.bit_generator`` (numpy/random/bit_generator.pyx, since 1.17): it gets a seeded stream of its own.
"""

from __future__ import annotations

import os
import sys
from _functools import partial  # type: ignore[import-not-found]

from ...digest import sha256
from ..switching import OWN_SEEDS, Absent, Access, apply, notice_seeds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..process import Process


def set_up(module: Any, process: Process) -> None:
    """Seed ``numpy.random`` right after its import."""
    process.modules["numpy"] = module
    notice_seeds(module, "seed", "numpy.random.seed", process)
    access = {**SEEDS, ENTROPY: Access(partial(_seed_entropy, process), _entropy, generator="numpy.entropy")}
    apply("numpy", module, process, access, str(getattr(sys.modules.get("numpy"), "__version__", "")))
    process.write()


def read_libraries(module: Any, process: Process) -> None:
    """Read back right after the import of ``numpy``, which loads ``numpy.random`` only when it is used."""
    apply("numpy", module, process, LIBRARIES, str(getattr(module, "__version__", "")))


def fill(module: Any, process: Process) -> None:
    """Have the memory of arrays filled; in an experiment, note which lines take such arrays."""
    from .. import fix_empty, fix_memory

    if process.callers is not None:
        fix_empty.note_calls(module, process.callers)
    try:
        fix_memory.fill_arrays(str(getattr(module, "__version__", "")))
    except OSError:
        if process.callers is not None:  # else memory is one of the things that are varied: small arrays are not, then
            raise


def _free(module: Any) -> bool:
    lock = module.mtrand._rand._bit_generator.lock
    if not lock.acquire(False):
        raise RuntimeError("forked while another thread was drawing numbers")
    lock.release()
    return True


def _first_word(module: Any, seed: int) -> Any:
    """Read the seed back: the first word of the state is an integer seed (numpy/random/src/mt19937/mt19937.c).

    Once numbers were drawn the state has moved on and does not hold it; then it is the seed that the program gave.
    """
    if "numpy.random.seed" in OWN_SEEDS:
        return OWN_SEEDS["numpy.random.seed"]
    state = module.get_state()
    return seed if state[2] != 624 or state[0] != "MT19937" else int(state[1][0])


def _state(module: Any) -> str:
    """Describe the global generator."""
    name, words, *rest = module.get_state()
    return f"{name} {sha256(bytes(words))} {rest}"


def _seed_entropy(process: Process, module: Any, value: int) -> None:
    from random import Random

    from ..lineage import derive

    place, inherited = process.origin("numpy")
    seed = derive(process.config.SEED, place, "entropy" + inherited)
    module.bit_generator.randbits = Random(seed).getrandbits  # noqa: S311 - it has to be predictable


def _entropy(module: Any, wanted: int) -> Any:
    """Return the seed if the stream is one that can be seeded."""
    from random import Random, SystemRandom

    owner = getattr(module.bit_generator.randbits, "__self__", None)
    return wanted if isinstance(owner, Random) and not isinstance(owner, SystemRandom) else "the system's entropy"


def _openblas(function: str, result: str) -> Any:
    """Return what a function of the loaded OpenBLAS returns; its names have affixes in the wheels of NumPy."""
    import ctypes

    library = ctypes.CDLL(_loaded("openblas"), mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    for affixes in (("scipy_", "64_"), ("scipy_", ""), ("", "64_"), ("", "")):
        called = getattr(library, function.join(affixes), None)
        if called is not None:
            called.restype = getattr(ctypes, result)
            return called()
    raise Absent


def _loaded(name: str) -> str:
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as stream:
        for line in stream:
            path = line.rstrip("\n").partition("/")[2]
            if name in path.rpartition("/")[2] and ".so" in path:
                return f"/{path}"
    raise Absent


def _blas_threads(wanted: str) -> str:
    """A build of OpenBLAS has a largest number of threads: taking that for a larger one is no failure."""
    found = int(_openblas("openblas_get_num_threads", "c_int"))
    config = _openblas("openblas_get_config", "c_char_p").decode()
    largest = config.partition("MAX_THREADS=")[2].split(" ")[0]
    return wanted if largest.isdigit() and found == int(largest) < int(wanted) else str(found)


def _blas_core(wanted: str) -> str:
    found = str(_openblas("openblas_get_corename", "c_char_p").decode())
    return wanted if found.lower() == wanted.lower() else found


def _features(wanted: str) -> str:
    """Return the text if none of the features in it is on, else those that are."""
    for name in ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath"):
        features = getattr(sys.modules.get(name), "__cpu_features__", None)
        if features is not None:
            on = [feature for feature in wanted.split() if features.get(feature)]
            return f"still on: {' '.join(on)}" if on else wanted
    raise Absent


ENTROPY = "numpy.random.bit_generator.randbits"
SEEDS = {
    "numpy.random.seed": Access(
        lambda module, value: module.seed.__wrapped__(value), _first_word, generator="numpy", draw=_state, ready=_free
    )
}
LIBRARIES = {
    "openblas_get_num_threads": Access(None, lambda module, wanted: _blas_threads(wanted)),
    "openblas_get_corename": Access(None, lambda module, wanted: _blas_core(wanted)),
    "numpy.__cpu_features__": Access(None, lambda module, wanted: _features(wanted)),
}
