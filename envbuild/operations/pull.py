"""Pull an image from a registry into the engine, if and only if it is the lock's: ``pull`` and ``run --image``.

The order: manifest and configuration are read and compared with the lock first; then only the layers that neither
store nor engine hold come in, each checked against its digest before it gets its name; the engine gets them last. So
nothing of an image that is not the lock's is ever in the engine, let alone run.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from envbuild.core.digest import canonical_json
from envbuild.core.foreign_json import parse_json
from envbuild.errors import EngineError, IntegrityError, NotReproducibleError, UsageError
from envbuild.image.record import (
    ImageRecord,
    image_record_path,
    image_tag,
    is_recorded,
    read_image_record,
    write_image_record,
)
from envbuild.lockfile import layout
from envbuild.lockfile import model as locks
from envbuild.operations.blob_locations import chosen_location, read_index
from envbuild.operations.engines import connect, remove_changed_layers
from envbuild.operations.events import Events, ImagePulled, Note
from envbuild.operations.load_lock import LoadedLock, load_lock
from envbuild.operations.signatures import published_reference, require
from envbuild.registry.layout_source import LayoutReference, LayoutSource, parse_layout
from envbuild.registry.reference import Reference, parse_reference
from envbuild.signing.trust import Trust
from envbuild.signing.trust import trust as parse_trust
from envbuild.store.objects import Store

if TYPE_CHECKING:
    from envbuild.core.blob import FileBlob
    from envbuild.engine.protocol import Engine
    from envbuild.image.oci.layout import Image
    from envbuild.registry.image import ImageSource, RemoteImage, RemoteLayer
    from envbuild.registry.repository import Repository

_LOCK_LIMIT = 16 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class PulledImage:
    """A lock's image in the engine, come from a registry: the lock, and the image's digests and name."""

    loaded: LoadedLock
    record: ImageRecord


def pull(
    reference: str | None, path: Path | None, events: Events, *, require_signature: str | None = None
) -> PulledImage:
    """Bring a lock's image from a registry into the engine.

    Args:
        reference: ``REGISTRY/REPOSITORY[:TAG][@sha256:…]``, or ``oci:PATH`` for a layout in a folder or tar archive;
            None: where ``push`` wrote that it is.
        path: the lock's file; None: search upward from the working directory.
        events: receives progress.
        require_signature: who must have signed it: a public key's file, or ``IDENTITY@https://ISSUER``.

    Raises:
        UsageError: the reference is invalid, or none is known.
        LockError: there is no lock, it is invalid, or it is stale.
        NotReproducibleError: it is not the lock's image; nothing was pulled.
        IntegrityError: bytes were altered on the way, or it is not signed as required.
        RegistryError: the registry does not answer or refuses.
        EngineError: the engine does not answer or refuses.
    """
    who = parse_trust(require_signature) if require_signature is not None else None
    loaded = load_lock(path)
    file = parse_layout(reference) if reference is not None else None
    place = file or chosen_location(reference, loaded.path, loaded.lock, "pull")
    record, _ = pulled(loaded, place, connect(), events, who)
    return PulledImage(loaded=loaded, record=record)


def image_for_run(
    text: str | None,
    loaded: LoadedLock,
    engine: Engine,
    events: Events,
    *,
    offline: bool = False,
    require_signature: str | None = None,
) -> tuple[ImageRecord, str]:
    """Return the image to run: the lock's, by digest, pulled unless the engine has it.

    The second value is the digest of the index of several platforms that the reference names; empty: it names none.

    Args:
        text: the reference, or ``oci:PATH``; None with ``require_signature`` for where it was published.
        offline: ask no registry.
        require_signature: as for ``pull``.

    Raises:
        UsageError: the reference has no digest.
        NotReproducibleError: it is not the lock's image.
        IntegrityError: it is not signed as it must be.
    """
    who = parse_trust(require_signature) if require_signature is not None else None
    if who is not None and offline:
        raise UsageError("--require-signature asks the registry, which --offline forbids", "leave out one of them")
    if text is not None and (layout_reference := parse_layout(text)) is not None:
        return pulled(loaded, layout_reference, engine, events, who)
    reference = parse_reference(text) if text is not None else published_reference(loaded)
    if not reference.digest:
        raise UsageError(
            f"--image {text}: a tag may mean something else tomorrow",
            f"name the image by digest, which envbuild push prints: {reference.name}@sha256:…",
        )
    recorded = read_image_record(loaded.path, loaded.lock)
    index = read_index(loaded.path, loaded.lock, recorded.manifest) if recorded is not None else ""
    known = recorded is not None and reference.digest in {recorded.manifest, index}
    if who is None and recorded is not None and known and is_recorded(engine.find_image(recorded.reference), recorded):
        return recorded, index if reference.digest == index else ""
    if offline:
        raise EngineError(f"the engine lacks {reference}, and --offline forbids to ask the registry", "run it without")
    return pulled(loaded, reference, engine, events, who)


def pulled(
    loaded: LoadedLock, reference: Reference | LayoutReference, engine: Engine, events: Events, who: Trust | None = None
) -> tuple[ImageRecord, str]:
    """Bring the image in, verified; returns it as ``image_for_run`` does. Errors as for ``pull``.

    What is signed is an image in a registry: that of a file has to be the one that was published and signed there.
    """
    from envbuild.image.plan.model import plan
    from envbuild.registry.image import read_image

    lock = loaded.lock
    architecture = str(plan(lock).platform["architecture"])
    with _source(reference) as repository:
        remote = read_image(repository, _target(reference, lock), architecture)
        record = check_is_locks(remote, reference, loaded)
        if who is not None:  # of the very manifest that is read here, whatever the tag means by now
            signed_at = published_reference(loaded) if isinstance(reference, LayoutReference) else reference
            require(signed_at.at(remote.manifest.digest), who, events)
        remove_changed_layers(engine, record.reference, events)
        if is_recorded(engine.find_image(record.reference), record):
            events.report(ImagePulled(reference=str(reference)))
        else:
            check_lock_inside(repository, remote, reference, lock)
            _bring(repository, remote, record, engine, events)
    held = engine.find_image(record.reference)
    signed = who is None or (held is not None and held.config in (remote.config_digest, remote.manifest.digest))
    if not is_recorded(held, record) or not signed:
        raise EngineError(
            f"the engine made another image of {reference} than sha256:{record.config}",
            f"remove it and pull again: docker rmi {record.reference}",
        )
    if read_image_record(loaded.path, lock) is None and (replaced := write_image_record(loaded.path, record)):
        events.report(Note(text=replaced))
    return record, remote.index


def _source(reference: Reference | LayoutReference) -> Repository | LayoutSource:
    """Return what has the image; a context manager."""
    from envbuild.net.config import network_config
    from envbuild.registry.repository import Repository

    if isinstance(reference, LayoutReference):
        return LayoutSource(reference)
    return Repository(reference, network_config())


def _target(reference: Reference | LayoutReference, lock: locks.Lock) -> str:
    """Return what to ask for: by default the lock's tag of a repository, and the one image of a layout."""
    if reference.target or isinstance(reference, LayoutReference):
        return reference.target
    return locks.lock_digest(lock)[:12]


