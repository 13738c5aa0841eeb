"""Names of processor architectures: Debian's, which for these are Go's too, and the kernel's."""

from __future__ import annotations

import os

MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""What ``uname -m`` prints, and platform tags of wheels end in, by Debian's name."""


def own_machine() -> str:
    """Return this machine as ``uname -m`` names it."""
    return os.uname().machine


def architecture_of(machine: str) -> str:
    """Return Debian's name for a machine that ``uname -m`` names; that name itself where no other is known."""
    return next((name for name, known in MACHINES.items() if known == machine), machine)
