"""Numba: the generators of ``numpy.random`` and ``random`` inside compiled functions.

They are Numba's own, two for each thread, seeded from the system's entropy at their first use (numba/_random.c). This
seeds those of the main thread; those of the threads of ``parallel=True`` cannot be reached from here.
"""

from __future__ import annotations

import sys

from ..switching import Access, apply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..process import Process


_OTHER = 0x9E3779B9


def set_up(module: Any, process: Process) -> None:
    """Seed both generators right after the import."""
    if hasattr(sys.modules.get("numba._helperlib"), "rnd_seed"):
        apply("numba", module, process, ACCESS)


def _states() -> tuple[Any, Any, Any]:
    helper = sys.modules["numba._helperlib"]
    return helper, helper.rnd_get_np_state_ptr(), helper.rnd_get_py_state_ptr()


def _put(module: Any, seed: int) -> None:
    helper, of_numpy, of_random = _states()
    helper.rnd_seed(of_numpy, seed)
    helper.rnd_seed(of_random, seed ^ _OTHER)  # with one seed both would give the same numbers


def _get(module: Any, seed: int) -> Any:
    """Return the seed, the first word of a fresh state; once numbers were drawn the state does not hold it."""
    helper, state, _ = _states()
    index, words = helper.rnd_get_state(state)
    return int(words[0]) if index == len(words) else seed


def _draw(module: Any) -> str:
    """Describe both generators. The hash of a tuple of integers is the same in every process."""
    helper, *states = _states()
    return " ".join(str(hash((index, *words))) for index, words in map(helper.rnd_get_state, states))


ACCESS = {"numba._helperlib.rnd_seed": Access(_put, _get, generator="numba", draw=_draw)}
