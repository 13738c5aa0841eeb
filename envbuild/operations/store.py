"""The store of this user: what it holds, whether it is sound, and what may go."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from envbuild.core.text import plural
from envbuild.errors import EnvbuildError, IntegrityError
from envbuild.lockfile import model as locks
from envbuild.operations.events import DamagedEntry, Detail, Events, Note, StoreChecked
from envbuild.operations.fetch import fetch_some
from envbuild.operations.load_lock import load_lock
from envbuild.store.gc import Rules, chosen, collect, forget_locks, size_of, sweep
from envbuild.store.inventory import StoreEntry, inventory, kinds_of
from envbuild.store.leases import collecting, users
from envbuild.store.objects import Store
from envbuild.store.roots import DAY, Root, file_names, find_roots, locks_by_entry, needed, registered_lock

_NOT_FETCHED = "not fetched, as asked"


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreListing:
    """What a store holds.

    Attributes:
        folder: the store's folder.
        entries: everything in it.
        roots: the locks that have used it, latest use first.
        needed: names of the entries that these locks need.
        processes: ids of the processes that use it now.
    """

    folder: Path
    entries: tuple[StoreEntry, ...]
    roots: tuple[Root, ...]
    needed: frozenset[str]
    processes: tuple[int, ...]


def list_store(store: Store | None = None) -> StoreListing:
    """List what the store (the user's by default) holds."""
    store = store or Store()
    roots = find_roots(store)
    return StoreListing(
        folder=store.root,
        entries=tuple(inventory(store, kinds_of(roots))),
        roots=tuple(roots),
        needed=needed(roots, 0.0),
        processes=tuple(users(store.root)),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreCheck:
    """What reading all of a store has found.

    Attributes:
        folder: the store's folder.
        checked: entries that were read.
        bytes: their bytes.
        damaged: those with other bytes than promised; they were removed.
        roots: the locks that have used the store.
        missing: why a damaged file that a lock needs was not fetched again, by the file's name.
    """

    folder: Path
    checked: int
    bytes: int
    damaged: tuple[StoreEntry, ...]
    roots: tuple[Root, ...]
    missing: Mapping[str, str] = field(default_factory=dict)

    def require_whole(self) -> None:
        """Raise ``IntegrityError`` if a lock needs a file that was damaged and is gone now."""
        if self.missing:
            lines = "".join(f"\n  {name}: {reason}" for name, reason in sorted(self.missing.items()))
            count = plural(len(self.missing), "file")
            raise IntegrityError(
                f"{count} in the store {self.folder} had other bytes than locked; removed{lines}",
                "bring them in again: envbuild fetch",
            )


def verify_store(events: Events, *, offline: bool = False, store: Store | None = None) -> StoreCheck:
    """Read all of the store; remove what is damaged, and fetch again what a lock needs of it.

    Args:
        offline: fetch nothing.

    Raises:
        IntegrityError: something cannot be read or, damaged, not be removed.
    """
    from envbuild.engine.local import linked, tree_files
    from envbuild.image.layer_cache import is_sound
    from envbuild.store.fsck import check, checkable

    store = store or Store()
    roots = find_roots(store)
    held = [entry for entry in inventory(store, kinds_of(roots)) if checkable(entry)]
    size = sum(entry.size for entry in held)
    began = time.monotonic()
    with events.phase("verify", size) as advance:
        damaged = check(
            store, held, {"layers": is_sound, "trees": tree_files.is_sound, linked.KIND: linked.is_sound}, advance
        )
    seconds = max(time.monotonic() - began, 1e-3)
    files = sum("/" not in entry.name for entry in held)
    events.report(StoreChecked(files=files, made=len(held) - files, bytes=size, seconds=seconds))
    names, users_of = file_names(roots), locks_by_entry(roots)
    for entry in damaged:
        name = names.get(entry.name) or f"{entry.kind}: {entry.name}"
        events.report(DamagedEntry(name=name, locks=tuple(users_of.get(entry.name, ()))))
    lost = _restore(store, damaged, roots, events, offline=offline)
    return StoreCheck(
        folder=store.root, checked=len(held), bytes=size, damaged=tuple(damaged), roots=tuple(roots), missing=lost
    )


def _restore(
    store: Store, damaged: Sequence[StoreEntry], roots: Sequence[Root], events: Events, *, offline: bool
) -> dict[str, str]:
    """Fetch damaged files again where a lock needs them; returns the names of those it could not, with reasons."""
    objects = {entry.name for entry in damaged if "/" not in entry.name}
    names = {file.sha256: file.name for root in roots for file in root.lock.files if file.sha256 in objects}
    made = len(damaged) - len(objects)
    if made:
        text = f"{plural(made, 'layer')} and the like: the next build that needs them makes them again"
        events.report(Note(text=text))
    if objects - names.keys():
        events.report(Note(text=f"{plural(len(objects - names.keys()), 'file')}: no known lock needs them"))
    reasons = dict.fromkeys(names, _NOT_FETCHED)
    for root in () if offline else roots:
        wanted = {file.sha256 for file in root.lock.files if file.sha256 in reasons}
        if not wanted or root.state == "gone":
            continue
        try:
            fetch_some(load_lock(root.lock.place), store, wanted, events)
        except EnvbuildError as error:
            reasons |= dict.fromkeys(wanted, " ".join(error.message.split()))
        reasons = {sha256: reason for sha256, reason in reasons.items() if not store.has(sha256)}
    gone = "the locks that name it are gone"
    lost = {sha256: reason for sha256, reason in reasons.items() if not store.has(sha256)}
    return {names[sha256]: reason if offline or reason != _NOT_FETCHED else gone for sha256, reason in lost.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class GarbageRequest:
    """What may go from a store.

    Attributes:
        older_than: seconds that something must have been unused.
        max_size: bytes the store may keep; younger entries go too until it is that small. None: no limit.
        keep: locks whose entries stay, whether the store knows these locks or not.
        dry_run: remove nothing, find what would go.
    """

    older_than: float = 30.0 * DAY
    max_size: int | None = None
    keep: tuple[Path, ...] = ()
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class GarbageResult:
    """What a garbage collection removed, or would remove.

    Attributes:
        removed: entries that went.
        left: bytes of those that stay.
        needed: bytes that locks need.
        half_made: bytes of what killed commands had left.
        in_use: how many entries were to go and stay, since running commands use them.
    """

    removed: tuple[StoreEntry, ...]
    left: int
    needed: int
    half_made: int
    in_use: int

    @property
    def freed(self) -> int:
        """Bytes that went."""
        return sum(entry.size for entry in self.removed) + self.half_made


def collect_garbage(request: GarbageRequest, events: Events, store: Store | None = None) -> GarbageResult:
    """Remove what no lock needs and nobody has used for long.

    Raises:
        LockError: a lock to keep is invalid.
        StoreWriteError: the store cannot be written.
    """
    store, now = store or Store(), time.time()
    roots, oldest = find_roots(store), now - request.older_than
    kept = [registered_lock(path, locks.load(path)).needs for path in request.keep]
    held = inventory(store, kinds_of(roots))
    rules = Rules(needed=needed(roots, oldest).union(*kept), oldest=oldest, now=now, largest=request.max_size)
    going = chosen(held, rules)
    half_made = 0
    if request.dry_run:
        gone = _unused(store, going) if going else []
    else:
        with events.phase("gc", sum(entry.size for entry in going)) as advance:
            gone = collect(store, going, advance) if going else []
        forgotten = forget_locks(roots, oldest)
        events.report(Detail(text=f"{plural(len(forgotten), 'lock')} forgotten, whose files are gone"))
        half_made = sweep(store) + _sweep_steps(store)
    return GarbageResult(
        removed=tuple(gone),
        left=sum(entry.size for entry in held) - sum(entry.size for entry in gone),
        needed=sum(entry.size for entry in held if entry.name in rules.needed),
        half_made=half_made,
        in_use=len(going) - len(gone),
    )


def _sweep_steps(store: Store) -> int:
    """Remove what killed commands left of build steps, as the next step would; returns its bytes."""
    from envbuild.engine.local.namespaces import sweep_steps

    steps = store.root / "derived" / "steps"
    before = size_of(steps)
    if before:
        sweep_steps(steps)
    return max(0, before - size_of(steps))


def _unused(store: Store, going: Sequence[StoreEntry]) -> list[StoreEntry]:
    """Leave out what running commands use."""
    if not store.root.is_dir():
        return []
    with collecting(store.root) as used:
        return [entry for entry in going if entry.name not in used]


def remove_step_images(*, dry_run: bool = False) -> tuple[str, ...]:
    """Remove the container engine's images of build steps; returns their names. ``dry_run``: only name them.

    Raises:
        EngineError: no engine answers.
    """
    from envbuild.operations.engines import connect_container_engine

    return tuple(connect_container_engine().remove_steps(dry_run=dry_run))
