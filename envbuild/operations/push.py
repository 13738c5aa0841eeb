"""Push a lock's image to a registry, straight from the store's layers; no engine takes part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from envbuild.core.digest import sha256_json
from envbuild.errors import UsageError
from envbuild.image.record import (
    ImageRecord,
    check_reproduced,
    make_image_record,
    read_image_record,
    write_image_record,
)
from envbuild.lockfile import model as locks
from envbuild.operations.assemble import BuildOptions, assemble_image, recipe_of
from envbuild.operations.blob_locations import BlobLocations, write_published
from envbuild.operations.events import Events, Note
from envbuild.operations.load_lock import LoadedLock, load_lock
from envbuild.registry.reference import Reference, parse_reference
from envbuild.store.objects import Store

if TYPE_CHECKING:
    from envbuild.image.oci.layout import Image
    from envbuild.registry.repository import Repository
    from envbuild.registry.upload import Pushed


@dataclass(frozen=True, kw_only=True, slots=True)
class PushedBundle:
    """A lock's files in a registry.

    Attributes:
        place: as `store pull` takes it.
        tag: of the artifact.
        files: how many files the lock has, and the lock itself.
        sent: how many of them the registry lacked.
        bytes: theirs.
    """

    place: str
    tag: str
    files: int
    sent: int
    bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PushedImage:
    """An image in a registry.

    Attributes:
        record: its digests, as recorded next to the lock.
        tag: the reference by tag.
        reference: the reference by digest.
        upload: what was moved; None if the tag was this image already.
        written: the file next to the lock that the reference was written to, if asked for.
        bundle: the lock's files in the same repository, if asked for.
    """

    record: ImageRecord
    tag: Reference
    reference: Reference
    upload: Pushed | None
    written: Path | None
    bundle: PushedBundle | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PushedIndex:
    """An image for several platforms in a registry.

    Attributes:
        tag: the reference by tag.
        reference: the reference of the index by digest.
        images: the image of each platform.
        changed: the tag was another index before, or none.
    """

    tag: Reference
    reference: Reference
    images: tuple[PushedImage, ...]
    changed: bool


def push_index(
    reference: str,
    paths: Sequence[Path],
    events: Events,
    *,
    write: bool = False,
    bundle: bool = False,
    offline: bool = False,
) -> PushedIndex:
    """Upload what a registry lacks of the images of one spec's platforms, then the index that names them.

    Args:
        reference: as for ``push``; the default tag is the beginning of a digest of all locks, and each image gets that
            of its own lock too.
        paths: the lock of each platform.
        events, write, bundle, offline: as for ``push``; with ``write`` each lock gets its image's reference and
            the index.

    Raises:
        UsageError, LockError, NotReproducibleError, RegistryError: as for ``push``.
    """
    from envbuild.image.oci.layout import image_index
    from envbuild.image.plan.model import plan
    from envbuild.net.config import network_config
    from envbuild.registry.repository import OCI_INDEX, Manifest, Repository

    named, loaded = push_target(reference), [load_lock(path) for path in paths]
    digests = [locks.lock_digest(each.lock) for each in loaded]
    tag = named if named.tag else named.tagged(sha256_json(sorted(digests))[:12])
    found, entries = [], []
    with Repository(tag, network_config()) as repository:
        for each, digest in zip(loaded, digests, strict=True):
            own = "" if named.tag else digest[:12]
            image, manifest = _pushed_image(repository, named, own, each, BuildOptions(offline=offline), events)
            if bundle:
                image = replace(image, bundle=push_bundle(f"oci://{tag.name}", each, events, offline=offline))
            found.append(image)
            entries.append((manifest, plan(each.lock).platform))
        index = Manifest(image_index(entries), OCI_INDEX)
        changed = repository.manifest_digest(tag.tag) != index.digest
        if changed:
            repository.put_manifest(index, tag.tag)
    written = [
        write_published(each.path, each.lock, image.record, image.reference, index.digest, bundle=bundle)
        if write
        else None
        for each, image in zip(loaded, found, strict=True)
    ]
    images = tuple(replace(image, written=file) for image, file in zip(found, written, strict=True))
    return PushedIndex(tag=tag, reference=tag.at(index.digest), images=images, changed=changed)


def _pushed_image(
    repository: Repository, named: Reference, tag: str, loaded: LoadedLock, options: BuildOptions, events: Events
) -> tuple[PushedImage, bytes]:
    """Upload one platform's image under its digest and perhaps a tag; returns it with its manifest."""
    from envbuild.image.plan.model import plan

    lock = loaded.lock
    recipe, upload = recipe_of(lock, plan(lock)), None
    recorded = read_image_record(loaded.path, lock)
    record = recorded if recorded is not None and recorded.recipe == recipe else None
    target = tag or (f"sha256:{record.manifest}" if record else "")
    there = repository.manifest(target) if record is not None and target else None
    if record is None or there is None or there.digest != record.manifest:
        record, image = _built(loaded, recipe, options, events)
        upload, data = _push_layers(repository, image, tag, events), image.manifest
    else:
        data = there.data
    pinned = named.at(record.manifest)
    shown = named.tagged(tag) if tag else pinned
    return PushedImage(record=record, tag=shown, reference=pinned, upload=upload, written=None), data


