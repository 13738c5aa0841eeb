"""``fetch``: a lock's files into the store, from wherever they are now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from envbuild.cli.console import Console
from envbuild.core.text import human_bytes, plural
from envbuild.errors import BuildError, IntegrityError, UsageError
from envbuild.operations.load_lock import LoadedLock, load_lock
from envbuild.store.objects import Store

if TYPE_CHECKING:
    from envbuild.lockfile.model import Lock
    from envbuild.store.fetch import FetchResult, Item


def fetch_files(path: Path | None, vendor: Path | None, sources: Sequence[Path], console: Console) -> None:
    """Bring all files of a lock into the store, and into a folder if asked for; damaged ones are brought in again."""
    from envbuild.store import vendor as vendoring

    opened = load_lock(path)
    store = Store()
    _drop_damaged(opened.lock, store, console)
    if not ensure_files(opened, store, sources, offline=False, console=console):
        console.line("fetch", "nothing to do", elapsed=True)
    if vendor is not None:
        written = vendoring.vendor(opened.lock, store, vendor, console)
        console.line("vendor", str(vendor), plural(written.written + written.kept, "file"))
    console.result({"lock": opened.lock.file_name, "store": str(store.root), "vendor": str(vendor) if vendor else None})


def ensure_files(opened: LoadedLock, store: Store, folders: Sequence[Path], *, offline: bool, console: Console) -> bool:
    """Fetch what the store lacks; asks no index when it lacks nothing, which is False.

    Raises:
        UsageError: one of ``folders`` is none, even if nothing is missing: on another machine it would be.
        IntegrityError: files could not be had.
    """
    from envbuild.cli import base_image
    from envbuild.store.fetch import lock_items
    from envbuild.store.roots import note_lock
    from envbuild.store.vendor import vendored_sources

    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"--from {folder}: there is no such folder", "make one: envbuild fetch --vendor DIR")
    note_lock(store, opened.path, opened.lock)
    items = lock_items(opened.lock)
    missing = {item.sha256 for item in items if not store.has(item.sha256, item.size)}
    if not missing:
        console.detail(f"fetch: {plural(len(items), 'file')} in the store already")
        return False
    system = opened.lock.os
    if system.image_rootfs in missing and not any(
        system.image_rootfs in vendored_sources(opened.lock, folder) for folder in folders
    ):
        base_image.bring(system, store, console, offline=offline)
        missing.remove(system.image_rootfs)
    result = _fetch(opened, store, folders, missing, offline=offline, console=console)
    console.line(
        "fetch",
        f"{plural(len(items), 'file'):<18}",
        f"{human_bytes(result.bytes):<12}",
        f"{result.rate:.0f} MB/s" if result.bytes else "",
        elapsed=True,
    )
    for warning in result.warnings:
        console.line("note", warning)
    return True


def fetch_some(opened: LoadedLock, store: Store, wanted: set[str], console: Console) -> None:
    """Fetch some of a lock's files, by SHA-256.

    Raises:
        IntegrityError: files could not be had.
    """
    from envbuild.cli import base_image

    system = opened.lock.os
    if system.image_rootfs in wanted:
        base_image.bring(system, store, console, offline=False)
    rest = wanted - {system.image_rootfs}
    if rest:
        _fetch(opened, store, (), rest, offline=False, console=console, only=True)
        console.line("fetch", f"{plural(len(rest), 'file'):<18}", opened.lock.file_name)


def _fetch(
    opened: LoadedLock,
    store: Store,
    folders: Sequence[Path],
    missing: set[str],
    *,
    offline: bool,
    console: Console,
    only: bool = False,
) -> FetchResult:
    """Fetch from folders, mirrors, and where wheels were when they were locked; else ask the indexes where they are.

    Args:
        only: leave out files that are not in ``missing``, there or not.
    """
    from envbuild.net.config import network_config
    from envbuild.store.fetch import fetch, lock_items
    from envbuild.store.vendor import vendored_sources

    lock, network = opened.lock, network_config(offline=offline)
    known: list[Mapping[str, Sequence[str]]] = [vendored_sources(lock, folder) for folder in folders]
    wanted = set() if offline else missing - {sha256 for mapping in known for sha256 in mapping}
    known.append(_deb_sources(opened, wanted))

    def items(wheels: Mapping[str, Sequence[str]], *places: Mapping[str, Sequence[str]]) -> list[Item]:
        found = lock_items(lock, *known, *places, wheels)
        return [item for item in found if item.sha256 in missing or not only]

    remembered = _remembered(lock, store, wanted)
    try:
        wheels = _wheels_now(opened, wanted - remembered.keys())
        return fetch(items(wheels, remembered), store, console, network)
    except IntegrityError as error:
        # A remembered place may be gone, or have other bytes by now.
        left = {sha256 for sha256 in remembered if not store.has(sha256)}
        if not left:
            raise
        try:
            wheels = _wheels_now(opened, left)
        except IntegrityError:
            raise error from None
        return fetch(items(wheels), store, console, network)


@contextmanager
def heal_corrupt_objects(lock: Lock, store: Store, console: Console) -> Iterator[None]:
    """Tell files that were damaged in the store from other failures, and remove them, so that a fetch heals it."""
    try:
        yield
    except (IntegrityError, BuildError) as error:
        damaged = _drop_damaged(lock, store, console)
        if not damaged:
            raise
        names = "".join(f"\n  {item.name}: expected sha256 {item.sha256}" for item in damaged)
        raise IntegrityError(
            f"{plural(len(damaged), 'file')} in the store {store.root} had other bytes than locked; removed{names}",
            "bring them in again: envbuild fetch",
        ) from error


@contextmanager
def heal_corrupt_layers(store: Store, console: Console) -> Iterator[None]:
    """Tell layers that were damaged in the store from other failures, and remove them, so that a build heals it."""
    try:
        yield
    except (IntegrityError, BuildError) as error:
        damaged = _drop_damaged_layers(store, console)
        if not damaged:
            raise
        raise IntegrityError(
            f"{plural(damaged, 'layer')} in the store {store.root} had other bytes than when made; removed",
            "make what is missing: envbuild build",
        ) from error


def _drop_damaged_layers(store: Store, console: Console) -> int:
    """Read all layers that this process uses; those with other bytes are removed and counted."""
    from envbuild.image.layer_cache import is_sound
    from envbuild.store import leases
    from envbuild.store.fsck import check
    from envbuild.store.inventory import inventory

    used = leases.names_used(store.root)
    held = [thing for thing in inventory(store, {}) if thing.kind == "layers" and thing.name in used]
    with console.phase("verify", sum(thing.size for thing in held)) as advance:
        return len(check(store, held, is_sound, advance))


def _drop_damaged(lock: Lock, store: Store, console: Console) -> list[Item]:
    """Read all of a lock's files that the store holds; those with other bytes are removed and returned."""
    from envbuild.store.fetch import lock_items

    held = [item for item in lock_items(lock) if store.has(item.sha256)]
    damaged = []
    with console.phase("verify", sum(item.size for item in held)) as advance:
        for item in held:
            if not store.verify(item.sha256):
                damaged.append(item)
            advance(item.size)
    return damaged


