"""``store push`` and ``store pull``: a lock's files from one machine's store to another's."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from envbuild.cli.console import Console, human_bytes, plural
from envbuild.cli.opening import Opened, open_lock
from envbuild.cli.places import Place, open_place
from envbuild.digest import SHA256
from envbuild.errors import IntegrityError, UsageError
from envbuild.holdings.artifact import (
    BESIDE,
    CONFIG,
    FILE,
    LAYER,
    Artifact,
    Piece,
    artifact_of,
    files_of,
    piece_of,
    read_artifact,
    tag_of,
)
from envbuild.holdings.register import holders, note_lock
from envbuild.store import Store

if TYPE_CHECKING:
    from envbuild.image.assemble import Built
    from envbuild.image.layer import Layer

_SMALL = 64 << 20
"""Bytes of what is read into memory: an image's configuration, and what lies beside a layer."""
_BESIDE = re.compile(r"[a-z][a-z0-9-]*\.json")


@dataclass(frozen=True, kw_only=True, slots=True)
class Copies:
    """Options of ``store push`` and ``store pull``."""

    place: str
    locks: tuple[Path, ...] = ()
    everything: bool = False
    layers: bool = False

    def __post_init__(self) -> None:
        """Refuse contradictions."""
        if self.everything and self.locks:
            raise UsageError("--all takes every lock", "leave out either --all or the locks")


def push_store(wishes: Copies, console: Console) -> None:
    """Copy what locks need out of the store.

    Raises:
        IntegrityError: files are not in the store, or the place cannot be written.
        RegistryError: the registry does not answer or refuses.
    """
    store, results = Store(), []
    with open_place(wishes.place) as place:
        for opened in _chosen(wishes, store):
            began = time.monotonic()
            lock = opened.lock
            more = _layers(opened, store, console) if wishes.layers else []
            tag = tag_of(lock)
            moved = place.push(artifact_of(lock, store, more), tag, console)
            seconds = max(time.monotonic() - began, 1e-3)
            console.line(
                "push",
                f"{lock.name:<18}",
                f"{plural(moved.sent, 'file')}, {moved.held:,} there already",
                f"{human_bytes(moved.bytes)}  {moved.bytes / 1e6 / seconds:.0f} MB/s" if moved.bytes else "",
                elapsed=True,
            )
            results.append({"lock": lock.file_name, "tag": tag, "sent": moved.sent, "bytes": moved.bytes})
    console.result({"place": wishes.place, "pushed": results})


def pull_store(wishes: Copies, console: Console) -> None:
    """Copy what locks need into the store; every byte is checked.

    Raises:
        IntegrityError: the place lacks files, or has other bytes than its names say.
        RegistryError: the registry does not answer or refuses.
    """
    store = Store()
    with open_place(wishes.place) as place:
        if wishes.everything:
            results = [_pull_artifact(place, tag, store, console) for tag in place.tags()]
        else:
            results = [_pull_lock(place, opened, store, wishes, console) for opened in _chosen(wishes, store)]
    console.result({"place": wishes.place, "pulled": [result for result in results if result]})


def _chosen(wishes: Copies, store: Store) -> Iterator[Opened]:
    """Open the locks: those named, all that used the store, or the one found upward."""
    if wishes.everything:
        for holder in holders(store):
            if holder.state != "gone":
                yield open_lock(Path(holder.entry.path))
        return
    for path in wishes.locks or (None,):
        yield open_lock(path)


def _pull_lock(place: Place, opened: Opened, store: Store, wishes: Copies, console: Console) -> dict[str, object]:
    lock, began = opened.lock, time.monotonic()
    tag = tag_of(lock)
    note_lock(store, opened.path, lock)
    data = place.manifest(tag)
    artifact = None if data is None else read_artifact(data, f"{wishes.place}: {tag}")
    wanted = [piece for piece in files_of(lock) if not store.has(piece.digest, piece.size)]
    there = wanted if artifact is not None else place.held(wanted)
    place.pull(there, store, console)
    made = _pull_layers(place, artifact, opened, store, console) if wishes.layers else 0
    size = sum(piece.size for piece in there)
    seconds = max(time.monotonic() - began, 1e-3)
    rate = f"{human_bytes(size)}  {size / 1e6 / seconds:.0f} MB/s" if size else ""
    kept = f"{len(files_of(lock)) - len(wanted):,} there already"
    console.line("pull", f"{lock.name:<18}", f"{plural(len(there), 'file')}, {kept}", rate, elapsed=True)
    if lacking := sorted(piece.title for piece in wanted if piece not in there):
        names = "".join(f"\n  {name}" for name in lacking)
        raise IntegrityError(
            f"{wishes.place} lacks {plural(len(lacking), 'file')} of {opened.path.name}{names}",
            "fetch the rest: envbuild fetch; or push them where they are: envbuild store push",
        )
    return {"lock": lock.file_name, "tag": tag, "files": len(there), "layers": made, "bytes": size}


