"""The file next to a lock that holds its image's digests (``pylock.NAME.image.json``), and what follows from it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from envbuild.core.blob import FileBlob
from envbuild.core.fs import atomic_write, read_regular
from envbuild.core.types import OptionalSha256, Sha256, Size
from envbuild.errors import NotReproducibleError
from envbuild.lockfile import model as locks

if TYPE_CHECKING:
    from envbuild.engine.protocol import ImageInfo
    from envbuild.image.oci.layout import Image
    from envbuild.image.plan.model import Plan


_LIMIT = 1 << 20
"""Most bytes of an image's record; one with 127 layers has 15,000."""


class ImageRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is recorded of a lock's image.

    Attributes:
        config: SHA-256 of the configuration, the image's identity (hexadecimal, as all digests here).
        layers: SHA-256 of each layer's uncompressed tar (the diff ID), bottom first.
        layout: the image layout's version.
        lock: SHA-256 of the lock.
        manifest: SHA-256 of the manifest, by which registries know the image.
        recipe: SHA-256 of all that decides the layers, envbuild's own code included; empty if it was not built here.
        reference: its name in the engine.
        sizes: of the layers in bytes, bottom first.
    """

    config: Sha256
    layers: tuple[Sha256, ...]
    layout: int
    lock: Sha256
    manifest: Sha256
    recipe: OptionalSha256
    reference: str
    sizes: tuple[Size, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the record as the file has it, and as commands print it."""
        table: dict[str, Any] = msgspec.to_builtins(self)
        return table


def image_tag(lock: locks.Lock) -> str:
    """Return the tag an image gets in an engine: its name, and enough of its lock's digest to distinguish locks."""
    return f"envbuild/{lock.name}:{locks.lock_digest(lock)[:12]}"


def image_record_path(path: Path) -> Path:
    """Return the file next to a lock that holds the image's digests."""
    return path.with_suffix(".image.json")


def read_image_record(path: Path, lock: locks.Lock) -> ImageRecord | None:
    """Return what is recorded of a lock's image; None if nothing is, the file is damaged, or is of another lock."""
    try:
        recorded = msgspec.json.decode(read_regular(image_record_path(path), _LIMIT), type=ImageRecord)
    except (OSError, ValueError, RecursionError):
        return None
    return recorded if recorded.lock == locks.lock_digest(lock) else None


def write_image_record(path: Path, record: ImageRecord) -> str:
    """Record an image next to its lock; equal images leave the file alone.

    Returns a sentence for the user if another image was recorded: a reviewed digest is never replaced silently.
    """
    import json

    replaced = _replaced(path, record)
    atomic_write(image_record_path(path), (json.dumps(record.as_dict(), indent=2, sort_keys=True) + "\n").encode())
    return replaced


def _replaced(path: Path, made: ImageRecord) -> str:
    """Return which image was recorded instead of ``made`` and why that differs; an empty string if none was."""
    name = image_record_path(path).name
    try:
        data = read_regular(image_record_path(path), _LIMIT)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{name} could not be read ({error.strerror}) and is replaced"
    try:
        recorded = msgspec.json.decode(data, type=ImageRecord)
    except (ValueError, RecursionError):
        return f"{name} was no record of an image and is replaced"
    if recorded.config == made.config:
        others = [
            field for field in ("layers", "manifest", "sizes") if getattr(recorded, field) != getattr(made, field)
        ]
        named = f"{name} had other {' and '.join(others)} than the image that it names, and is replaced"
        return named if others and recorded.lock == made.lock else ""
    why = "the lock has changed" if recorded.lock != made.lock else "envbuild's own code has changed"
    return f"{name} recorded sha256:{recorded.config[:12]}…, now sha256:{made.config[:12]}…: {why}"


def make_image_record(lock: locks.Lock, image: Image, recipe: str) -> ImageRecord:
    """Describe a built image."""
    return ImageRecord(
        config=image.config_digest,
        layers=tuple(blob.digest for blob in image.layers),
        layout=lock.layout,
        lock=locks.lock_digest(lock),
        manifest=image.manifest_digest,
        recipe=recipe,
        reference=image_tag(lock),
        sizes=tuple(blob.size for blob in image.layers),
    )


def is_recorded(held: ImageInfo | None, recorded: ImageRecord) -> bool:
    """Whether an engine's image is the recorded one; the containerd image store knows it by its manifest's digest."""
    return held is not None and held.config in (recorded.config, recorded.manifest)


def expected_layers(recorded: ImageRecord | None, planned: Plan, recipe: str) -> list[FileBlob] | None:
    """Return the layers an image will have, bottom first, as recorded; they have no files yet.

    None if they are not recorded, or what decides them has changed.
    """
    from envbuild.image.oci import layout

    if recorded is None or recorded.recipe != recipe:
        return None
    if not len(recorded.layers) == len(recorded.sizes) == len(planned.layers):
        return None
    pairs = zip(recorded.layers, recorded.sizes, strict=True)
    layers = [FileBlob(digest=digest, size=size, path=Path()) for digest, size in pairs]
    made = layout.image(planned, layers)
    return layers if made.manifest_digest == recorded.manifest else None


def check_reproduced(path: Path, recorded: ImageRecord | None, made: ImageRecord) -> None:
    """Refuse an image that is not the recorded one although nothing that decides it has changed.

    Raises:
        NotReproducibleError: same lock, same recipe, other bits.
    """
    if recorded and recorded.recipe == made.recipe and recorded.config != made.config:
        raise NotReproducibleError(
            f"the image is not the one recorded in {image_record_path(path).name}\n"
            f"  recorded  sha256:{recorded.config}\n  built     sha256:{made.config}",
            "compare both with diffoscope, and report it: the same lock must give the same image",
        )
