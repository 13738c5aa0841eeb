"""The file beside a lock that holds its image's digests, and what follows from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envbuild.core.fs import atomic_write
from envbuild.errors import NotReproducibleError
from envbuild.lockfile import model as locks

if TYPE_CHECKING:
    from envbuild.engine.protocol import ImageInfo
    from envbuild.image.oci.layout import Image
    from envbuild.image.plan.model import Plan
    from envbuild.image.tar.layer import Layer

Identity = dict[str, Any]
"""``config`` and ``manifest``: the image's digests (hex). ``layers``: its layers' (diff IDs), bottom first.
``lock``: the lock's digest. ``recipe``: digest of all that decides the layers, envbuild's own code included.
``sizes``: theirs in bytes. ``reference``: the tag in the engine. ``layout``: its version."""


def image_tag(lock: locks.Lock) -> str:
    """Return the tag an image gets in an engine: its name, and enough of its lock's digest to tell locks apart."""
    return f"envbuild/{lock.name}:{locks.lock_digest(lock)[:12]}"


def identity_path(path: Path) -> Path:
    """Return the file beside a lock that holds the image's digests."""
    return path.with_suffix(".image.json")


def read_identity(path: Path, lock: locks.Lock) -> Identity | None:
    """Return what is recorded about a lock's image, or None if nothing is, or if it is of another lock."""
    try:
        recorded = json.loads(identity_path(path).read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(recorded, dict) or recorded.get("lock") != locks.lock_digest(lock):
        return None
    if not all(isinstance(recorded.get(name), str) for name in ("config", "manifest", "recipe", "reference")):
        return None
    return recorded


def is_recorded(held: ImageInfo | None, recorded: Identity) -> bool:
    """Whether an engine's image is the recorded one; the containerd image store knows it by its manifest's digest."""
    return held is not None and held.config in (recorded["config"], recorded["manifest"])


def make_identity(lock: locks.Lock, image: Image, recipe: str) -> Identity:
    """Describe a built image."""
    return {
        "config": image.config_digest,
        "layers": [blob.layer.diff_id for blob in image.layers],
        "layout": lock.layout,
        "lock": locks.lock_digest(lock),
        "manifest": image.manifest_digest,
        "recipe": recipe,
        "reference": image_tag(lock),
        "sizes": [blob.layer.size for blob in image.layers],
    }


def expected_layers(recorded: Identity | None, planned: Plan, recipe: str) -> list[Layer] | None:
    """Return the layers an image will have, bottom first, as recorded; None if they, or what decides them, are not."""
    from envbuild.image.oci import layout
    from envbuild.image.tar.layer import Layer

    if recorded is None or recorded["recipe"] != recipe:
        return None
    try:
        pairs = zip(recorded["layers"], recorded["sizes"], strict=True)
        layers = [Layer(diff_id=str(digest), size=int(size)) for digest, size in pairs]
        made = layout.image(planned, [layout.Blob(layer=layer, path=Path()) for layer in layers])
    except (KeyError, TypeError, ValueError):
        return None
    return layers if len(layers) == len(planned.layers) and made.manifest_digest == recorded["manifest"] else None


def check_reproduced(path: Path, recorded: Identity | None, made: Identity) -> None:
    """Refuse an image that is not the recorded one although nothing that decides it has changed.

    Raises:
        NotReproducibleError: same lock, same recipe, other bits.
    """
    if recorded and recorded["recipe"] == made["recipe"] and recorded["config"] != made["config"]:
        raise NotReproducibleError(
            f"the image is not the one recorded in {identity_path(path).name}\n"
            f"  recorded  sha256:{recorded['config']}\n  built     sha256:{made['config']}",
            "compare both with diffoscope, and report it: the same lock must give the same image",
        )


def write_identity(path: Path, identity: Identity) -> None:
    """Record an image beside its lock; equal images leave the file alone."""
    atomic_write(identity_path(path), (json.dumps(identity, indent=2, sort_keys=True) + "\n").encode())