def _pull_artifact(place: Place, tag: str, store: Store, console: Console) -> dict[str, object] | None:
    """Take an artifact's files without knowing its lock: each one is what its digest says, or is not taken."""
    data = place.manifest(tag)
    artifact = None if data is None else read_artifact(data, tag)
    if artifact is None:
        return None
    files = [piece for piece in artifact.pieces if piece.kind == FILE]
    wanted = [piece for piece in files if not store.has(piece.digest, piece.size)]
    place.pull(wanted, store, console)
    size = sum(piece.size for piece in wanted)
    kept = f"{len(files) - len(wanted):,} there already"
    console.line("pull", tag, f"{plural(len(wanted), 'file')}, {kept}", human_bytes(size) if size else "", elapsed=True)
    return {"lock": artifact.lock.title, "tag": tag, "files": len(wanted), "layers": 0, "bytes": size}


def _layers(opened: Opened, store: Store, console: Console) -> list[Piece]:
    """Describe a lock's layers, made now if need be, all but the topmost, which is made anew for every lock."""
    from envbuild.cli.building import BuildOptions, assemble_image
    from envbuild.image.plan import plan

    built: Built = assemble_image(opened, BuildOptions(offline=True), None, console)
    pieces = [piece_of(built.image.config, CONFIG)]
    for spec, blob in zip(plan(opened.lock).layers[:-1], built.image.layers, strict=False):
        layer, path = blob.layer, blob.path
        pieces.append(
            Piece(digest=layer.diff_id, size=layer.size, kind=LAYER, title=spec.title, key=spec.key, path=path)
        )
        for beside in sorted(path.parent.iterdir()):
            if _BESIDE.fullmatch(beside.name) and beside.name != "layer.json":
                pieces.append(piece_of(beside.read_bytes(), BESIDE, title=beside.name, key=spec.key))
    return pieces


def _pull_layers(place: Place, artifact: Artifact | None, opened: Opened, store: Store, console: Console) -> int:
    """Take layers, as far as the digest recorded beside the lock vouches for them; returns how many came."""
    from envbuild.image.layers import boot_id, make_layer

    vouched = _vouched(place, artifact, opened, console)
    wanted = {key: digest for key, digest in vouched.items() if store.derived("layers", key) is None}
    found = {piece.digest: piece for piece in artifact.pieces if piece.kind == LAYER} if artifact else {}
    taken = {key: found[digest] for key, digest in wanted.items() if digest in found}
    place.pull(list(taken.values()), store, console)
    for key, piece in taken.items():
        beside = [other for other in artifact.pieces if other.kind == BESIDE and other.key == piece.key]  # type: ignore[union-attr]

        def make(folder: Path, piece: Piece = piece, beside: Sequence[Piece] = beside) -> Layer:
            return _settle(place, store, folder, piece, beside)

        make_layer(store, key, boot_id(), make)
    return len(taken)


def _settle(place: Place, store: Store, folder: Path, piece: Piece, beside: Sequence[Piece]) -> Layer:
    """Move a layer that came in as a file of the store to where layers are, with what lies beside it."""
    from envbuild.image.layer import Layer
    from envbuild.image.layers import TAR

    for other in beside:
        if _BESIDE.fullmatch(other.title):
            (folder / other.title).write_bytes(place.read(other.digest, _SMALL))
    store.path(piece.digest).replace(folder / TAR)
    return Layer(diff_id=piece.digest, size=piece.size)


def _vouched(place: Place, artifact: Artifact | None, opened: Opened, console: Console) -> dict[str, str]:
    """Return which bytes each layer must have, by its key: what the recorded image's configuration says.

    A layer's key tells what it is made of, not what it is; whoever pushes could put anything there. The image's
    configuration lists the layers' digests, and its own digest is recorded beside the lock.
    """
    from envbuild.cli.building import recipe_of
    from envbuild.cli.identity import identity_path, read_identity
    from envbuild.image.plan import plan

    recorded, planned = read_identity(opened.path, opened.lock), plan(opened.lock)
    name = identity_path(opened.path).name
    if recorded is None:
        console.line("note", f"no layers taken: there is no {name} that says which bytes they must have")
        return {}
    if recorded["recipe"] != recipe_of(opened.lock, planned):
        console.line("note", f"no layers taken: {name} is by another version of envbuild")
        return {}
    if artifact is None or not any(piece.digest == recorded["config"] for piece in artifact.pieces):
        console.line("note", "no layers taken: none of this image are there")
        return {}
    config = json.loads(place.read(recorded["config"], _SMALL))
    digests = [str(digest).removeprefix("sha256:") for digest in config["rootfs"]["diff_ids"]]
    pairs = zip((spec.key for spec in planned.layers[:-1]), digests, strict=False)
    return {key: digest for key, digest in pairs if SHA256.fullmatch(digest)}
