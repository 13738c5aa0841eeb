"""Copies of a lock's files from one machine's store to another's, by way of a folder or a registry."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from envbuild.core.blob import Blob, blob_of
from envbuild.core.digest import SHA256
from envbuild.core.foreign_json import parse_json
from envbuild.core.text import plural
from envbuild.errors import IntegrityError, UsageError
from envbuild.operations.events import Events, Note, StoreCopied
from envbuild.operations.load_lock import LoadedLock, load_lock
from envbuild.operations.store_remotes import StoreRemote, open_remote
from envbuild.store.bundle import (
    CONFIG,
    FILE,
    LAYER,
    Artifact,
    annotated,
    artifact_of,
    files_of,
    read_artifact,
    tag_of,
    title_of,
)
from envbuild.store.objects import Store
from envbuild.store.roots import find_roots, note_lock

if TYPE_CHECKING:
    from envbuild.image.plan.layer_order import LayerSpec
    from envbuild.image.plan.model import Plan
    from envbuild.image.tar.layer import Layer

_SMALL = 8 << 20
"""Bytes of what is read into memory: an image's configuration."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TransferRequest:
    """What to copy, and where to or from.

    Attributes:
        remote: ``oci://HOST[:PORT]/REPOSITORY`` or a folder.
        locks: the locks whose files are copied; without any, the one found upward from here.
        everything: all locks that have used the store (push), or all that the remote has (pull).
        layers: the layers made of the files, too.
    """

    remote: str
    locks: tuple[Path, ...] = ()
    everything: bool = False
    layers: bool = False

    def __post_init__(self) -> None:
        """Refuse contradictions."""
        if self.everything and self.locks:
            raise UsageError("--all takes every lock", "leave out either --all or the locks")


@dataclass(frozen=True, kw_only=True, slots=True)
class PushedLock:
    """A lock whose files were pushed: its file's name, the artifact's tag, blobs written and their bytes."""

    lock: str
    tag: str
    sent: int
    bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PulledLock:
    """A lock whose files were pulled: its file's name, the artifact's tag, files and layers taken, the files' bytes."""

    lock: str
    tag: str
    files: int
    layers: int
    bytes: int


def push_store(request: TransferRequest, events: Events) -> tuple[PushedLock, ...]:
    """Copy what locks need out of the user's store.

    Raises:
        IntegrityError: files are not in the store.
        BuildError, UsageError: the remote cannot be written.
        RegistryError: the registry does not answer or refuses.
    """
    store, results = Store(), []
    with open_remote(request.remote) as remote:
        for loaded in _chosen(request, store):
            began = time.monotonic()
            lock, tag = loaded.lock, tag_of(loaded.lock)
            more = _made_layers(loaded, events) if request.layers else []
            moved = remote.push(artifact_of(lock, store, more), tag, events)
            seconds = max(time.monotonic() - began, 1e-3)
            events.report(
                StoreCopied(
                    direction="push", lock=lock.name, files=moved.sent, held=moved.held, bytes=moved.bytes,
                    seconds=seconds,
                )
            )  # fmt: skip
            results.append(PushedLock(lock=lock.file_name, tag=tag, sent=moved.sent, bytes=moved.bytes))
    return tuple(results)


def pull_store(request: TransferRequest, events: Events) -> tuple[PulledLock, ...]:
    """Copy what locks need into the user's store; every byte is checked.

    Raises:
        IntegrityError: the remote lacks files, or has other bytes than its names promise.
        RegistryError: the registry does not answer or refuses.
    """
    store = Store()
    with open_remote(request.remote, exists=True) as remote:
        if request.everything:
            pulled = [_pull_artifact(remote, tag, store, events) for tag in remote.tags()]
            return tuple(one for one in pulled if one is not None)
        return tuple(_pull_lock(remote, loaded, store, request, events) for loaded in _chosen(request, store))


def _chosen(request: TransferRequest, store: Store) -> Iterator[LoadedLock]:
    """Open the locks: those named, all that used the store, or the one found upward."""
    if request.everything:
        for root in find_roots(store):
            if root.state != "gone":
                yield load_lock(Path(root.lock.path))
        return
    for path in request.locks or (None,):
        yield load_lock(path)


def _pull_lock(
    remote: StoreRemote, loaded: LoadedLock, store: Store, request: TransferRequest, events: Events
) -> PulledLock:
    lock, began = loaded.lock, time.monotonic()
    tag = tag_of(lock)
    note_lock(store, loaded.path, lock)
    data = remote.manifest(tag)
    artifact = None if data is None else read_artifact(data, f"{request.remote}: {tag}")
    files = files_of(lock)
    wanted = [blob for blob in files if not store.has(blob.digest, blob.size)]
    there = wanted if artifact is not None else remote.held(wanted)
    remote.pull(there, store, events)
    made = _pull_layers(remote, artifact, loaded, store, events) if request.layers else 0
    size, held = sum(blob.size for blob in there), len(files) - len(wanted)
    seconds = max(time.monotonic() - began, 1e-3)
    events.report(
        StoreCopied(direction="pull", lock=lock.name, files=len(there), held=held, bytes=size, seconds=seconds)
    )
    if lacking := sorted(title_of(blob) for blob in wanted if blob not in there):
        names = "".join(f"\n  {name}" for name in lacking)
        raise IntegrityError(
            f"{request.remote} lacks {plural(len(lacking), 'file')} of {loaded.path.name}{names}",
            "fetch the rest: envbuild fetch; or push them where they are: envbuild store push",
        )
    return PulledLock(lock=lock.file_name, tag=tag, files=len(there), layers=made, bytes=size)


