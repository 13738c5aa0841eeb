"""``push``: a lock's image into a registry, straight from the store's layers; no engine takes part."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envbuild.cli.building import BuildOptions, assemble_image, recipe_of
from envbuild.cli.console import Console
from envbuild.core.text import human_bytes, plural
from envbuild.errors import UsageError
from envbuild.image.record import (
    ImageRecord,
    check_reproduced,
    make_image_record,
    read_image_record,
    write_image_record,
)
from envbuild.lockfile import model as locks
from envbuild.operations.blob_locations import BlobLocations, write_published
from envbuild.operations.load_lock import LoadedLock, load_lock
from envbuild.registry.reference import Reference, parse_reference
from envbuild.store.objects import Store

if TYPE_CHECKING:
    from envbuild.image.oci.layout import Image
    from envbuild.registry.repository import Repository
    from envbuild.registry.upload import Pushed


@dataclass(frozen=True, kw_only=True, slots=True)
class PushOptions:
    """Options of ``push``; ``write`` records the reference beside the lock."""

    write: bool = False
    offline: bool = False


def push_image(text: str, path: Path | None, options: PushOptions, console: Console) -> dict[str, Any]:
    """Upload what a registry lacks of a lock's image, building it first if need be; returns what was done.

    Raises:
        NotReproducibleError: the image is not the one recorded beside the lock.
        RegistryError: the registry does not answer or refuses.
    """
    from envbuild.image.plan.model import plan
    from envbuild.net.config import network_config
    from envbuild.registry.repository import Repository

    reference, opened = push_target(text), load_lock(path)
    lock = opened.lock
    if not reference.tag:
        reference = reference.tagged(locks.lock_digest(lock)[:12])
    recipe = recipe_of(lock, plan(lock))
    with Repository(reference, network_config()) as repository:
        identity = _there_already(repository, reference, opened, recipe)
        if identity is not None:
            result = _result(reference, identity, None)
            console.line("push", str(reference), "nothing to do", elapsed=True)
        else:
            identity, image = _built(opened, recipe, options, console)
            pushed = push_layers(repository, image, reference.tag, console)
            result = _result(reference, identity, pushed)
            _report(reference, pushed, console)
    pinned = reference.at(identity.manifest)
    console.line("image", str(pinned))
    if options.write:
        console.line("wrote", write_published(opened.path, lock, identity, pinned).name)
    console.result(result)
    return result


def push_target(text: str) -> Reference:
    """Read where to push to; raises ``UsageError`` if that is a digest."""
    reference = parse_reference(text)
    if reference.digest:
        raise UsageError(
            f"push {text}: a digest is what the push gives", f"name a tag or none: envbuild push {reference.name}"
        )
    return reference


def push_layers(repository: Repository, image: Image, tag: str, console: Console) -> Pushed:
    """Upload a built image."""
    from envbuild.core.blob import Blob, blob_of
    from envbuild.registry.repository import OCI_MANIFEST, Manifest
    from envbuild.registry.upload import push

    places = BlobLocations(Store(), repository.reference.registry, repository.reference.repository)
    layers = [Blob(digest=blob.layer.diff_id, size=blob.layer.size, path=blob.path) for blob in image.layers]
    blobs = [*layers, blob_of(image.config)]
    pushed = push(repository, blobs, Manifest(image.manifest, OCI_MANIFEST), console, tag=tag, mounts=places.others)
    places.note(blob.digest for blob in blobs)
    return pushed


def _there_already(repository: Repository, reference: Reference, opened: LoadedLock, recipe: str) -> ImageRecord | None:
    """Return the recorded image if the tag is it, and nothing that decides it has changed since; else None."""
    recorded = read_image_record(opened.path, opened.lock)
    if recorded is None or recorded.recipe != recipe:
        return None
    return recorded if repository.manifest_digest(reference.tag) == recorded.manifest else None


def _built(opened: LoadedLock, recipe: str, options: PushOptions, console: Console) -> tuple[ImageRecord, Image]:
    """Make the image, from kept layers if there are, and record it."""
    built = assemble_image(opened, BuildOptions(offline=options.offline), None, console)
    identity = make_image_record(opened.lock, built.image, recipe)
    check_reproduced(opened.path, read_image_record(opened.path, opened.lock), identity)
    write_image_record(opened.path, identity)
    return identity, built.image


def _result(reference: Reference, identity: ImageRecord, pushed: Pushed | None) -> dict[str, Any]:
    """Return what programs read."""
    counts = {name: getattr(pushed, name) if pushed else 0 for name in ("uploaded", "mounted", "held")}
    return {
        "config": identity.config,
        "manifest": identity.manifest,
        "reference": str(reference.at(identity.manifest)),
        "tag": str(reference),
        "bytes": pushed.sent if pushed else 0,
        "blobs": counts,
    }


def _report(reference: Reference, pushed: Pushed, console: Console) -> None:
    """Say what was moved."""
    held = f"{pushed.held + pushed.mounted} of {plural(pushed.held + pushed.mounted + pushed.uploaded, 'blob')} held"
    rate = f"{human_bytes(int(pushed.sent / pushed.seconds))}/s" if pushed.sent and pushed.seconds else ""
    console.line("push", str(reference), human_bytes(pushed.sent), held, rate, elapsed=True)
