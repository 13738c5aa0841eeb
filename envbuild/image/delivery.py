"""Loading: an image travels to the engine while its upper layers are still being made.

As soon as the lowest layers are there, they go ahead as a separate image: the engine unpacks those gigabytes while
bytecode is compiled. What follows later is only what is above. If the image is recorded next to the lock, since it was
made before, here or elsewhere, then the engine pulls all of it from the beginning: each layer travels while it is
written.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec

from envbuild.core.blob import FileBlob
from envbuild.core.progress import Advance, Progress
from envbuild.engine.protocol import Delivered, Engine, Parcel
from envbuild.errors import EngineError
from envbuild.image.layer_cache import KIND, TAR, Cache
from envbuild.image.oci import layout
from envbuild.image.plan.model import Plan

_WORTH = 8 << 20
"""A part goes ahead if it brings that many bytes: each costs the engine about a tenth of a second."""

_LAST_WORDS = 10.0
"""Seconds that an interrupted delivery has to take its names away."""


class Loading:
    """Sends layers to an engine as they become ready; use as a context manager around the assembly.

    The name comes last: if the assembly fails, or the image is not what it must be, the engine keeps nothing.

    Attributes:
        seconds: how long ``finish`` waited.
    """

    def __init__(
        self, engine: Engine, tag: str, plan: Plan, progress: Progress, expected: Sequence[FileBlob] | None = None
    ) -> None:
        """Prepare.

        Args:
            tag: what the image will be called.
            expected: the layers the image will have, bottom first, if they are known; they have no files yet. An image
                with others fails.
        """
        self._engine, self._tag, self._plan, self._progress = engine, tag, plan, progress
        self._expected = expected
        self._changed = threading.Condition()
        self._blobs: dict[int, FileBlob] = {}
        self._begun: dict[int, Path] = {}
        self._image: layout.Image | None = None
        self._over = False
        self._outcome: Delivered | BaseException | None = None
        self._thread = threading.Thread(target=self._deliver, name="delivery", daemon=True)
        self.seconds = 0.0

    def __enter__(self) -> Loading:
        """Begin to send."""
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """End the delivery early unless ``finish`` has seen its end."""
        with self._changed:
            self._over = True
            self._changed.notify_all()
        self._thread.join(_LAST_WORDS)

    def ready(self, index: int, blob: FileBlob) -> None:
        """Take a layer; 0 is the bottom."""
        with self._changed:
            self._blobs[index] = blob
            self._changed.notify_all()

    def watching(self, cache: Cache) -> Cache:
        """Wrap a cache, so that layers are known from the moment they are begun."""
        return _Watched(cache, {spec.key: index for index, spec in enumerate(self._plan.layers)}, self._begun)

    def finish(self, image: layout.Image) -> Delivered:
        """Send what is left and the name, and wait for the engine.

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
        if isinstance(self._outcome, Delivered):
            return self._outcome
        if isinstance(self._outcome, EngineError):
            for blob in image.layers:
                if blob.path.exists():  # else it is a tree, which no engine but the local one takes
                    layout.check(blob)
        assert self._outcome is not None  # noqa: S101 - the thread has ended
        raise self._outcome

    def _deliver(self) -> None:
        try:
            self._outcome = self._engine.deliver(self._parcels(), self._tag, _Stopping(self._progress, self._stop))
        except BaseException as error:
            self._outcome = error

    def _parcels(self) -> Iterator[Parcel]:
        """Give the lowest layers whenever there are enough more of them, then the whole image."""
        count = 0
        if self._expected is not None:
            count = len(self._expected)
            yield self._parcel(layout.image(self._plan, self._expected))
        while self._image is None:
            self._wait(partial(self._is_worth, count))
            if self._image is None:
                count = self._ready()
                plan = replace(self._plan, layers=self._plan.layers[:count])
                yield self._parcel(layout.image(plan, [self._blobs[index] for index in range(count)]))
        yield self._parcel(self._image)

    def _ready(self) -> int:
        """How many of the lowest layers are there."""
        return next(count for count in range(len(self._blobs) + 1) if count not in self._blobs)

    def _is_worth(self, count: int) -> bool:
        """Whether the image is whole, or enough has become ready above its lowest ``count`` layers.

        The uppermost layer is made in no time: where it alone is missing, all go together.
        """
        ready = self._ready()
        new = sum(self._blobs[index].size for index in range(count, ready))
        return self._image is not None or (new >= _WORTH and ready < len(self._plan.layers) - 1)

    def _parcel(self, image: layout.Image) -> Parcel:
        parcel = layout.parcel(image, self._tag)
        layers = [
            msgspec.structs.replace(layer, file=partial(self._file, index)) for index, layer in enumerate(parcel.layers)
        ]
        return msgspec.structs.replace(parcel, layers=tuple(layers))

    def _file(self, index: int) -> tuple[Path, bool] | None:
        """Where a layer's file is, and whether it is whole; None if it has not been begun.

        Raises:
            _GivenUpError: it never will be, and an engine that was promised it must not wait.
        """
        with self._changed:
            if index in self._blobs:
                return self._blobs[index].path, True
            self._stop()
            return (self._begun[index], False) if index in self._begun else None

    def _wait(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._over or condition())
        self._stop()

    def _stop(self) -> None:
        """End the delivery's thread if nobody waits for its end any more."""
        if self._over:
            raise _GivenUpError


class _Watched:
    """A ``Cache`` that notes where layers are being written."""

    def __init__(self, cache: Cache, indexes: Mapping[str, int], begun: dict[int, Path]) -> None:
        self._cache, self._indexes, self._begun = cache, indexes, begun
        self.path, self.derived, self.forget = cache.path, cache.derived, cache.forget

    def derive(self, kind: str, key: str, make: Callable[[Path], None]) -> Path:
        """Return the folder for ``key``; see ``Cache``."""

        def write_note(folder: Path) -> None:
            if kind == KIND and key in self._indexes:
                self._begun[self._indexes[key]] = folder / TAR
            make(folder)

        return self._cache.derive(kind, key, write_note)


class _Stopping:
    """A progress reporter that cancels its producer."""

    def __init__(self, progress: Progress, stop: Callable[[], None]) -> None:
        self._progress, self._stop = progress, stop

    def phase(self, name: str, total: int | None = None, *, unit: str = "B") -> AbstractContextManager[Advance]:
        """Open a phase."""
        return self._phase(name, total, unit)

    @contextmanager
    def _phase(self, name: str, total: int | None, unit: str) -> Iterator[Advance]:
        with self._progress.phase(name, total, unit=unit) as advance:

            def advance_or_stop(amount: int) -> None:
                self._stop()
                advance(amount)

            yield advance_or_stop


class _GivenUpError(Exception):
    """The image was not completed."""
