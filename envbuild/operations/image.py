"""What each layer of a lock's image weighs, from the lock and the store alone."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from envbuild.core.progress import Silent
from envbuild.core.text import plural
from envbuild.errors import BuildError
from envbuild.operations.engines import layer_trees
from envbuild.operations.load_lock import LoadedLock, load_lock
from envbuild.store.objects import Store

if TYPE_CHECKING:
    from envbuild.core.blob import FileBlob
    from envbuild.engine.protocol import Step
    from envbuild.image.assemble import Built
    from envbuild.image.layer_cache import Layers
    from envbuild.image.plan.model import Plan
    from envbuild.image.tar.layer import Layer


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerWeight:
    """One layer of an image.

    Attributes:
        kind: what it holds: ``os``, ``wheel``, ``bytecode``, ``environment`` or ``runtime``.
        title: for people, also the image's history line.
        digest: SHA-256 of its uncompressed tar (hexadecimal).
        bytes: of that tar.
        files: number of files in it.
        shared_with: the other locks whose last build used it; two locks of one name by path.
    """

    kind: str
    title: str
    digest: str
    bytes: int
    files: int
    shared_with: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageWeight:
    """An image in the store.

    Attributes:
        loaded: its lock.
        config: SHA-256 of the configuration, the image's identity (hexadecimal).
        manifest: SHA-256 of the manifest (hexadecimal).
        layers: bottom first.
    """

    loaded: LoadedLock
    config: str
    manifest: str
    layers: tuple[LayerWeight, ...]

    @property
    def bytes(self) -> int:
        """Bytes of all layers, uncompressed."""
        return sum(layer.bytes for layer in self.layers)

    @property
    def files(self) -> int:
        """Number of files in all layers."""
        return sum(layer.files for layer in self.layers)


def weigh_image(path: Path | None) -> ImageWeight:
    """Return what each layer of a lock's image weighs, and which other locks share it; needs no engine.

    Args:
        path: the lock's file; None: search upward from the working directory.

    Raises:
        LockError: there is no lock, it is invalid, or it is stale.
        BuildError: some layers are not in the store.
    """
    from envbuild.core.fs import boot_id
    from envbuild.image.layer_cache import Layers
    from envbuild.image.oci.count import count_files
    from envbuild.image.plan.model import plan

    loaded, store = load_lock(path), Store()
    planned = plan(loaded.lock)
    layers = Layers(store, boot_id(), layer_trees(store), unpacked=True)
    built = _from_store(loaded, planned, store, layers)
    sharing = _sharing(loaded, store)
    weights = tuple(
        LayerWeight(
            kind=made.kind,
            title=made.title,
            digest=made.blob.digest,
            bytes=made.blob.size,
            files=count_files(made.blob.path) if layers.unpacked(made.blob) is None else _count(layers, made.blob),
            shared_with=tuple(sharing.get(spec.key, ())),
        )
        for spec, made in zip(planned.layers, built.layers, strict=True)
    )
    return ImageWeight(
        loaded=loaded, config=built.image.config_digest, manifest=built.image.manifest_digest, layers=weights
    )


def _count(layers: Layers, blob: FileBlob) -> int:
    """Return how many entries of a layer that is a tree are no folders."""
    return sum(1 for _ in layers.file_names(blob))


def _from_store(loaded: LoadedLock, planned: Plan, store: Store, layers: Layers) -> Built:
    """Put the image together from kept layers; only the topmost, a few files, is written if need be."""
    from envbuild.image.assemble import assemble
    from envbuild.image.runtime_layer import runtime_key

    name = loaded.path.name
    specs = [spec for spec in planned.layers if spec.kind != "runtime"]
    missing = [spec.title for spec in specs if layers.find(spec.key) is None]
    if missing or store.derived("bytecode", runtime_key(planned)) is None:
        what = "".join(f"\n  {title}" for title in missing or [planned.layers[-1].title])
        count = f"{len(missing) or 1} of {plural(len(planned.layers), 'layer')}"
        raise BuildError(f"the store {store.root} lacks {count} of {name}{what}", f"make them: envbuild build {name}")
    steps = _NoSteps()
    return assemble(
        planned,
        loaded.lock,
        cache=store,
        runner=steps,
        build_os=steps.build,
        progress=Silent(),
        trees=layer_trees(store),
        unpacked=True,
    )


def _sharing(loaded: LoadedLock, store: Store) -> dict[str, list[str]]:
    """Names of the other locks whose last build used a layer, by the layer's key; two of one name with their path."""
    from envbuild.store.roots import find_roots

    own = loaded.path.resolve()
    entries = [root.lock for root in find_roots(store) if root.state != "gone" and root.lock.place != own]
    names = [entry.name for entry in entries]
    found: dict[str, list[str]] = {}
    for entry in sorted(entries, key=lambda entry: (entry.name, entry.path)):
        shown = entry.name if names.count(entry.name) == 1 and entry.name != loaded.lock.name else entry.path
        for derived in entry.derived:
            kind, _, key = derived.partition("/")
            if kind == "layers":
                found.setdefault(key, []).append(shown)
    return found


class _NoSteps:
    """Makes no layer: all of them are there."""

    def run_step(self, step: Step) -> AbstractContextManager[BinaryIO]:
        """Refuse."""
        raise AssertionError(f"{step.base_key} is not needed")

    def build(self, output: Path, stream: BinaryIO | None) -> Layer:
        """Refuse."""
        raise AssertionError(f"{output} is not needed")
