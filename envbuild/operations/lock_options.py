"""What can change a lock, in addition to its spec. Values only."""

from __future__ import annotations

from dataclasses import dataclass

PYTHON = "python"
"""By which ``--upgrade-package`` moves a standalone Python."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LockOptions:
    """What can change the lock, in addition to the spec.

    Attributes:
        resolver: resolves the Python part: ``uv`` or ``pip-tools``.
        cross_check: resolve with both, and refuse if the pins differ.
        upgrade: move every pin to its newest version.
        upgrade_packages: move these packages, and only what they force.
        refresh: request the indexes again, however fresh the cache is.
        host: what to lock for: the file of a host description, ``detect``, ``none``; empty: as before.
        variant: lock this variant of the spec only; empty: all that it has.
        platform: lock for this platform of the spec only; empty: all that it has.
    """

    resolver: str = "uv"
    cross_check: bool = False
    upgrade: bool = False
    upgrade_packages: tuple[str, ...] = ()
    refresh: bool = False
    host: str = ""
    variant: str = ""
    platform: str = ""