def push(
    reference: str,
    path: Path | None,
    events: Events,
    *,
    write: bool = False,
    bundle: bool = False,
    offline: bool = False,
) -> PushedImage:
    """Upload what a registry lacks of a lock's image, which is built first if need be.

    Args:
        reference: ``REGISTRY/REPOSITORY[:TAG]``; the default tag is the beginning of the lock's digest.
        path: the lock's file; None: search upward from the working directory.
        events: receives progress.
        write: write the reference by digest to a file next to the lock.
        bundle: also push the lock's files, so that the image can be built again when mirrors have dropped them.
        offline: build from the store only.

    Raises:
        UsageError: the reference is invalid, or names a digest.
        LockError: there is no lock, it is invalid, or it is stale.
        IntegrityError: a file could not be fetched.
        NotReproducibleError: the image is not the one recorded next to the lock.
        RegistryError: the registry does not answer or refuses.
    """
    from envbuild.image.plan.model import plan
    from envbuild.net.config import network_config
    from envbuild.registry.repository import Repository

    tag, loaded = push_target(reference), load_lock(path)
    lock = loaded.lock
    if not tag.tag:
        tag = tag.tagged(locks.lock_digest(lock)[:12])
    recipe, upload = recipe_of(lock, plan(lock)), None
    with Repository(tag, network_config()) as repository:
        record = _there_already(repository, tag, loaded, recipe)
        if record is None:
            record, image = _built(loaded, recipe, BuildOptions(offline=offline), events)
            upload = _push_layers(repository, image, tag.tag, events)
    pinned = tag.at(record.manifest)
    kept = push_bundle(f"oci://{tag.name}", loaded, events, offline=offline) if bundle else None
    written = write_published(loaded.path, lock, record, pinned, bundle=bundle) if write else None
    return PushedImage(record=record, tag=tag, reference=pinned, upload=upload, written=written, bundle=kept)


def push_bundle(place: str, loaded: LoadedLock, events: Events, *, offline: bool = False) -> PushedBundle:
    """Copy a lock's files into a repository; those that the store lacks are fetched first.

    Args:
        place: ``oci://HOST[:PORT]/REPOSITORY``.
        offline: fetch nothing.

    Raises:
        IntegrityError: a file could not be fetched.
        RegistryError: the registry does not answer or refuses.
    """
    from envbuild.operations.fetch import ensure_files
    from envbuild.operations.store_remotes import open_remote
    from envbuild.store.bundle import artifact_of, tag_of

    store, lock = Store(), loaded.lock
    ensure_files(loaded, store, (), offline=offline, events=events)
    artifact, tag = artifact_of(lock, store), tag_of(lock)
    with open_remote(place) as remote:
        moved = remote.push(artifact, tag, events)
    return PushedBundle(place=place, tag=tag, files=moved.sent + moved.held, sent=moved.sent, bytes=moved.bytes)


def push_target(text: str) -> Reference:
    """Return where to push to; raises ``UsageError`` if that is a digest."""
    reference = parse_reference(text)
    if reference.digest:
        raise UsageError(
            f"push {text}: a digest is what the push gives", f"name a tag or none: envbuild push {reference.name}"
        )
    return reference


def _push_layers(repository: Repository, image: Image, tag: str, events: Events) -> Pushed:
    """Upload a built image."""
    from envbuild.core.blob import blob_of
    from envbuild.registry.repository import OCI_MANIFEST, Manifest
    from envbuild.registry.upload import push

    locations = BlobLocations(Store(), repository.reference.registry, repository.reference.repository)
    blobs = [*image.layers, blob_of(image.config)]
    pushed = push(repository, blobs, Manifest(image.manifest, OCI_MANIFEST), events, tag=tag, mounts=locations.others)
    locations.note(blob.digest for blob in blobs)
    return pushed


def _there_already(repository: Repository, tag: Reference, loaded: LoadedLock, recipe: str) -> ImageRecord | None:
    """Return the record if the tag is the recorded image, and nothing that decides it has changed since; else None."""
    recorded = read_image_record(loaded.path, loaded.lock)
    if recorded is None or recorded.recipe != recipe:
        return None
    return recorded if repository.manifest_digest(tag.tag) == recorded.manifest else None


def _built(loaded: LoadedLock, recipe: str, options: BuildOptions, events: Events) -> tuple[ImageRecord, Image]:
    """Make the image, from kept layers if there are any, and record it."""
    built = assemble_image(loaded, options, None, events)
    record = make_image_record(loaded.lock, built.image, recipe)
    check_reproduced(loaded.path, read_image_record(loaded.path, loaded.lock), record)
    if replaced := write_image_record(loaded.path, record):
        events.report(Note(text=replaced))
    return record, built.image