def check_is_locks(remote: RemoteImage, reference: Reference | LayoutReference, loaded: LoadedLock) -> ImageRecord:
    """Compare an image's record with what is recorded next to the lock, and what it reports of its lock with the lock.

    Raises:
        NotReproducibleError: it is another image, or of another lock, or nothing states which image the lock gives.
    """
    lock, name = loaded.lock, image_record_path(loaded.path).name
    digest = locks.lock_digest(lock)
    labelled = remote.labels.get("envbuild.lock", "").removeprefix("sha256:")
    if labelled != digest:
        raise NotReproducibleError(
            f"{reference} is not the image of {loaded.path.name} — nothing was pulled\n"
            f"  this lock     sha256:{digest}\n  image's lock  {f'sha256:{labelled}' if labelled else 'none'}",
            f"see what it is: envbuild inspect {reference}; or build the lock's own: envbuild build",
        )
    recorded = read_image_record(loaded.path, lock)
    if recorded is None and not reference.digest:
        raise NotReproducibleError(
            f"nothing shows which image {loaded.path.name} gives: {name} is missing, and {reference} is not by digest",
            f"commit {name} next to the lock, or name the image by a digest you trust, or build it: envbuild build",
        )
    if recorded is not None and recorded.config != remote.config_digest:
        raise NotReproducibleError(
            f"{reference} is not the image recorded in {name} — nothing was pulled\n"
            f"  recorded  sha256:{recorded.config}\n  found     sha256:{remote.config_digest}",
            "the same lock must give the same image: find out who pushed it, or build your own: envbuild build",
        )
    if recorded is None and not remote.plain:
        raise NotReproducibleError(
            f"{reference} was not pushed by envbuild, and {name} is missing: no digest of it is recorded",
            f"commit {name} next to the lock, or name what envbuild push has made",
        )
    return recorded or ImageRecord(
        config=remote.config_digest,
        layers=tuple(layer.diff_id for layer in remote.layers),
        layout=lock.layout,
        lock=digest,
        manifest=remote.manifest.digest,
        recipe="",  # not built here
        reference=image_tag(lock),
        sizes=tuple(layer.blob.size for layer in remote.layers),  # plain: blobs are the layers themselves
    )


def check_lock_inside(
    repository: ImageSource, remote: RemoteImage, reference: Reference | LayoutReference, lock: locks.Lock
) -> None:
    """Read the lock that travels in the image; raises ``NotReproducibleError`` if it is another."""
    found = read_lock(repository, remote)
    if found != locks.dumps(lock):
        raise NotReproducibleError(
            f"the lock inside {reference} is not {lock.file_name}, although its label names it — nothing was pulled",
            "find out who pushed it, or build your own: envbuild build",
        )


def read_lock(repository: ImageSource, remote: RemoteImage) -> bytes:
    """Return the lock that travels in an image: a file of its topmost, small layer."""
    from envbuild.registry.image import read_member

    return read_member(repository, remote.layers[-1], layout.LOCK_PATH.lstrip("/"), _LOCK_LIMIT)


