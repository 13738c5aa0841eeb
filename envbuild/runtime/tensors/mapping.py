"""Files and unpacked members as buffers that take no memory of their own: mapped, and their pages let go again.

What a process has mapped from a file is cache, which the kernel takes back when it needs room. Letting go of it now and
then keeps the process small all the same, so that a limit on resident memory (a container's, a test's) means something.
"""

from __future__ import annotations

import mmap
import tempfile
import weakref

from .contents import UnreadableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PIECE = 1 << 20
_maps: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()


def mapped(descriptor: int, size: int) -> memoryview:
    """Return ``size`` bytes of an open file, read-only; ``size`` is not 0."""
    found = mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)
    _maps.add(found)
    return memoryview(found)


def release() -> None:
    """Let go of the pages of all files that are mapped; what is looked at again is read again."""
    if hasattr(mmap, "MADV_DONTNEED"):
        for each in list(_maps):
            each.madvise(mmap.MADV_DONTNEED)


def spilled(stream: Any, size: int, folder: str) -> memoryview:
    """Write a stream of ``size`` bytes into a file that has no name, and map it.

    Args:
        folder: on a disk; one in memory would be memory.

    Raises:
        UnreadableError: the stream has another size.
        OSError: there is no room for it.
    """
    with tempfile.TemporaryFile(dir=folder) as file:
        left = size
        while left > 0 and (data := stream.read(min(_PIECE, left))):
            file.write(data)
            left -= len(data)
        if left or stream.read(1):
            raise UnreadableError(f"a member has not the {size} bytes that the archive states")
        file.flush()
        return mapped(file.fileno(), size)
