"""Folders far below another one, opened by one call: name by name, a tree of n levels takes n² calls.

Source: openat2(2), Linux 5.6.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from contextlib import suppress

_OPENAT2 = 437
"""Number of the call on all machines."""
_NO_SYMLINKS = 0x04


def open_below(folder: int, names: Sequence[str], flags: int) -> int | None:
    """Open a folder below an open one, where no name on the way may be a link; None where that fails for any reason.

    Whoever opens name by name then finds out what it is: also a kernel or a filter that does not know the call.

    Args:
        folder: descriptor.
        names: of the folders on the way, none of them ``..`` or with a slash in it.
        flags: as for open(2).
    """
    with suppress(ImportError, OSError, ValueError):
        import ctypes

        how = struct.pack("=QQQ", flags, 0, _NO_SYMLINKS)
        path = os.fsencode("/".join(names))
        if b"\0" not in path:
            descriptor = int(ctypes.CDLL(None).syscall(_OPENAT2, folder, path, how, len(how)))
            return None if descriptor < 0 else descriptor
    return None
