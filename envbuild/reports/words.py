"""How a report writes things: numbers, sizes, times, and any text that came from outside."""

from __future__ import annotations

import math

from envbuild.core.redact import mask_text
from envbuild.core.text import plain

SHORT = 10
"""How many characters of a run's identity are shown: its time in milliseconds."""


def clean(text: str) -> str:
    """Make a text safe to show: secrets masked, no control characters, no marks that turn the reading direction.

    What HTML itself could misread is left to the template's escaping.
    """
    return plain(mask_text(text))


def number(value: float, digits: int = 5) -> str:
    """Write a number with so many significant digits."""
    if math.isnan(value):
        return "not a number"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:.{digits}g}".replace("-", "−")


def time(recorded: str) -> str:
    """Write a recorded time, which is UTC whatever this machine's clock shows."""
    return f"{recorded[:10]} {recorded[11:19]} UTC"


def duration(seconds: float | None) -> str:
    """Write a duration in at most two units; empty for an unknown one."""
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = int(seconds) // 60
    return f"{minutes} min {int(seconds) % 60} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def letters(names: list[str]) -> str:
    """Join the names of runs: ``A``, ``A and B``, ``A, B and C``."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
