"""The file of a step trace: what it holds, byte for byte. ``envbuild/trace/file.py`` reads it.

A file is ``MAGIC`` and then frames, each written with one call as soon as it is known, so that a process which is
killed loses nothing that was written and damages at most its last frame:

    length  uint32, of the body
    check   uint32, CRC-32 of the length's four bytes and the body
    body    its kind, one byte, and its content

    H  JSON: format, process (its path, docs/reference/guard.md), pid, python, interval
    G  JSON: group (a number), source, label, tensors: list of [name, dtype, shape]
    V  values of a tensor: STEP's group and step, uint32 place in the group, then the bytes; comes before its S
    S  STEP, then for each observation a uint8 length, its name and a float64, then for each tensor of the group a
       uint64 digest, then, if the flag FIGURED is set, for each tensor seven float64 (``trace_measure``)
    N  text: something was left out, and why
    E  empty: the process closed the trace; a killed one does not

All numbers are little-endian.
"""

from __future__ import annotations

import os
import struct
from zlib import crc32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

FORMAT = 1
MAGIC = b"ENVTRC1\n"
FRAME = struct.Struct("<II")
STEP = struct.Struct("<IQIiIBBQ")
"""Group, step, optimiser steps since the entry before, epoch (-1: unknown), place in the epoch (0: unknown), flags,
number of observations, digest of the batch."""
VALUED = struct.Struct("<IQI")
FIGURED, BATCH = 1, 2
"""Flags of a step: it has figures; it has the digest of a batch."""


class Writer:
    """One open file.

    Args:
        path: must not exist.

    Raises:
        OSError: it exists, or cannot be written.
    """

    def __init__(self, path: str) -> None:
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self.size = 0
        self._write(MAGIC)

    def frame(self, kind: bytes, *parts: bytes) -> None:
        """Append a frame; raises ``OSError`` if it cannot be written whole."""
        body = b"".join((kind, *parts))
        length = len(body).to_bytes(4, "little")
        self._write(b"".join((length, crc32(body, crc32(length)).to_bytes(4, "little"), body)))

    def _write(self, data: bytes) -> None:
        written = os.write(self.descriptor, data)
        self.size += written
        while written < len(data):  # a full disk, or more than 2 GiB at once
            more = os.write(self.descriptor, data[written:])
            written, self.size = written + more, self.size + more

    def close(self) -> None:
        """Close the file."""
        os.close(self.descriptor)


def create(folder: str, lineage: str) -> Writer:
    """Open the file of a process; several of one lineage (a launcher's, a program started twice) are numbered.

    Raises:
        OSError: the folder cannot be written to.
    """
    name = "".join(c if c.isalnum() or c in "._-" else "-" for c in lineage) or "main"
    for number in range(1, 10_000):
        try:
            return Writer(os.path.join(folder, f"trace-{name}{f'.{number}' if number > 1 else ''}.bin"))
        except FileExistsError:
            pass
    raise OSError(f"{folder} has too many traces of one process")


def step_body(
    *,
    group: int,
    step: int,
    covers: int,
    epoch: int | None,
    place: int,
    observed: Mapping[str, float],
    batch: int | None,
    digests: Sequence[int],
    figures: Iterable[float] | None,
) -> list[bytes]:
    """Return the parts of an S frame."""
    flags = (FIGURED if figures is not None else 0) | (BATCH if batch is not None else 0)
    known = [(name.encode("utf-8", "backslashreplace")[:255], number) for name, number in observed.items()][:255]
    head = STEP.pack(group, step, covers, -1 if epoch is None else epoch, place, flags, len(known), batch or 0)
    parts = [head]
    for name, number in known:
        parts += (bytes((len(name),)), name, struct.pack("<d", number))
    parts.append(struct.pack(f"<{len(digests)}Q", *digests))
    if figures is not None:
        numbers = list(figures)
        parts.append(struct.pack(f"<{len(numbers)}d", *numbers))
    return parts