def uncompressed(remote: RemoteImage, layers: list[FileBlob]) -> Image:
    """Return the image with uncompressed layers, as envbuild writes it, whatever pushed it."""
    from envbuild.image.oci import layout as oci
    from envbuild.registry.repository import OCI_MANIFEST

    if remote.plain:
        return oci.Image(config=remote.config, manifest=remote.manifest.data, layers=tuple(layers))
    kinds = "application/vnd.oci.image.config.v1+json", "application/vnd.oci.image.layer.v1.tar"
    described = [{"digest": f"sha256:{blob.digest}", "mediaType": kinds[1], "size": blob.size} for blob in layers]
    config = {"digest": f"sha256:{remote.config_digest}", "mediaType": kinds[0], "size": len(remote.config)}
    document = {"config": config, "layers": described, "mediaType": OCI_MANIFEST, "schemaVersion": 2}
    manifest = canonical_json({**document, "annotations": dict(remote.labels)})
    return oci.Image(config=remote.config, manifest=manifest, layers=tuple(layers))


def _bring(
    repository: Repository | LayoutSource, remote: RemoteImage, record: ImageRecord, engine: Engine, events: Events
) -> None:
    """Have all layers in store or engine, and the image in the engine."""
    from envbuild.core.blob import FileBlob
    from envbuild.registry.download import pull_blobs

    store = Store()
    skip = _held(engine, [layer.diff_id for layer in remote.layers])
    kept = _kept(store, {layer.diff_id for layer in remote.layers} - set(skip))
    wanted = [layer for layer in remote.layers if layer.diff_id not in skip and layer.diff_id not in kept]
    needed = [layer.blob for layer in wanted if not (layer.compressed and store.has(layer.diff_id))]
    if isinstance(repository, LayoutSource):
        came = repository.pull(needed, store, events)
    else:
        came = pull_blobs(repository, needed, store, events)
    sizes = dict(zip(record.layers, record.sizes, strict=False))
    for layer in wanted:
        if layer.compressed:
            unpack(layer, store, sizes.get(layer.diff_id))
    blobs = []
    for layer in remote.layers:
        path = kept.get(layer.diff_id) or store.path(layer.diff_id)
        size = path.stat().st_size if layer.diff_id not in skip else layer.blob.size
        blobs.append(FileBlob(digest=layer.diff_id, size=size, path=path))
    _load(engine, uncompressed(remote, blobs), record.reference, skip, events)
    held = len(remote.layers) - len(wanted)
    name = str(repository.reference.name)
    events.report(ImagePulled(reference=name, bytes=came, layers=len(remote.layers), held=held))


def _load(engine: Engine, image: Image, tag: str, skip: set[str], events: Events) -> None:
    """Give the image to the engine; layers in ``skip`` have no file, since it takes them from itself."""
    from envbuild.image.oci import layout as oci

    if skip:
        with events.phase("load"):
            engine.load(oci.docker_archive(image, tag, skip))
        return
    engine.deliver(iter((oci.parcel(image, tag),)), tag, events)


def _held(engine: Engine, diff_ids: list[str]) -> set[str]:
    """Return the layers that the engine takes from itself: those above the same layers as in the image."""
    longest = 0
    for chain in engine.held_layers() or ():
        same = 0
        while same < min(len(chain), len(diff_ids)) and chain[same] == diff_ids[same]:
            same += 1
        longest = max(longest, same)
    return set(diff_ids[:longest])


def _kept(store: Store, wanted: set[str]) -> dict[str, Path]:
    """Return the tars of those wanted layers that builds have left in the store, by digest; of trees they are made."""
    from envbuild.core.fs import boot_id
    from envbuild.image.layer_cache import Layers
    from envbuild.operations.engines import layer_trees

    found: dict[str, Path] = {}
    layers = Layers(store, boot_id(), layer_trees(store))
    for file in store.cache_dir("layers").glob("*/layer.json") if wanted else ():
        with suppress(OSError, ValueError, KeyError):
            if parse_json(file.read_bytes())["diff_id"] in wanted and (blob := layers.find(file.parent.name)):
                found[blob.digest] = blob.path
    return found


def unpack(layer: RemoteLayer, store: Store, size: int | None) -> None:
    """Have the uncompressed layer in the store in place of the blob.

    Args:
        size: its bytes as recorded next to the lock: the registry's blob may hold more than any disk.

    Raises:
        IntegrityError: the blob holds another layer, a larger one, or no size is recorded.
    """
    from envbuild.registry.image import unpacked

    name = f"the layer sha256:{layer.diff_id[:12]}…"
    if not store.has(layer.diff_id):
        if size is None:
            raise IntegrityError(
                f"{name} is compressed, and its size is not recorded", "build the image: envbuild build"
            )
        with store.writer(layer.diff_id, name=name) as part, store.path(layer.blob.digest).open("rb") as stream:
            for data in unpacked(iter(lambda: stream.read(1 << 20), b""), size, name):
                part.write(data)
    store.path(layer.blob.digest).unlink(missing_ok=True)
