"""A thread that hashes and writes, so that unpacking and writing overlap."""

from __future__ import annotations

import hashlib
import queue
import threading
from typing import BinaryIO


class Sink:
    """Hashes and writes chunks in a separate thread, so that unpacking and writing overlap; holds a few MiB."""

    def __init__(self, output: BinaryIO) -> None:
        self.hash = hashlib.sha256()
        self._output = output
        self._queue: queue.Queue[bytes | bytearray | None] = queue.Queue(maxsize=4)
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def put(self, chunk: bytes | bytearray) -> None:
        """Take a chunk, which must not be changed any more; raises what an earlier write raised."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._drain, name="layer-sink", daemon=True)
            self._thread.start()
        self._queue.put(chunk)
        if self._error is not None:
            raise self._error

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

    def _drain(self) -> None:
        while (chunk := self._queue.get()) is not None:
            if self._error is None:
                try:
                    self.hash.update(chunk)
                    write_all(self._output, chunk)
                except BaseException as error:
                    self._error = error


def write_all(output: BinaryIO, chunk: bytes | bytearray) -> None:
    """Write everything: an unbuffered file may take only a part, as it does just before a disk is full."""
    view = memoryview(chunk)
    while view:
        written = output.write(view)
        view = view[len(view) if written is None else written :]
