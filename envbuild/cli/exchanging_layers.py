"""Layers in ``store push --layers`` and ``store pull --layers``: what vouches for them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from envbuild.cli.console import Console
from envbuild.cli.places import Place
from envbuild.core.digest import SHA256
from envbuild.operations.load_lock import LoadedLock
from envbuild.store.bundle import BESIDE, CONFIG, LAYER, Artifact, Piece, piece_of
from envbuild.store.objects import Store

if TYPE_CHECKING:
    from envbuild.image.plan.model import Plan
    from envbuild.image.tar.layer import Layer

_SMALL = 64 << 20
"""Bytes of what is read into memory: an image's configuration, and what lies beside a layer."""
_BESIDE = re.compile(r"[a-z][a-z0-9-]*\.json")


def made_layers(opened: LoadedLock, console: Console) -> list[Piece]:
    """Describe a lock's layers, made now if need be, with the image's configuration that lists them."""
    from envbuild.cli.building import BuildOptions, assemble_image
    from envbuild.image.plan.model import plan

    built = assemble_image(opened, BuildOptions(offline=True), None, console)
    pieces = [piece_of(built.image.config, CONFIG)]
    for spec, blob in zip(plan(opened.lock).layers, built.image.layers, strict=True):
        size, path = blob.layer.size, blob.path
        piece = Piece(digest=blob.layer.diff_id, size=size, kind=LAYER, title=spec.title, key=spec.key, path=path)
        pieces.append(piece)
        for beside in sorted(path.parent.iterdir()):
            if _BESIDE.fullmatch(beside.name) and beside.name != "layer.json":
                pieces.append(piece_of(beside.read_bytes(), BESIDE, title=beside.name, key=spec.key))
    return pieces


def pull_layers(place: Place, artifact: Artifact | None, opened: LoadedLock, store: Store, console: Console) -> int:
    """Take layers, as far as the digest recorded beside the lock vouches for them; returns how many came.

    A layer's key tells what it is made of, not what it is; whoever pushes could put anything there. The image's
    configuration lists the layers' digests, and its own digest is recorded beside the lock. What lies beside a layer
    decides nothing but which warnings a build gives.
    """
    from envbuild.image.plan.model import plan
    from envbuild.image.runtime_layer import runtime_key

    planned = plan(opened.lock)
    vouched = _vouched(place, artifact, opened, planned, console)
    if artifact is None or not vouched:
        return 0
    wanted = {key: digest for key, digest in vouched.items() if not _has(store, key)}
    top = planned.layers[-1].key
    if top in wanted and store.derived("bytecode", runtime_key(planned)) is not None:
        del wanted[top]
    found = {piece.digest: piece for piece in artifact.pieces if piece.kind == LAYER}
    taken = {key: found[digest] for key, digest in wanted.items() if digest in found}
    place.pull(list(taken.values()), store, console)
    for key, piece in taken.items():
        if key == top:
            _settle_top(planned, opened, store, piece)
        else:
            _settle(place, store, key, piece, [one for one in artifact.pieces if (one.kind, one.key) == (BESIDE, key)])
    return len(taken)


def _has(store: Store, key: str) -> bool:
    return store.derived("layers", key) is not None


def _settle(place: Place, store: Store, key: str, piece: Piece, beside: Sequence[Piece]) -> None:
    """Move a layer that came in as a file of the store to where layers are, with what lies beside it."""
    from envbuild.image.layer_cache import TAR, boot_id, make_layer
    from envbuild.image.tar.layer import Layer

    def make(folder: Path) -> Layer:
        for other in beside:
            if _BESIDE.fullmatch(other.title):
                (folder / other.title).write_bytes(place.read(other.digest, _SMALL))
        store.path(piece.digest).replace(folder / TAR)
        return Layer(diff_id=piece.digest, size=piece.size)

    make_layer(store, key, boot_id(), make)


def _settle_top(planned: Plan, opened: LoadedLock, store: Store, piece: Piece) -> None:
    """Take from the topmost layer what the next build makes it of; the layer itself is made anew for every lock."""
    from envbuild.image.runtime_layer import adopt_runtime

    adopt_runtime(planned, opened.lock, store, store.path(piece.digest))
    store.path(piece.digest).unlink(missing_ok=True)


def _vouched(
    place: Place, artifact: Artifact | None, opened: LoadedLock, planned: Plan, console: Console
) -> Mapping[str, str]:
    """Return which bytes each layer must have, by its key: what the recorded image's configuration says."""
    from envbuild.cli.building import recipe_of
    from envbuild.image.record import image_record_path, read_image_record

    recorded = read_image_record(opened.path, opened.lock)
    name = image_record_path(opened.path).name
    if recorded is None:
        console.line("note", f"no layers taken: there is no {name} that says which bytes they must have")
        return {}
    if recorded.recipe != recipe_of(opened.lock, planned):
        console.line("note", f"no layers taken: {name} is by another version of envbuild")
        return {}
    if artifact is None or not any(piece.digest == recorded.config for piece in artifact.pieces):
        console.line("note", "no layers taken: none of this image are there")
        return {}
    config = json.loads(place.read(recorded.config, _SMALL))
    digests = [str(digest).removeprefix("sha256:") for digest in config["rootfs"]["diff_ids"]]
    pairs = zip((spec.key for spec in planned.layers), digests, strict=True)
    return {key: digest for key, digest in pairs if SHA256.fullmatch(digest)}
