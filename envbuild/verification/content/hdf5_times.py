"""Times in HDF5 files: objects have the second in which they were made, if a program does not switch that off.

Such files are read in the image where that has h5py (``Output.content``). Where it has not, as with PyTables, all bytes
count but for these times, which a message in an object's header has (HDF5 File Format Specification, IV.A.2.s).
"""

from __future__ import annotations

import re

from envbuild.core.patterns import lazy
from envbuild.verification.content.canonical import Canonical

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_TIME = lazy(rb"\x12\x00\x08\x00[\x00-\x3f]\x00\x00\x00\x01\x00\x00\x00(....)", re.DOTALL)
"""Kind of message, its size, flags, three bytes of nothing, version 1, three of nothing, seconds since 1970."""


def is_hdf5(data: bytes) -> bool:
    """Whether data are an HDF5 file with such a time."""
    return data.startswith(_SIGNATURE) and _TIME.search(data) is not None


def read_hdf5(out: Canonical, path: str, data: bytes) -> None:
    """Count all bytes but times of the run."""
    end = 0
    for found in _TIME.finditer(data):
        seconds = int.from_bytes(found[1], "little")
        if not out.is_during(seconds):
            continue
        out.add(f"{path} byte {end}".strip(), data[end : found.start(1)])
        out.leave_out(f"{path} times of objects".strip(), str(seconds), "time", during=True)
        end = found.end(1)
    out.add(f"{path} byte {end}".strip(), data[end:])
