"""envbuild: machine-learning training that repeats to the last bit, or refuses to start and explains why.

The verbs are functions of this package, described in ``envbuild.api``; nothing of it is loaded before it is used.
"""

from __future__ import annotations

TYPE_CHECKING = (
    False  # without ``typing``, which takes 10 ms: the process that makes namespaces has no other use for it
)
if TYPE_CHECKING:
    from typing import Any

    from envbuild.api import build, diff, fetch, lock, open, report, run, verify

__version__ = "0.1.0"
__all__ = ["__version__", "build", "diff", "fetch", "lock", "open", "report", "run", "verify"]


def __getattr__(name: str) -> Any:
    """Load the verbs when one is first used."""
    if name in __all__:
        from envbuild import api

        return getattr(api, name)
    raise AttributeError(f"module 'envbuild' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Name the verbs, for completion."""
    return sorted({*globals(), *__all__})
