"""Base images straight from their registry, for machines without a container engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

from envbuild.engine.protocol import ImageInfo
from envbuild.errors import EngineError, EnvbuildError, RegistryError, UsageError
from envbuild.operations.events import Events
from envbuild.store.objects import Store

if TYPE_CHECKING:
    from envbuild.registry.image import RemoteImage, RemoteLayer

_RATIO, _ROOM = 100, 64 << 20
"""A layer may be so many times as large as its blob, and so many bytes more: nothing states its size."""


class RegistryImages:
    """Implements ``envbuild.engine.protocol.BaseImages``.

    Args:
        store: keeps layers.
        events: receives progress.
    """

    def __init__(self, store: Store, events: Events) -> None:
        self._store, self._events = store, events
        self._found: dict[str, RemoteImage] = {}

    def find_image(self, reference: str) -> ImageInfo | None:
        """Look up an image that was pulled by this object; see ``ImageFinder``."""
        image = self._found.get(reference)
        if image is None:
            return None
        settings: Mapping[str, object] = image.document.get("config") or {}
        variables = settings.get("Env")
        return ImageInfo(
            config=image.config_digest,
            tags=(),
            diff_ids=tuple(layer.diff_id for layer in image.layers),
            architecture=str(image.document.get("architecture") or ""),
            environment=dict(
                str(entry).split("=", 1)
                for entry in (variables if isinstance(variables, list) else ())
                if "=" in str(entry)
            ),
        )

    def pull_image(self, reference: str, architecture: str) -> None:
        """Bring an image from its registry into the store; see ``BaseImages``."""
        from envbuild.net.config import network_config
        from envbuild.registry.download import pull_blobs
        from envbuild.registry.image import read_image
        from envbuild.registry.reference import parse_reference
        from envbuild.registry.repository import Repository

        try:
            parsed = parse_reference(reference)
            with Repository(parsed, network_config()) as repository:
                image = read_image(repository, parsed.target, architecture)
                wanted = [layer for layer in image.layers if not self._store.has(layer.diff_id)]
                pull_blobs(repository, [layer.blob for layer in wanted], self._store, self._events)
        except (RegistryError, UsageError) as error:
            raise EngineError(error.message, error.hint) from None
        for layer in wanted:
            if layer.compressed:
                self._unpack(layer)
        self._found[reference] = image

    @contextmanager
    def export_image(self, reference: str, architecture: str) -> Iterator[BinaryIO]:
        """Give an image's file system; see ``BaseImages``."""
        from envbuild.image.oci.flatten import flattened

        image = self._found.get(reference)
        if image is None:
            raise EngineError(f"the image {reference} was not pulled")
        with flattened([self._store.path(layer.diff_id) for layer in image.layers]) as stream:
            yield stream

    def _unpack(self, layer: RemoteLayer) -> None:
        """Have the uncompressed layer in the store in place of the blob."""
        from envbuild.registry.image import unpacked

        name = f"the layer sha256:{layer.diff_id[:12]}…"
        try:
            with (
                self._store.writer(layer.diff_id, name=name) as part,
                self._store.path(layer.blob.digest).open("rb") as stream,
            ):
                for data in unpacked(iter(lambda: stream.read(1 << 20), b""), _RATIO * layer.blob.size + _ROOM, name):
                    part.write(data)
        except EnvbuildError as error:
            raise EngineError(error.message, error.hint) from None
        self._store.path(layer.blob.digest).unlink(missing_ok=True)
