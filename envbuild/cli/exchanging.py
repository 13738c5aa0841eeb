"""``store push`` and ``store pull``: a lock's files from one machine's store to another's."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from envbuild.cli.console import Console
from envbuild.cli.exchanging_layers import made_layers, pull_layers
from envbuild.cli.places import Place, open_place
from envbuild.core.text import human_bytes, plural
from envbuild.errors import IntegrityError, UsageError
from envbuild.operations.load_lock import LoadedLock, load_lock
from envbuild.store.bundle import FILE, artifact_of, files_of, read_artifact, tag_of
from envbuild.store.objects import Store
from envbuild.store.roots import holders, note_lock


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
            more = made_layers(opened, console) if wishes.layers else []
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
    with open_place(wishes.place, exists=True) as place:
        if wishes.everything:
            results = [_pull_artifact(place, tag, store, console) for tag in place.tags()]
        else:
            results = [_pull_lock(place, opened, store, wishes, console) for opened in _chosen(wishes, store)]
    console.result({"place": wishes.place, "pulled": [result for result in results if result]})


def _chosen(wishes: Copies, store: Store) -> Iterator[LoadedLock]:
    """Open the locks: those named, all that used the store, or the one found upward."""
    if wishes.everything:
        for holder in holders(store):
            if holder.state != "gone":
                yield load_lock(Path(holder.entry.path))
        return
    for path in wishes.locks or (None,):
        yield load_lock(path)


def _pull_lock(place: Place, opened: LoadedLock, store: Store, wishes: Copies, console: Console) -> dict[str, object]:
    lock, began = opened.lock, time.monotonic()
    tag = tag_of(lock)
    note_lock(store, opened.path, lock)
    data = place.manifest(tag)
    artifact = None if data is None else read_artifact(data, f"{wishes.place}: {tag}")
    wanted = [piece for piece in files_of(lock) if not store.has(piece.digest, piece.size)]
    there = wanted if artifact is not None else place.held(wanted)
    place.pull(there, store, console)
    made = pull_layers(place, artifact, opened, store, console) if wishes.layers else 0
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
