"""Loading: an image travels to the engine while its upper layers are still being made."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from queue import SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envbuild.engine.protocol import Engine
    from envbuild.image.oci import Blob, Image


class Loading:
    """Sends layers to an engine as they become ready; use as a context manager around the assembly.

    The names come last: if the assembly fails, or the image is not what it must be, the stream ends early and the
    engine keeps nothing.
    """

    def __init__(self, engine: Engine, tag: str) -> None:
        self._engine, self._tag = engine, tag
        self._held = engine.held_layers()
        self._chain: list[str] = []
        self._parts: SimpleQueue[Blob | Image | None] = SimpleQueue()
        self._image: Image | None = None
        self._failure: BaseException | None = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._send, name="load", daemon=True)
        self.shared = 0
        self.seconds = 0.0

    def __enter__(self) -> Loading:
        """Begin to send."""
        self._thread.start()
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        """End the stream early unless ``finish`` was called."""
        if self._thread.is_alive():
            self._parts.put(None)
            self._thread.join()

    def ready(self, index: int, blob: Blob) -> None:
        """Take a layer (0 is the bottom); one that the engine holds on the same layers below is not sent."""
        with self._lock:
            if index == len(self._chain):
                self._chain.append(blob.layer.diff_id)
                if any(list(held[: index + 1]) == self._chain for held in self._held):
                    self.shared += 1
                    return
        self._parts.put(blob)

    def finish(self, image: Image) -> None:
        """Send the names and wait for the engine; ``seconds`` is then how long that took.

        Raises:
            EngineError: the engine refused the image.
            BuildError: a layer's file was damaged.
        """
        began = time.monotonic()
        self._parts.put(image)
        self._thread.join()
        self.seconds = time.monotonic() - began
        if self._failure is not None:
            raise self._failure

    def _send(self) -> None:
        from envbuild.image.oci import growing_archive

        try:
            self._engine.load(growing_archive(self._layers(), self._named, self._tag))
        except BaseException as error:
            self._failure = error

    def _layers(self) -> Iterator[Blob]:
        """Give layers until the image is complete."""
        from envbuild.image.oci import Image

        while True:
            part = self._parts.get()
            if part is None:
                raise _GivenUpError
            if isinstance(part, Image):
                self._image = part
                return
            yield part

    def _named(self) -> Image:
        assert self._image is not None  # noqa: S101 - the layers end with it
        return self._image


class _GivenUpError(Exception):
    """The image was not completed."""
