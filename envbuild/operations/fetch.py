"""Fetch a lock's files into the store, from their current locations, and heal what is corrupt there."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from envbuild.core.text import plural
from envbuild.errors import BuildError, IntegrityError, ResolveError, UsageError
from envbuild.operations.events import (
    Detail,
    Events,
    FilesFetched,
    Note,
    NothingToFetch,
    SomeFilesFetched,
)
from envbuild.operations.load_lock import LoadedLock, load_lock
from envbuild.operations.sources import build_missing, built_wheels
from envbuild.operations.standalone import standalone_sources
from envbuild.store.objects import Store, StoreWriteError

if TYPE_CHECKING:
    from envbuild.lockfile.model import Lock
    from envbuild.resolve.debian.sources import AptConfig
    from envbuild.store.fetch import FetchResult, Item
    from envbuild.store.vendor import Vendored


@dataclass(frozen=True, kw_only=True, slots=True)
class FetchedLock:
    """A lock whose files are in the store.

    Attributes:
        loaded: the lock.
        store: the store's folder.
        vendor: the folder that the files were also written to, if asked for.
        vendored: what was written there.
    """

    loaded: LoadedLock
    store: Path
    vendor: Path | None = None
    vendored: Vendored | None = None


def fetch(
    path: Path | None, events: Events, *, vendor: Path | None = None, sources: Sequence[Path] = ()
) -> FetchedLock:
    """Fetch all files of a lock into the store, and write them to a folder if asked for; corrupt ones are replaced.

    Args:
        path: the lock's file; None: search upward from the working directory.
        events: receives progress.
        vendor: also write all files and the lock to this folder.
        sources: folders that an earlier ``vendor`` wrote, tried before any index.

    Raises:
        UsageError: one of ``sources`` is no folder.
        LockError: there is no lock, it is invalid, or it is stale.
        IntegrityError: a file could not be fetched.
    """
    from envbuild.store import vendor as vendoring

    loaded, store = load_lock(path), Store()
    _drop_corrupt(loaded.lock, store, events)
    if not ensure_files(loaded, store, sources, offline=False, events=events):
        events.report(NothingToFetch())
    vendored = vendoring.vendor(loaded.lock, store, vendor, events) if vendor is not None else None
    return FetchedLock(loaded=loaded, store=store.root, vendor=vendor, vendored=vendored)


def ensure_files(
    loaded: LoadedLock,
    store: Store,
    folders: Sequence[Path],
    *,
    offline: bool,
    events: Events,
    without: Collection[str] = (),
) -> bool:
    """Fetch what the store lacks; returns False, without a request to any index, if it lacks nothing.

    Args:
        without: SHA-256 of files that are not needed now.

    Raises:
        UsageError: one of ``folders`` is no folder, even if nothing is missing: on another machine it would be.
        IntegrityError: a file could not be fetched.
    """
    from envbuild.operations.bundles import pull_from_published
    from envbuild.operations.operating_system import fetch_base_image
    from envbuild.store.fetch import lock_items
    from envbuild.store.roots import note_lock
    from envbuild.store.vendor import vendored_sources

    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"--from {folder}: there is no such folder", "make one: envbuild fetch --vendor DIR")
    note_lock(store, loaded.path, loaded.lock)
    items = lock_items(loaded.lock)
    missing = {item.sha256 for item in items if item.sha256 not in without and not store.has(item.sha256, item.size)}
    if not missing:
        events.report(Detail(text=f"fetch: {plural(len(items) - len(without), 'file')} in the store already"))
        return False
    system = loaded.lock.os
    if system.image_rootfs in missing and not any(
        system.image_rootfs in vendored_sources(loaded.lock, folder) for folder in folders
    ):
        fetch_base_image(system, store, events, offline=offline)
        missing.remove(system.image_rootfs)
    there = {sha256 for folder in folders for sha256 in vendored_sources(loaded.lock, folder)}
    built = (built_wheels(loaded.lock) & missing) - there
    if built and not offline:
        built -= pull_from_published(loaded, store, built, events).found
        missing = {sha256 for sha256 in missing if not store.has(sha256)}
    only = bool(built or without)
    result = _fetch(loaded, store, folders, missing - built, offline=offline, events=events, only=only)
    if built:
        build_missing(loaded, store, built, events, offline=offline)
    events.report(FilesFetched(files=len(items) - len(without), bytes=result.bytes, rate=result.rate))
    for warning in result.warnings:
        events.report(Note(text=warning))
    return True


def fetch_emulators(loaded: LoadedLock, store: Store, events: Events, *, offline: bool) -> None:
    """Fetch what a lock's programs are emulated with, if the store lacks it.

    Raises:
        IntegrityError: it is not there and may not be fetched, or it does not arrive.
    """
    missing = {package.sha256 for package in loaded.lock.emulators if not store.has(package.sha256)}
    if missing and offline:
        raise IntegrityError(
            "the store lacks the locked emulator, and --offline forbids to fetch it", "run it without --offline"
        )
    if missing:
        fetch_some(loaded, store, missing, events)


def unneeded_emulators(lock: Lock) -> frozenset[str]:
    """Return the SHA-256 of emulators that a build does without: this machine starts the image's programs itself."""
    from envbuild.operations.emulation import is_foreign

    return frozenset() if is_foreign(lock.os.architecture) else frozenset(each.sha256 for each in lock.emulators)