def _deb_sources(opened: LoadedLock, missing: set[str]) -> Mapping[str, Sequence[str]]:
    """Return where the locked OS packages are; asks no one if none is missing."""
    from envbuild.resolve.debian.closure import deb_urls

    wanted = any(package.sha256 in missing for package in opened.lock.os.packages)
    return deb_urls(opened.lock.os, opened.mirror) if wanted else {}


def _remembered(lock: Lock, store: Store, missing: set[str]) -> dict[str, Sequence[str]]:
    """Return where missing wheels were when they were locked, as far as that is still known."""
    folder = store.cache_dir("locations")
    found: dict[str, Sequence[str]] = {}
    for sha256 in {package.wheel.sha256 for package in lock.packages} & missing:
        with suppress(OSError, ValueError):  # notes have no lease: a collection may take one at any moment
            found[sha256] = (folder / sha256).read_text().splitlines()
    return found


def _wheels_now(opened: LoadedLock, missing: set[str]) -> Mapping[str, Sequence[str]]:
    """Ask the indexes where missing wheels are; asks no one if none is missing."""
    from envbuild.resolve.python.pins import wheel_urls
    from envbuild.resolve.python.wheels import Target

    lock = opened.lock
    wanted = [package for package in lock.packages if package.wheel.sha256 in missing]
    target = Target(python=lock.python.version, platform=lock.python.platform)
    wheels = tuple(map(Path, opened.spec.wheels)) if opened.spec else ()
    return wheel_urls(wanted, target, wheels=wheels, folder=opened.folder)
