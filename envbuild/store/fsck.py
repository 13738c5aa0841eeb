"""The check: every byte of a store is read, on all cores, and what is damaged is removed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from envbuild.core.fs import claimed, way_out
from envbuild.core.progress import Advance
from envbuild.errors import IntegrityError
from envbuild.store.inventory import StoreEntry
from envbuild.store.objects import Store

IsSound = Callable[[Path, Advance], bool]
"""Reads a derived folder and reports whether it has the bytes it was made with."""
Checks = Mapping[str, IsSound]
"""What reads layers and trees, by the name of the folder that they are in."""


def check(
    store: Store, entries: Sequence[StoreEntry], checks: Checks, advance: Advance, jobs: int | None = None
) -> list[StoreEntry]:
    """Read entries and compare them with their digests; returns the damaged ones, which are removed.

    Other entries than objects and layers are compared with the digests of their files.

    Args:
        jobs: how many are read at once; as many as there are cores by default.

    Raises:
        IntegrityError: something cannot be read or, damaged, not be removed.
    """

    def one(entry: StoreEntry) -> bool:
        try:
            if "/" not in entry.name:
                return store.inspect(entry.name, advance) != "damaged"
            return _check_derived(store, entry, checks, advance)
        except OSError as error:
            raise IntegrityError(f"cannot check {error.filename or entry.path}: {error.strerror}") from error

    work = sorted((entry for entry in entries if checkable(entry)), key=lambda entry: -entry.size)
    with ThreadPoolExecutor(jobs or len(os.sched_getaffinity(0)), thread_name_prefix="check") as pool:
        try:
            return [entry for entry, sound in zip(work, pool.map(one, work), strict=True) if not sound]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def checkable(entry: StoreEntry) -> bool:
    """Whether an entry has anything to be compared with."""
    kind, _, _ = entry.name.rpartition("/")
    return not kind or entry.kind in ("layers", "trees", "bytecode")


def _check_derived(store: Store, entry: StoreEntry, checks: Checks, advance: Advance) -> bool:
    """Check one derived entry; a damaged one is removed unless it has been made again meanwhile."""
    kind, _, key = entry.name.rpartition("/")
    folder = Path(entry.path)
    try:
        before = folder.stat()
    except FileNotFoundError:
        return True
    whole = entry.kind == "trees" or store.is_whole(kind, key, advance)
    if whole and (kind not in checks or checks[kind](folder, advance)):
        return True
    lock = folder.with_name(f".{key}.lock")
    try:
        with claimed(lock):
            with suppress(FileNotFoundError):
                if not os.path.samestat(before, folder.stat()):
                    whole = True
                else:
                    shutil.rmtree(folder)
                    whole = False
            lock.unlink(missing_ok=True)
    except OSError as error:
        raise IntegrityError(
            f"{entry.path} is damaged, and cannot be removed: {error.strerror}", way_out(error.errno)
        ) from error
    return whole