def fetch_some(loaded: LoadedLock, store: Store, wanted: set[str], events: Events) -> None:
    """Fetch some of a lock's files, by SHA-256.

    Raises:
        IntegrityError: a file could not be fetched.
    """
    from envbuild.operations.operating_system import fetch_base_image

    system = loaded.lock.os
    if system.image_rootfs in wanted:
        fetch_base_image(system, store, events, offline=False)
    rest = wanted - {system.image_rootfs}
    if built := rest & built_wheels(loaded.lock):
        build_missing(loaded, store, built, events, offline=False)
        rest -= built
    if rest:
        _fetch(loaded, store, (), rest, offline=False, events=events, only=True)
        events.report(SomeFilesFetched(files=len(rest), lock=loaded.lock.file_name))


def _fetch(
    loaded: LoadedLock,
    store: Store,
    folders: Sequence[Path],
    missing: set[str],
    *,
    offline: bool,
    events: Events,
    only: bool = False,
) -> FetchResult:
    """Fetch from everywhere; what no folder, mirror or index has from the registries that the image was pushed to."""
    from envbuild.operations.bundles import pull_from_published
    from envbuild.store.fetch import FetchResult, lock_items

    began = time.monotonic()
    try:
        return _from_sources(loaded, store, folders, missing, offline=offline, events=events, only=only)
    except StoreWriteError:
        raise
    except (IntegrityError, ResolveError) as error:
        left = {sha256 for sha256 in missing if not store.has(sha256)}
        if offline or not left:
            raise
        asked = pull_from_published(loaded, store, left, events)
        if left - asked.found:
            looked = "\n".join(_looked(loaded.lock, store, folders, asked.answers, left))
            raise type(error)(f"{error.message}\n{looked}", ways_out(loaded.lock, left, path=loaded.path)) from None
    size = sum(item.size for item in lock_items(loaded.lock) if item.sha256 in missing)
    seconds = time.monotonic() - began
    return FetchResult(fetched=len(missing), bytes=size, reused=0, seconds=seconds)


def _looked(
    lock: Lock, store: Store, folders: Sequence[Path], registries: Mapping[str, str], missing: set[str]
) -> Iterator[str]:
    """Yield the places that were asked for missing files, a line each."""
    from envbuild.operations.operating_system import snapshot_service

    yield f"looked in  the store {store.root}"
    for folder in folders:
        yield f"           the folder {folder}"
    yield "           mirrors and indexes of this machine's configuration"
    if any(package.sha256 in missing for package in lock.os.packages):
        title, address = snapshot_service(lock.os)
        yield f"           {title}'s snapshot service: {address or 'none is known'}"
    for place, answer in registries.items():
        yield f"           {place}: {answer}"
    if not registries:
        yield "           no registry: nothing records that the image was pushed (envbuild push --bundle --write)"


