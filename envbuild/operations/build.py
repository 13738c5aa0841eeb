"""Build a lock's image and load it into the engine, or write it to a file; write its Dockerfile with the context."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from envbuild.core.digest import sha256_json
from envbuild.image.record import (
    ImageRecord,
    check_reproduced,
    expected_layers,
    image_tag,
    is_recorded,
    make_image_record,
    read_image_record,
    write_image_record,
)
from envbuild.operations.assemble import BuildOptions, assemble_image, recipe_of
from envbuild.operations.engines import connect, is_local, note_way
from envbuild.operations.events import Events, ImageBuilt, ImageLoaded, ImageUpToDate, Note
from envbuild.operations.export import Several, Target, parse_target
from envbuild.operations.fetch import ensure_files, heal_corrupt_layers, heal_corrupt_objects, unneeded_emulators
from envbuild.operations.load_lock import LoadedLock, load_lock
from envbuild.operations.rebuild import verify_build
from envbuild.store import leases
from envbuild.store.objects import Store
from envbuild.store.roots import note_lock

if TYPE_CHECKING:
    from envbuild.engine.protocol import Engine
    from envbuild.image.assemble import Built
    from envbuild.image.oci.layout import Image


@dataclass(frozen=True, kw_only=True, slots=True)
class BuiltImage:
    """An image that the engine holds, or that was written to a file.

    Attributes:
        loaded: its lock.
        record: its digests and its name, as recorded next to the lock.
        up_to_date: the engine held it already, and nothing was made.
        reproduced: it was recorded before, and has the same bits.
        verified: it was made once more from nothing, and has the same bits.
    """

    loaded: LoadedLock
    record: ImageRecord
    up_to_date: bool
    reproduced: bool
    verified: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class DockerContext:
    """A folder with a Dockerfile and all that it copies."""

    loaded: LoadedLock
    folder: Path


def build(
    path: Path | None,
    events: Events,
    *,
    output: str | None = None,
    offline: bool = False,
    sources: Sequence[Path] = (),
    verify: bool = False,
) -> BuiltImage:
    """Assemble a lock's image and load it, or write it to a file; its digests are recorded next to the lock.

    Args:
        path: the lock's file; None: search upward from the working directory.
        events: receives progress.
        output: write the image there and load nothing: ``oci:DIR``, ``oci:FILE.tar``, ``docker-archive:FILE``,
            ``sqsh:FILE`` or ``dir:DIR``.
        offline: use the store only.
        sources: folders that ``fetch`` wrote with ``vendor``, tried before any index.
        verify: make it once more from nothing and compare.

    Raises:
        UsageError: ``output`` names no target, or one of ``sources`` is no folder.
        LockError: there is no lock, it is invalid, or it is stale.
        IntegrityError: a file could not be fetched, or is corrupt.
        BuildError: the image could not be made.
        EngineError: the engine does not answer or refuses.
        NotReproducibleError: the image is not the one recorded next to the lock, or rebuilding it gave another.
    """
    target = None if output is None else parse_target(output)
    loaded = load_lock(path)
    engine = connect() if target is None else None
    note_way(engine, events)
    options = BuildOptions(offline=offline, sources=tuple(sources))
    found = _up_to_date(loaded, engine, events)
    if found is not None:
        record, reproduced = found, True
    else:
        record, reproduced = _build(loaded, options, engine, target, events)
    if verify:
        verify_build(loaded, options, engine, record, events)
    return BuiltImage(
        loaded=loaded, record=record, up_to_date=found is not None, reproduced=reproduced, verified=verify
    )


def build_platforms(
    paths: Sequence[Path],
    events: Events,
    *,
    output: str | None = None,
    offline: bool = False,
    sources: Sequence[Path] = (),
    verify: bool = False,
) -> tuple[BuiltImage, ...]:
    """Build the images of one spec's platforms, one after another; a layout gets all of them and their index.

    Args:
        paths: the lock of each platform.
        output: ``oci:DIR`` or ``oci:FILE.tar``; None: load them into the engine.
        events, offline, sources, verify: as for ``build``.

    Raises:
        UsageError: ``output`` is of another form, which holds one image.
        LockError, IntegrityError, BuildError, EngineError, NotReproducibleError: as for ``build``.
    """
    if output is None:
        return tuple(build(path, events, offline=offline, sources=sources, verify=verify) for path in paths)
    images: list[Image] = []
    target = parse_target(output).of_several(output, images)
    options = BuildOptions(offline=offline, sources=tuple(sources))
    made = []
    for path in paths:
        loaded = load_lock(path)
        record, reproduced = _build(loaded, options, None, target, events)
        if verify:
            verify_build(loaded, options, None, record, events)
        made.append(BuiltImage(loaded=loaded, record=record, up_to_date=False, reproduced=reproduced, verified=verify))
    lock = made[0].loaded.lock
    digest = sha256_json(sorted(each.record.lock for each in made))
    target.finish(f"envbuild/{lock.name.removesuffix(f'-{lock.platform}')}:{digest[:12]}")
    return tuple(made)


def build_context(
    folder: Path, path: Path | None, events: Events, *, offline: bool = False, sources: Sequence[Path] = ()
) -> DockerContext:
    """Write a Dockerfile with its complete context: ``docker build --network=none`` then needs no envbuild.

    Args:
        folder: empty, or made here.
        path, events, offline, sources: as for ``build``.

    Raises:
        BuildError: the folder is not empty or cannot be written.
        UsageError, LockError, IntegrityError: as for ``build``.
    """
    from envbuild.image.dockerfile import render, write_context

    loaded, store = load_lock(path), Store()
    ensure_files(loaded, store, sources, offline=offline, events=events, without=unneeded_emulators(loaded.lock))
    with heal_corrupt_objects(loaded.lock, store, events):
        write_context(render(loaded.lock), store.path, folder, events)
    return DockerContext(loaded=loaded, folder=folder)


def _up_to_date(loaded: LoadedLock, engine: Engine | None, events: Events) -> ImageRecord | None:
    """Return the record if the engine holds the recorded image, and nothing that decides it has changed since."""
    from envbuild.image.plan.model import plan

    record, planned = read_image_record(loaded.path, loaded.lock), plan(loaded.lock)
    if engine is None or record is None or expected_layers(record, planned, recipe_of(loaded.lock, planned)) is None:
        return None
    if not is_recorded(engine.find_image(record.reference), record):
        return None
    note_lock(Store(), loaded.path, loaded.lock)
    name = engine.describe().get("name", "engine")
    found = ImageUpToDate(lock=loaded.lock.name, config=record.config, engine=name, reference=record.reference)
    events.report(found)
    return record


def _build(
    loaded: LoadedLock, options: BuildOptions, engine: Engine | None, target: Target | Several | None, events: Events
) -> tuple[ImageRecord, bool]:
    """Make the image; returns its record, and whether it is the one recorded before."""
    from envbuild.image.delivery import Loading
    from envbuild.image.plan.model import plan

    lock, planned, store = loaded.lock, plan(loaded.lock), Store()
    recipe, recorded = recipe_of(lock, planned), read_image_record(loaded.path, lock)
    expected = expected_layers(recorded, planned, recipe)
    delivery = Loading(engine, image_tag(lock), planned, events, expected) if engine is not None else nullcontext()
    with heal_corrupt_layers(store, events), delivery as loading:
        built = assemble_image(loaded, options, engine, events, loading)
        record = make_image_record(lock, built.image, recipe)
        check_reproduced(loaded.path, recorded, record)
        if target is not None:
            target.write(built.image, image_tag(lock))
        if loading is not None and engine is not None:
            delivered = loading.finish(built.image)
            sent = delivered.sent | _made(built) if is_local(engine) else delivered.sent
            events.report(_loaded(engine.describe().get("name", "engine"), built, sent, delivered.why, loading.seconds))
    if replaced := write_image_record(loaded.path, record):
        events.report(Note(text=replaced))
    note_lock(store, loaded.path, lock, [name for name in leases.names_used(store.root) if "/" in name])
    reproduced = recorded == record
    size = sum(layer.blob.size for layer in built.layers)
    events.report(
        ImageBuilt(lock=lock.name, config=record.config, bytes=size, layers=len(built.layers), reproduced=reproduced)
    )
    return record, reproduced


def _made(built: Built) -> frozenset[str]:
    """Return the layers that no earlier build had made: for the local engine they were made where it has them."""
    return frozenset(layer.blob.digest for layer in built.layers if not layer.reused)


def _loaded(engine: str, built: Built, sent: frozenset[str], why: str, seconds: float) -> ImageLoaded:
    """Return how much the engine got, after how long a wait, and what it held already."""
    layers = built.image.layers
    return ImageLoaded(
        engine=engine,
        bytes=sum(layer.size for layer in layers if layer.digest in sent),
        seconds=seconds,
        layers=len(layers),
        held=sum(layer.digest not in sent for layer in layers),
        why=why,
    )