def _pull_artifact(remote: StoreRemote, tag: str, store: Store, events: Events) -> PulledLock | None:
    """Take an artifact's files without knowing its lock: each one is what its digest names, or is not taken."""
    data = remote.manifest(tag)
    artifact = None if data is None else read_artifact(data, tag)
    if artifact is None:
        return None
    files = [blob for blob in artifact.blobs if blob.media_type == FILE]
    wanted = [blob for blob in files if not store.has(blob.digest, blob.size)]
    remote.pull(wanted, store, events)
    size, held = sum(blob.size for blob in wanted), len(files) - len(wanted)
    events.report(StoreCopied(direction="pull", lock=tag, files=len(wanted), held=held, bytes=size))
    return PulledLock(lock=title_of(artifact.lock), tag=tag, files=len(wanted), layers=0, bytes=size)


def _made_layers(loaded: LoadedLock, events: Events) -> list[Blob]:
    """Describe a lock's layers, made now if need be, with the image's configuration that lists them."""
    from envbuild.image.plan.model import plan
    from envbuild.operations.assemble import BuildOptions, assemble_image

    image = assemble_image(loaded, BuildOptions(offline=True), None, events).image
    blobs = [blob_of(image.config, CONFIG)]
    for spec, made in zip(plan(loaded.lock).layers, image.layers, strict=True):
        blobs.append(msgspec.structs.replace(made, media_type=LAYER, annotations=annotated(spec.title, spec.key)))
    return blobs


def _pull_layers(
    remote: StoreRemote, artifact: Artifact | None, loaded: LoadedLock, store: Store, events: Events
) -> int:
    """Take layers, as far as the digest recorded next to the lock vouches for them; returns how many came.

    A layer's key states what it is made of, not what it is; the pusher could put anything there. The image's
    configuration lists the layers' digests, and its own digest is recorded next to the lock. What a build notes of a
    layer's content is derived from the layer and the lock's wheels.
    """
    from envbuild.core.fs import boot_id
    from envbuild.image.layer_cache import Layers
    from envbuild.image.plan.model import plan
    from envbuild.image.runtime_layer import adopt_runtime, runtime_key
    from envbuild.operations.engines import layer_trees

    planned = plan(loaded.lock)
    vouched = _vouched(remote, artifact, loaded, planned, events)
    if artifact is None or not vouched:
        return 0
    specs = {spec.key: spec for spec in planned.layers}
    layers = Layers(store, boot_id(), layer_trees(store), unpacked=True)
    wanted = {
        key: digest
        for key, digest in vouched.items()
        if layers.find(key) is None and all(store.has(wheel.sha256) for wheel in specs[key].wheels)
    }
    top = planned.layers[-1].key
    if top in wanted and store.derived("bytecode", runtime_key(planned)) is not None:
        del wanted[top]
    found = {blob.digest: blob for blob in artifact.blobs if blob.media_type == LAYER}
    taken = {key: found[digest] for key, digest in wanted.items() if digest in found}
    remote.pull(list(taken.values()), store, events)
    for key, blob in taken.items():
        if key == top:
            # The runtime layer is made anew for every lock; the next build makes it of what is taken from here.
            adopt_runtime(planned, loaded.lock, store, store.path(blob.digest))
            store.path(blob.digest).unlink(missing_ok=True)
        else:
            _settle(store, specs[key], planned.python, blob)
    return len(taken)


def _settle(store: Store, spec: LayerSpec, python: str, blob: Blob) -> None:
    """Move a layer that came in as a file of the store to where layers are."""
    from envbuild.core.fs import boot_id
    from envbuild.image.layer_cache import TAR, make_layer
    from envbuild.image.layer_contents import derived_contents, note
    from envbuild.image.python.environment import WheelFile
    from envbuild.image.tar.layer import Layer

    def make(folder: Path) -> Layer:
        if spec.kind in ("wheel", "environment"):
            wheels = [WheelFile(name=one.name, path=store.path(one.sha256), sha256=one.sha256) for one in spec.wheels]
            note(folder, derived_contents(store.path(blob.digest), wheels, python))
        store.path(blob.digest).replace(folder / TAR)
        return Layer(diff_id=blob.digest, size=blob.size)

    make_layer(store, spec.key, boot_id(), make)


def _vouched(
    remote: StoreRemote, artifact: Artifact | None, loaded: LoadedLock, planned: Plan, events: Events
) -> Mapping[str, str]:
    """Return which bytes each layer must have, by its key: what the recorded image's configuration states."""
    from envbuild.image.record import image_record_path, read_image_record
    from envbuild.operations.assemble import recipe_of

    recorded = read_image_record(loaded.path, loaded.lock)
    name = image_record_path(loaded.path).name
    if recorded is None:
        events.report(Note(text=f"no layers taken: there is no {name} that records which bytes they must have"))
        return {}
    if recorded.recipe != recipe_of(loaded.lock, planned):
        events.report(Note(text=f"no layers taken: {name} is by another version of envbuild"))
        return {}
    if artifact is None or not any(blob.digest == recorded.config for blob in artifact.blobs):
        events.report(Note(text="no layers taken: none of this image are there"))
        return {}
    config = parse_json(remote.read(recorded.config, _SMALL))
    digests = [str(digest).removeprefix("sha256:") for digest in config["rootfs"]["diff_ids"]]
    pairs = zip((spec.key for spec in planned.layers), digests, strict=True)
    return {key: digest for key, digest in pairs if SHA256.fullmatch(digest)}
