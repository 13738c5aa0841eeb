"""Options that leave something out of the comparison: ``--ignore PATTERN``."""

from __future__ import annotations

import shlex

from envbuild.core.patterns import lazy

_MARK = lazy("⟨[^⟩]*⟩")
"""Where runs have other names for the same file, in the name for all of them: ``runs/⟨date⟩/w.npy``."""
_SPECIAL = lazy(r"[*?[]")


def ignoring(name: str, *, metric: bool = False) -> str:
    """Return the option that leaves a file, a metric or a stream out of the comparison, as a shell takes it.

    Args:
        name: as a verdict has it, also one for all runs with a mark in it.
        metric: whether it is the name of a metric.
    """
    pattern = "*".join(_SPECIAL.sub(r"[\g<0>]", part) for part in _MARK.split(name))
    return f"--ignore {shlex.quote(f'metric:{pattern}' if metric else pattern)}"
