"""SQLite: the generator of ``random()`` and ``randomblob()`` in SQL.

No SQL seeds it. ``sqlite3_test_control(SQLITE_TESTCTRL_PRNG_SEED, seed, NULL)`` does, in any build since 3.29.
SQLite takes its names of temporary files from the same generator, and tries the next one where a file exists. Where the
library is linked into Python and exports no such function, its numbers stay the system's.

TensorFlow has a copy of its own, whose functions all libraries that are loaded later call (``RTLD_GLOBAL``), the shared
library's own calls among them: then the copy is the one to seed, and half a call of each is a crash.
"""

from __future__ import annotations

from ..switching import Access, apply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..process import Process

_PRNG_SEED = 28
"""SQLITE_TESTCTRL_PRNG_SEED of sqlite3.h."""
_MASK = 0x7FFFFFFF
"""The seed is an int of C, and 0 asks for entropy."""


def set_up(module: Any, process: Process) -> None:
    """Seed the generator right after the import of ``sqlite3``."""
    if module.sqlite_version_info >= (3, 29) and (library := _library()) is not None:
        _seeded.append(library)
        apply("sqlite3", module, process, ACCESS)


_seeded: list[Any] = []
"""The library that the module calls, as it was right after its import."""


def _library() -> Any:
    """Return the library that is called: everyone's, a shared one, or the module's own; None without the function."""
    import ctypes

    everyones = ctypes.CDLL(None)
    if hasattr(everyones, "sqlite3_initialize"):
        return everyones if _has_functions(everyones) else None
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as stream:
        paths = {line.rstrip("\n").partition("/")[2] for line in stream if "sqlite3" in line}
    for path in sorted(paths, key=lambda path: "libsqlite3" not in path):
        library = ctypes.CDLL(f"/{path}")
        if _has_functions(library):
            return library
    return None


def _has_functions(library: Any) -> bool:
    return hasattr(library, "sqlite3_test_control") and hasattr(library, "sqlite3_randomness")


def _put(module: Any, seed: int) -> None:
    _seeded[-1].sqlite3_test_control(_PRNG_SEED, seed & _MASK or 1, None)


def _get(module: Any, wanted: int) -> Any:
    """Return the seed if a draw repeats after it. The generator is at its start afterwards: at the end nobody draws."""
    import ctypes

    library = _seeded[-1]
    draws = []
    for _ in range(2):
        _put(module, wanted)
        buffer = ctypes.create_string_buffer(8)
        library.sqlite3_randomness(8, buffer)
        draws.append(buffer.raw)
    _put(module, wanted)
    return wanted if draws[0] == draws[1] else "the system's entropy"


ACCESS = {
    "sqlite3_test_control": Access(_put, _get, generator="sqlite3"),
}
