"""What a program read from its standard input, as far as that can be known without standing between the two."""

from __future__ import annotations

import os
import stat

from envbuild.record.model import StandardInput

_MOST = 1 << 30
"""Bytes of the largest input whose content is read for its digest: about a second."""
_BLOCK = 1 << 20


class InputWatch:
    """Remembers the standard input of this process before a run, and describes it after."""

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self._start = 0
        try:
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISREG(mode):
                self._start = os.lseek(descriptor, 0, os.SEEK_CUR)
        except OSError:  # it is closed
            mode = stat.S_IFCHR
        self._mode = mode

    def result(self) -> StandardInput:
        """Describe what was there; of a file that something was read of all from where the program began.

        The program has the same open file, or a copy of all of it: who read moved the position in it, but for one that
        opened ``/dev/stdin``, which begins anew. So a file whose position has not moved is described as a whole.
        """
        if stat.S_ISCHR(self._mode):
            return StandardInput(kind="terminal" if _is_terminal(self._descriptor) else "none")
        if not stat.S_ISREG(self._mode):
            return StandardInput(kind="pipe")
        try:
            if os.lseek(self._descriptor, 0, os.SEEK_CUR) == self._start:
                return self._file(0, unread=True)
            return self._file(self._start)
        except OSError:
            return StandardInput(kind="file")

    def _file(self, start: int, *, unread: bool = False) -> StandardInput:
        from hashlib import sha256

        size = max(0, os.fstat(self._descriptor).st_size - start)
        if size > _MOST:
            return StandardInput(kind="file", size=size, unread=unread)
        digest, place = sha256(), start
        while block := os.pread(self._descriptor, min(_BLOCK, start + size - place), place):
            digest.update(block)
            place += len(block)  # what is written to it meanwhile is not waited for
        return StandardInput(kind="file", size=size, sha256=digest.hexdigest(), unread=unread)


def _is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False