def _from_sources(
    loaded: LoadedLock,
    store: Store,
    folders: Sequence[Path],
    missing: set[str],
    *,
    offline: bool,
    events: Events,
    only: bool = False,
) -> FetchResult:
    """Fetch from folders, mirrors, and the addresses that wheels had when they were locked; else ask the indexes.

    Args:
        only: leave out files that are not in ``missing``.
    """
    from envbuild.net.config import network_config
    from envbuild.store.fetch import fetch as fetch_items
    from envbuild.store.fetch import lock_items
    from envbuild.store.vendor import vendored_sources

    lock, network = loaded.lock, network_config(offline=offline)
    known: list[Mapping[str, Sequence[str]]] = [vendored_sources(lock, folder) for folder in folders]
    wanted = set() if offline else missing - {sha256 for mapping in known for sha256 in mapping}
    known.append(_deb_sources(loaded, wanted))
    known.append(standalone_sources(lock, wanted))

    def items(wheels: Mapping[str, Sequence[str]], *places: Mapping[str, Sequence[str]]) -> list[Item]:
        found = lock_items(lock, *known, *places, wheels)
        return [item for item in found if item.sha256 in missing or not only]

    remembered = _remembered(lock, store, wanted)
    ways = ways_out(lock, wanted, path=loaded.path)
    wheels, why_not = _wheels_or_why(loaded, wanted - remembered.keys())
    try:
        return fetch_items(items(wheels, remembered), store, events, network, ways=ways)
    except StoreWriteError:
        raise
    except IntegrityError as error:
        # A remembered place may be gone, or have other bytes by now.
        left = {sha256 for sha256 in remembered if not store.has(sha256)}
        if left:
            wheels, why_not = _wheels_or_why(loaded, left)
        if left and not why_not:
            return fetch_items(items(wheels), store, events, network, ways=ways)
        if why_not:
            raise IntegrityError(f"{error.message}\n{why_not}", error.hint) from None
        raise


@contextmanager
def heal_corrupt_objects(lock: Lock, store: Store, events: Events) -> Iterator[None]:
    """Remove corrupt files from the store if the block fails because of them, so that a fetch heals it.

    Raises:
        IntegrityError: the block failed, and files had other bytes than locked; they are named. Without such files
            the block's own error is raised.
    """
    try:
        yield
    except (IntegrityError, BuildError) as error:
        corrupt = _drop_corrupt(lock, store, events)
        if not corrupt:
            raise
        names = "".join(f"\n  {item.name}: expected sha256 {item.sha256}" for item in corrupt)
        raise IntegrityError(
            f"{plural(len(corrupt), 'file')} in the store {store.root} had other bytes than locked; removed{names}",
            "bring them in again: envbuild fetch",
        ) from error


@contextmanager
def heal_corrupt_layers(store: Store, events: Events) -> Iterator[None]:
    """Remove corrupt layers from the store if the block fails because of them, so that a build heals it.

    Raises:
        IntegrityError: the block failed, and layers had other bytes than when they were made. Without such layers
            the block's own error is raised.
    """
    try:
        yield
    except (IntegrityError, BuildError) as error:
        corrupt = _drop_corrupt_layers(store, events)
        if not corrupt:
            raise
        raise IntegrityError(
            f"{plural(corrupt, 'layer')} in the store {store.root} had other bytes than when made; removed",
            "make what is missing: envbuild build",
        ) from error


def _drop_corrupt_layers(store: Store, events: Events) -> int:
    """Read all layers that this process uses; those with other bytes are removed and counted."""
    from envbuild.image.layer_cache import is_sound
    from envbuild.store import leases
    from envbuild.store.fsck import check
    from envbuild.store.inventory import inventory

    used = leases.names_used(store.root)
    held = [entry for entry in inventory(store, {}) if entry.kind == "layers" and entry.name in used]
    with events.phase("verify", sum(entry.size for entry in held)) as advance:
        return len(check(store, held, {"layers": is_sound}, advance))


def _drop_corrupt(lock: Lock, store: Store, events: Events) -> list[Item]:
    """Read all of a lock's files that the store holds; those with other bytes are removed and returned."""
    from envbuild.store.fetch import lock_items

    held = [item for item in lock_items(lock) if store.has(item.sha256)]
    corrupt = []
    with events.phase("verify", sum(item.size for item in held)) as advance:
        for item in held:
            if not store.verify(item.sha256):
                corrupt.append(item)
            advance(item.size)
    return corrupt


