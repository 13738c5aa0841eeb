"""Files that are whole or absent: atomic writes and advisory locks.

Write to a temporary name in the same folder, fsync, rename: a killed command leaves the old file valid.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def atomic_file(path: Path, *, mode: int = 0o644) -> Iterator[BinaryIO]:
    """Open a temporary file that takes ``path``'s name when the block ends well, and vanishes otherwise.

    Args:
        path: final name; its folder is made if need be.
        mode: permission bits of the final file, whatever the umask.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w+b") as stream:
            yield stream
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        Path(name).replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            Path(name).unlink()
        raise


def atomic_write(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Write ``data`` to ``path`` as ``atomic_file`` does; an equal file is left alone."""
    with suppress(OSError):
        if path.read_bytes() == data:
            return
    with atomic_file(path, mode=mode) as stream:
        stream.write(data)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive advisory lock on ``path`` (made if need be); the kernel frees it if the process dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
