"""JAX: keys are explicit, so that there is no seed to set; what it made of the locked variables is read back.

XLA ends the process at the first flag in ``XLA_FLAGS`` that it does not know, when the first array is made
(xla/parse_flags_from_env.cc). Each flag's name is a text in jaxlib's libraries, so it is looked for before.
"""

from __future__ import annotations

import os
import sys

from .. import refusals
from ..switching import Absent, Access, apply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..process import Process

_TRUE = frozenset(("1", "true", "yes", "on", "y", "t"))


def set_up(module: Any, process: Process) -> None:
    """Read back what JAX reads from the environment."""
    process.modules["jax"] = module
    refusals.watch(process)
    apply("jax", module, process, ACCESS, str(getattr(module, "__version__", "")))
    process.write()


def _flag(module: Any, wanted: str) -> str:
    found = bool(module.config.jax_threefry_partitionable)
    return wanted if found == (wanted.lower() in _TRUE) else str(found)


def _unknown(text: str) -> str:
    """Return the text if jaxlib knows all the flags in it, else those that it does not know."""
    names = [word.partition("=")[0] for word in text.split()]
    libraries = _libraries()
    missing = [name for name in names if not any(_holds(path, name) for path in libraries)]
    return f"unknown to this jaxlib: {' '.join(missing)}" if missing else text


def _libraries() -> list[str]:
    """Return jaxlib's libraries, the largest first: it has nearly all names."""
    folder = os.path.dirname(getattr(sys.modules.get("jaxlib"), "__file__", None) or "")
    if not folder:
        raise Absent
    found = [entry for entry in os.scandir(folder) if ".so" in entry.name and entry.is_file()]
    if not found:
        raise Absent
    return [entry.path for entry in sorted(found, key=lambda entry: (-entry.stat().st_size, entry.name))]


def _holds(path: str, flag: str) -> bool:
    """Return whether a library has a flag's name as a text of its own."""
    import mmap

    with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(b"%s\0" % flag.removeprefix("--").encode()) >= 0


def _collectives(module: Any, wanted: str) -> str:
    """Return what carries sums between processes on CPUs; in some versions an unset option has no attribute."""
    return str(getattr(module.config, "jax_cpu_collectives_implementation", "") or "none")


ACCESS = {
    "jax_threefry_partitionable": Access(None, _flag),
    "jax_default_matmul_precision": Access(
        None, lambda module, wanted: str(module.config.jax_default_matmul_precision)
    ),
    "jax_cpu_collectives_implementation": Access(None, _collectives),
    "XLA_FLAGS": Access(None, lambda module, wanted: _unknown(wanted)),
}