def ways_out(lock: Lock, missing: set[str], apt: AptConfig | None = None, path: Path | None = None) -> str:
    """Describe what to do about locked files that are in none of the places that were asked.

    Args:
        missing: their SHA-256.
        apt: the machine's apt configuration; read from it if None.
        path: the lock's file.
    """
    from envbuild.operations.blob_locations import read_published
    from envbuild.resolve.debian.releases import distribution_of
    from envbuild.resolve.debian.sources import SNAPSHOT_VARIABLES, origin, read_apt_config
    from envbuild.resolve.python.build_sources import VARIABLE as PYTHON_VARIABLE

    ways = ["what came in is kept: try again later"]
    ways.append(
        "where another machine has the files: envbuild fetch --vendor DIR there, envbuild fetch --from DIR here"
    )
    ways.append("from a folder or registry that `envbuild store push` filled: envbuild store pull PLACE")
    further = {archive.name for archive in lock.os.archives}
    packages = (*lock.os.packages, *lock.emulators)
    lacking = {package.archive for package in packages if package.sha256 in missing}
    found = distribution_of(lock.os.release)
    if lacking - further and not lock.os.snapshot and not origin(found.archives[0], apt or read_apt_config()):
        variable = SNAPSHOT_VARIABLES[found.name]
        ways.append(f"from a snapshot service of {found.title}, none of which is known: export {variable}=ADDRESS")
    if gone := sorted(lacking & further):
        ways.append(f"a lock has no address of {' and '.join(gone)}: the spec next to it has (os.archives)")
    if lock.python.build and lock.python.build.sha256 in missing:
        ways.append(f"from a mirror or folder of standalone Pythons: export {PYTHON_VARIABLE}=ADDRESS")
    for reference in read_published(path, lock)[:1] if path else ():
        ways.append(f"the image itself, without building it: envbuild pull {reference}")
    ways.append("or lock again, which moves what is gone: envbuild lock")
    return "; ".join(ways)


def _deb_sources(loaded: LoadedLock, missing: set[str]) -> Mapping[str, Sequence[str]]:
    """Return the addresses of the locked OS packages; sends no request if none is missing."""
    from envbuild.resolve.debian.closure import deb_urls

    packages = (*loaded.lock.os.packages, *loaded.lock.emulators)
    if not any(package.sha256 in missing for package in packages):
        return {}
    system = msgspec.structs.replace(loaded.lock.os, packages=packages)
    return deb_urls(system, loaded.mirror, archives=loaded.archives)


def _remembered(lock: Lock, store: Store, missing: set[str]) -> dict[str, Sequence[str]]:
    """Return the addresses that missing wheels had when they were locked, as far as they are still stored."""
    folder = store.cache_dir("locations")
    found: dict[str, Sequence[str]] = {}
    for sha256 in {package.wheel.sha256 for package in lock.packages} & missing:
        with suppress(OSError, ValueError):  # notes have no lease: a collection may take one at any moment
            found[sha256] = (folder / sha256).read_text().splitlines()
    return found


def _wheels_or_why(loaded: LoadedLock, missing: set[str]) -> tuple[Mapping[str, Sequence[str]], str]:
    """Return the addresses of wheels; or none, and why: the other files are fetched, and the failure names all."""
    try:
        return _wheels_now(loaded, missing), ""
    except IntegrityError as error:
        return {}, error.message


def _wheels_now(loaded: LoadedLock, missing: set[str]) -> Mapping[str, Sequence[str]]:
    """Return the addresses of missing wheels by their indexes; sends no request if none is missing."""
    from envbuild.resolve.python.pins import wheel_urls
    from envbuild.resolve.python.wheels import Target

    lock = loaded.lock
    wanted = [package for package in lock.packages if package.wheel.sha256 in missing]
    target = Target(python=lock.python.version, platform=lock.python.platform)
    wheels = tuple(map(Path, loaded.spec.wheels)) if loaded.spec else ()
    return wheel_urls(wanted, target, wheels=wheels, folder=loaded.folder)
