"""GPUs as the files of NVIDIA's kernel module have them: nobody is asked, and none is woken.

Source: NVIDIA's README for Linux, "The /proc interface". There are no such files under WSL 2, and slices (MIG) are not
in them.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

FOLDER = Path("proc/driver/nvidia/gpus")
"""Below ``/``; one folder for each GPU, named by its place on the bus."""


class DriverGpu(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU.

    Attributes:
        name: of its model; empty if unknown.
        uuid: ``GPU-…``; empty if unknown, as of one that was never opened.
        minor: number of its device node, ``/dev/nvidiaN``; None if unknown.
    """

    name: str = ""
    uuid: str = ""
    minor: int | None = None


def driver_gpus(folder: Path) -> tuple[DriverGpu, ...]:
    """Return the GPUs in the order of the bus; none where there is no such folder, or it cannot be read.

    Args:
        folder: ``/proc/driver/nvidia/gpus``.
    """
    found = []
    with suppress(OSError):
        for each in sorted(folder.iterdir()):
            text = (each / "information").read_text(encoding="utf-8", errors="replace")
            pairs = (line.partition(":") for line in text.split("\n"))
            fields = {name.strip(): value.strip() for name, _, value in pairs}
            uuid, minor = fields.get("GPU UUID", ""), fields.get("Device Minor", "")
            found.append(
                DriverGpu(
                    name=fields.get("Model", ""),
                    uuid="" if "?" in uuid else uuid,
                    minor=int(minor) if minor.isdecimal() else None,
                )
            )
    return tuple(found)
