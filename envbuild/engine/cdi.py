"""Container Device Interface: what is common to those who let an engine read descriptions and who read them themselves.

Source: https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from envbuild.core.patterns import lazy
from envbuild.engine.protocol import Gpus, refuse_fewer

KIND = "nvidia.com/gpu"
FOLDERS = ("/etc/cdi", "/var/run/cdi")
SUFFIXES = (".yaml", ".json")
_INDEX = lazy(r"\d+(?::\d+)?")


def chosen_names(gpus: Gpus, listed: tuple[str, ...]) -> tuple[str, ...]:
    """Choose names for a count (0: all GPUs): the lowest indexes, or identities in order where no index is listed.

    A device is listed under several names; fewer are chosen if there are fewer, and the guard judges what it sees.

    Raises:
        GpusRefusedError: exactly so many are wanted, and fewer are listed.
    """
    count = gpus.count
    if not listed:
        return tuple(str(index) for index in range(count)) or ("all",)
    if not count and "all" in listed:
        return ("all",)
    indexes = sorted((name for name in listed if _INDEX.fullmatch(name)), key=_numbers)
    names = indexes or sorted(name for name in listed if name != "all") or ["all"]
    if names != ["all"]:
        refuse_fewer(gpus, len(names))
    return tuple(names[: count or None])


def _numbers(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in name.split(":"))


def describes_gpus(folder: str) -> bool:
    """Return whether a CDI folder of this machine describes NVIDIA's GPUs."""
    try:
        paths = sorted(path for path in Path(folder).iterdir() if path.suffix in SUFFIXES)
    except OSError:
        return False
    for path in paths:
        with suppress(OSError), path.open("rb") as stream:
            if re.search(rb"\bnvidia\.com/gpu\b", stream.read(1 << 20)):
                return True
    return False
