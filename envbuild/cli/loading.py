"""Loading: an image travels to the engine while its upper layers are still being made.

An engine that takes layers from itself (``held_layers``) first gets the lower part, operating system and wheels, as an
image of its own: it unpacks those gigabytes while bytecode is compiled. Then it gets the whole image, without them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

from envbuild.engine.protocol import Engine
from envbuild.errors import EnvbuildError
from envbuild.image import oci
from envbuild.image.plan import Plan


class Loading:
    """Sends layers to an engine as they become ready; use as a context manager around the assembly.

    The names come last: if the assembly fails, or the image is not what it must be, the stream ends early and the
    engine keeps nothing.

    Attributes:
        shared: number of layers that need not be sent, because the engine holds them.
        seconds: how long ``finish`` waited.
    """

    def __init__(self, engine: Engine, tag: str, plan: Plan) -> None:
        self._engine, self._tag, self._plan = engine, tag, plan
        self._held = engine.held_layers()
        self._changed = threading.Condition()
        self._blobs: dict[int, oci.Blob] = {}
        self._new: set[int] = set()
        self._image: oci.Image | None = None
        self._given_up = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._send, name="load", daemon=True)
        self.seconds = 0.0

    def __enter__(self) -> Loading:
        """Begin to send."""
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """End the stream early unless ``finish`` was called."""
        with self._changed:
            self._given_up = self._image is None
            self._changed.notify_all()
        self._thread.join()

    @property
    def shared(self) -> int:
        """How many layers the engine held before."""
        return len(self._blobs) - len(self._new)

    def ready(self, index: int, blob: oci.Blob) -> None:
        """Take a layer (0 is the bottom); one that the engine holds on the same layers below is not sent."""
        with self._changed:
            self._blobs[index] = blob
            chain = [self._blobs[number].layer.diff_id for number in range(index + 1) if number in self._blobs]
            if not any(list(held[: index + 1]) == chain for held in self._held or ()):
                self._new.add(index)
            self._changed.notify_all()

    def finish(self, image: oci.Image) -> None:
        """Send what is left and the names, and wait for the engine.

        Raises:
            EngineError: the engine refused the image.
            BuildError: a layer's file was damaged.
        """
        began = time.monotonic()
        with self._changed:
            self._image = image
            self._changed.notify_all()
        self._thread.join()
        self.seconds = time.monotonic() - began
        if self._failure is not None:
            raise self._failure

    def _send(self) -> None:
        """Send everything, in one stream or two."""
        kinds = [layer.kind for layer in self._plan.layers]
        lower = kinds.index("bytecode") if "bytecode" in kinds and self._held is not None else 0
        part = f"envbuild-part:{self._plan.lock[:12]}"
        try:
            if lower and self._has_new(lower):
                self._engine.load(oci.growing_archive(self._stream(0, lower), lambda: self._part(lower), part))
            self._engine.load(oci.growing_archive(self._stream(lower, len(kinds)), self._whole, self._tag))
        except BaseException as error:
            self._failure = error
        finally:
            if lower:
                with suppress(EnvbuildError):
                    self._engine.remove_image(part)

    def _stream(self, begin: int, end: int) -> Iterator[oci.Blob]:
        """Give the layers from ``begin`` to ``end`` that the engine lacks, as they come."""
        waiting = set(range(begin, end))
        while waiting:
            self._wait(lambda: not waiting.isdisjoint(self._blobs))
            for index in sorted(waiting.intersection(self._blobs)):
                waiting.discard(index)
                if index in self._new:
                    yield self._blobs[index]

    def _has_new(self, count: int) -> bool:
        """Wait until it is known whether the engine lacks any of the lowest layers."""
        lowest = set(range(count))
        self._wait(lambda: not lowest.isdisjoint(self._new) or lowest.issubset(self._blobs))
        return not lowest.isdisjoint(self._new)

    def _part(self, count: int) -> oci.Image:
        """Name the lowest layers as an image."""
        plan = replace(self._plan, layers=self._plan.layers[:count])
        return oci.image(plan, [self._blobs[index] for index in range(count)])

    def _whole(self) -> oci.Image:
        """Wait for the whole image."""
        self._wait(lambda: self._image is not None)
        assert self._image is not None  # noqa: S101 - waited for
        return self._image

    def _wait(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._given_up or condition())
            if self._given_up:
                raise _GivenUpError


class _GivenUpError(Exception):
    """The image was not completed."""
