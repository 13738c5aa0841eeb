"""How the guard's verdict reaches this process: through a pipe that the program cannot open.

``verdict.json`` is in a folder that the program writes to, so the program could forge it. Before the start a FIFO
is made next to it and opened for reading. The guard opens it for writing, removes its name, writes one line with the
verdict and one with the numeric fingerprint if there is one, and closes it, all before the program exists: nobody can
open it any more, and what was written waits here in the kernel. What the program does to files later changes nothing.

Where a folder cannot hold a FIFO that works (an engine in a virtual machine, some network file systems) the guard
finds no reader; the files are read then, and the record states it (``verdict_source``).
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from envbuild.core.fs import atomic_file, read_foreign
from envbuild.record.model import GuardVerdict, VerdictSource
from envbuild.record.processes import encodable, json_table

PIPE = "verdict.pipe"
"""Known to ``envbuild/runtime/guard/gate.py`` too."""
FILE = "verdict.json"
FINGERPRINT = "fingerprint.json"
_SIZE = 1 << 20
"""Bytes of the pipe, the most that Linux gives a user; a verdict takes a few KiB, a fingerprint too."""
_F_SETPIPE_SZ = 1031
_LARGEST = 16 << 20


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """The guard's messages.

    Attributes:
        verdict: None if there is none.
        source: ``pipe``; ``file``: the program could have written it; empty if there is no verdict.
    """

    verdict: GuardVerdict | None = None
    source: VerdictSource = ""


class VerdictPipe:
    """The reading end for one run; a context manager.

    Args:
        folder: what is mounted at ``/run/envbuild``.
        owner: user and group that the program runs as.
    """

    def __init__(self, folder: Path, owner: tuple[int, int]) -> None:
        self._folder, self._owner = folder, owner
        self._descriptor = -1

    def __enter__(self) -> VerdictPipe:
        """Make the pipe; without it files are read."""
        path = self._folder / PIPE
        with suppress(OSError):
            os.mkfifo(path, 0o600)
            if self._owner[0] != os.getuid():
                os.chown(path, *self._owner, follow_symlinks=False)
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
            fcntl.fcntl(self._descriptor, _F_SETPIPE_SZ, _SIZE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close and remove it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        with suppress(OSError):
            (self._folder / PIPE).unlink()

    def read(self) -> Heard:
        """Return the guard's messages; called once, when the program has ended.

        The files that the guard has written are then as the guard wrote them, whatever the program made of them.
        """
        lines = self._lines()
        verdict = _verdict(json_table(lines[0])) if lines else None
        if verdict is None:
            verdict = _verdict(json_table(read_foreign(self._folder / FILE, _LARGEST)))
            return Heard(verdict=verdict, source="" if verdict is None else "file")
        self._restore(FILE, lines[0])
        self._restore(FINGERPRINT, lines[1] if len(lines) > 1 else b"")
        return Heard(verdict=verdict, source="pipe")

    def _lines(self) -> list[bytes]:
        """Return the lines that wait in the pipe."""
        data = b""
        with suppress(OSError):  # nothing was written, and a writer is there
            while self._descriptor >= 0 and len(data) <= _SIZE and (part := os.read(self._descriptor, _SIZE)):
                data += part
        return data.splitlines()

    def _restore(self, name: str, text: bytes) -> None:
        """Put a file back as the guard wrote it; empty: the guard wrote none."""
        with suppress(OSError):
            (self._folder / name).unlink(missing_ok=True)
            if text:
                with atomic_file(self._folder / name, sync=False, hand_over=True) as stream:
                    stream.write(text + b"\n")


def _verdict(table: dict[str, Any] | None) -> GuardVerdict | None:
    """Return the guard's verdict; None for what the guard did not write."""
    try:
        return msgspec.convert(encodable(table), GuardVerdict | None)
    except (msgspec.ValidationError, ValueError, RecursionError):
        return None
