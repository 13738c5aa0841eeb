"""The local engine's images: what is known of each, and the trees of its layers."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from envbuild.core.digest import SHA256, sha256_bytes
from envbuild.core.foreign_json import parse_json
from envbuild.core.fs import atomic_write
from envbuild.core.progress import Progress
from envbuild.engine.local.trees import Tree, Trees
from envbuild.engine.protocol import Delivered, Parcel, ParcelLayer
from envbuild.errors import EngineError

_WORKERS = 2
_WAIT = 0.02
"""Seconds between two looks at a layer that is still being written."""


class StoredImage(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine keeps of an image.

    Attributes:
        config: SHA-256 of its configuration, its identity; ``manifest``: of its manifest.
        tag: its reference.
        layers: diff IDs, bottom first.
        architecture: as the configuration writes it.
        environment, entrypoint, command, directory, user: what the configuration sets for programs.
    """

    config: str
    manifest: str
    tag: str
    layers: tuple[str, ...]
    architecture: str = ""
    environment: dict[str, str] = {}
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    directory: str = ""
    user: str = ""


class FoundImage(msgspec.Struct, frozen=True, kw_only=True):
    """An image with the trees of its layers, bottom first."""

    image: StoredImage
    trees: tuple[Tree, ...]


class Images:
    """The images of a store.

    Args:
        folder: where the notes of them are.
        trees: their layers.
    """

    def __init__(self, folder: Path, trees: Trees) -> None:
        self._folder, self._trees = folder, trees

    def find(self, reference: str) -> FoundImage | None:
        """Look an image up by tag, ``repository@sha256:…`` or ``sha256:`` identity; None unless all of it is here."""
        image = self.read(reference)
        if image is None:
            return None
        trees = [self._trees.find(layer) for layer in image.layers]
        found = tuple(tree for tree in trees if tree is not None)
        return FoundImage(image=image, trees=found) if len(found) == len(trees) else None

    def read(self, reference: str) -> StoredImage | None:
        """Return what is known of an image, named as for ``find``; its layers may be missing."""
        digest = reference.removeprefix("sha256:") if reference.startswith("sha256:") else _name(reference)
        if not SHA256.fullmatch(digest):
            return None
        try:
            return msgspec.json.decode((self._folder / f"{digest}.json").read_bytes(), type=StoredImage)
        except (OSError, ValueError):
            return None

    def deliver(self, parcels: Iterator[Parcel], tag: str, progress: Progress) -> Delivered:
        """Unpack an image's layers as they become ready, then keep the image under its tag.

        Raises:
            BuildError: a layer is not as it was made, or the disk is full.
        """
        work = _Work(self._trees, progress)
        last: Parcel | None = None
        with work:
            for last in parcels:
                work.add(last.layers)
            if last is None:
                raise EngineError("there is no image to keep")
            work.add(last.layers)
            work.finish()
        self.keep(last.manifest, last.config, tag)
        return Delivered(how="load", sent=frozenset(work.made))

    def keep(self, manifest: bytes, config: bytes, tag: str) -> None:
        """Keep an image, whose trees are there, under its tag and its digests."""
        image = _image(manifest, config, tag)
        data = msgspec.json.encode(image)
        self._folder.mkdir(parents=True, exist_ok=True)
        for name in (image.config, image.manifest, _name(tag)):
            atomic_write(self._folder / f"{name}.json", data)


class _Work:
    """Layers that are unpacked in threads, each as soon as its file is whole; a context manager that ends them."""

    def __init__(self, trees: Trees, progress: Progress) -> None:
        self._trees, self._progress = trees, progress
        self._changed = threading.Condition()
        self._known: set[str] = set()
        self._waiting: list[ParcelLayer] = []
        self._left = 0
        self._stopped = False
        self._error: BaseException | None = None
        self._threads = [
            threading.Thread(target=self._work, name=f"unpack-tree-{number}", daemon=True) for number in range(_WORKERS)
        ]
        self.made: set[str] = set()

    def __enter__(self) -> _Work:
        """Begin."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop the threads."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def add(self, layers: tuple[ParcelLayer, ...]) -> None:
        """Begin with the layers that have not been begun."""
        with self._changed:
            for layer in layers:
                if layer.digest not in self._known:
                    self._known.add(layer.digest)
                    self._waiting.append(layer)
                    self._left += 1
            self._changed.notify_all()

    def finish(self) -> None:
        """Wait for all of them; raises what went wrong with the first one."""
        with self._progress.phase("layers: unpack") as advance, self._changed:
            while self._left and self._error is None:
                self._changed.wait(_WAIT)
                advance(0)
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        try:
            while (layer := self._next()) is not None:
                self._unpack(layer)
                with self._changed:
                    self._left -= 1
                    self._changed.notify_all()
        except _StoppedError:
            return
        except BaseException as error:  # also of who makes the layers, and has given up
            with self._changed:
                self._error = self._error or error
                self._changed.notify_all()

    def _next(self) -> ParcelLayer | None:
        """Wait for a layer that is here or whole; None at the end; raises what whoever makes them does."""
        with self._changed:
            while not self._stopped and self._error is None:
                for index, layer in enumerate(self._waiting):
                    found = layer.file()
                    if found is not None and found[1]:
                        return self._waiting.pop(index)
                self._changed.wait(_WAIT if self._waiting else None)
        return None

    def _unpack(self, layer: ParcelLayer) -> None:
        if self._trees.find(layer.digest) is not None:
            return
        found = layer.file()
        if found is None:
            raise EngineError(f"the layer {layer.digest[:12]}… is not there", "run the command again")
        self._trees.make(layer.digest, found[0], self._check)
        self.made.add(layer.digest)

    def _check(self, amount: int) -> None:
        if self._stopped:
            raise _StoppedError


class _StoppedError(Exception):
    """Nobody waits for the layer any more."""


def _image(manifest: bytes, config: bytes, tag: str) -> StoredImage:
    """Read an image's documents."""
    table = parse_json(config)
    settings: Mapping[str, object] = table.get("config") or {}

    def words(name: str) -> tuple[str, ...]:
        found = settings.get(name)
        return tuple(map(str, found)) if isinstance(found, list) else ()

    return StoredImage(
        config=sha256_bytes(config),
        manifest=sha256_bytes(manifest),
        tag=tag,
        layers=tuple(str(each).removeprefix("sha256:") for each in table["rootfs"]["diff_ids"]),
        architecture=str(table.get("architecture") or ""),
        environment=dict(entry.split("=", 1) for entry in words("Env") if "=" in entry),
        entrypoint=words("Entrypoint"),
        command=words("Cmd"),
        directory=str(settings.get("WorkingDir") or ""),
        user=str(settings.get("User") or ""),
    )


def _name(reference: str) -> str:
    """Return the name of the file for a tag; a reference by digest is known by that."""
    _, at, digest = reference.partition("@sha256:")
    return digest if at else sha256_bytes(reference.encode())
