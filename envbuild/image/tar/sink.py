"""A thread that hashes and writes, so that unpacking and writing overlap."""

from __future__ import annotations

import hashlib
import os
import queue
import threading
from pathlib import Path
from typing import BinaryIO, Protocol, runtime_checkable

from envbuild.errors import BuildError

_CHUNK = 1 << 20


@runtime_checkable
class Adopter(Protocol):
    """An output that takes a file as it is, instead of its bytes."""

    def adopt(self, head: bytes, path: str) -> None:
        """Take the headers of a file's entry, and move the file away.

        Raises:
            BuildError, OSError: as its ``write`` does, or the file is of another kind or size.
        """


class Sink:
    """Hashes and writes chunks in a separate thread, so that unpacking and writing overlap; holds a few MiB.

    Files that an output takes as they are need no unpacking, and two threads that both make system calls would wait for
    each other's turn with the interpreter longer than they work: from the first of them on there is no thread.
    """

    def __init__(self, output: BinaryIO) -> None:
        self.hash = hashlib.sha256()
        self._output = output
        self._adopter = output if isinstance(output, Adopter) else None
        self._queue: queue.Queue[bytes | bytearray | tuple[bytes, Path, int, bytes] | None] = queue.Queue(maxsize=4)
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._alone = False

    def put(self, chunk: bytes | bytearray) -> None:
        """Take a chunk, which must not be changed any more; raises what an earlier write raised."""
        self._put(chunk)

    def put_file(self, head: bytes, path: Path, size: int, tail: bytes) -> None:
        """Take a file between two pieces; an output that is an ``Adopter`` gets the file itself, and no tail.

        Args:
            size: bytes that it must have; another number is a ``BuildError``.
        """
        if self._adopter is not None and not self._alone:
            self.finish()
            self._alone = True
        self._put((head, path, size, tail))

    def finish(self) -> None:
        """Wait for the last write; raises what it raised."""
        self.stop()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """End the thread."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _put(self, item: bytes | bytearray | tuple[bytes, Path, int, bytes]) -> None:
        if self._alone:
            self._take_item(item)
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._drain, name="layer-sink", daemon=True)
            self._thread.start()
        self._queue.put(item)
        if self._error is not None:
            raise self._error

    def _drain(self) -> None:
        while (item := self._queue.get()) is not None:
            if self._error is None:
                try:
                    self._take_item(item)
                except BaseException as error:
                    self._error = error

    def _take_item(self, item: bytes | bytearray | tuple[bytes, Path, int, bytes]) -> None:
        if isinstance(item, tuple):
            self._take_file(*item)
        else:
            self._take(item)

    def _take(self, chunk: bytes | bytearray) -> None:
        self.hash.update(chunk)
        write_all(self._output, chunk)

    def _take_file(self, head: bytes, path: Path, size: int, tail: bytes) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb", buffering=0) as stream:
            adopted = self._adopter is not None
            if self._adopter is not None:
                self._adopter.adopt(head, str(path))
                self.hash.update(head)
            else:
                self._take(head)
            left = size
            while chunk := stream.read(min(_CHUNK, left + 1)):
                left -= len(chunk)
                if left < 0:
                    break
                self.hash.update(chunk) if adopted else self._take(chunk)
        if left:
            raise BuildError(f"{path.name!r} has changed while it was read: expected {size} bytes, found {size - left}")
        self.hash.update(tail) if adopted else self._take(tail)


def write_all(output: BinaryIO, chunk: bytes | bytearray) -> None:
    """Write everything: an unbuffered file may take only a part, as it does just before a disk is full."""
    view = memoryview(chunk)
    while view:
        written = output.write(view)
        view = view[len(view) if written is None else written :]
