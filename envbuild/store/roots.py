"""The register: which locks use a store, and which of its entries each one needs.

    <root>/locks/<sha256 of the lock's path>.json

One small file a lock, replaced as a whole, and only if the lock has changed or a day has passed. At the same time the
entries a lock needs get a new time stamp: a file's age in the store is the time since a lock needed it.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from envbuild.core.digest import SHA256, sha256_bytes
from envbuild.core.fs import atomic_write, read_regular
from envbuild.errors import EnvbuildError
from envbuild.lockfile.model import Lock, load
from envbuild.store.objects import REFUSED, Store

FOLDER = "locks"
DAY = 24 * 3600
_LARGEST = 64 << 20
"""Most bytes of a lock, and of an entry of the register."""

State = Literal["current", "changed", "gone"]


class File(msgspec.Struct, frozen=True, array_like=True):
    """A file of a lock: SHA-256, name, bytes."""

    sha256: str
    name: str
    size: int


class RegisteredLock(msgspec.Struct, frozen=True, kw_only=True):
    """One lock.

    Attributes:
        path: where it is, absolute.
        name: the lock's name.
        sha256: of its file.
        used: seconds since the epoch when a command last used it, true to a day.
        files: all it names.
        derived: ``<kind>/<key>`` of what its last build used.
    """

    path: str
    name: str
    sha256: str
    used: float
    files: tuple[File, ...]
    derived: tuple[str, ...] = ()

    @property
    def place(self) -> Path:
        """The lock's file, as this process's locale writes its name."""
        return Path(os.fsdecode(self.path.encode()))

    @property
    def needs(self) -> frozenset[str]:
        """Names of all entries, as leases have them."""
        return frozenset([*(file.sha256 for file in self.files), *self.derived])


class Root(msgspec.Struct, frozen=True, kw_only=True):
    """A root of the garbage collection: a lock that has used the store, and whether its file is as it was, changed
    since, or gone. A file that cannot be read counts as it was."""

    lock: RegisteredLock
    state: State
    file: Path


def note_lock(store: Store, path: Path, lock: Lock, derived: Collection[str] = (), *, now: float | None = None) -> None:
    """Write down that a lock uses the store; does nothing if that is known, or where the store cannot be written.

    Args:
        path: the lock's file.
        derived: ``<kind>/<key>`` of what a build used; empty keeps what an earlier build used.
        now: seconds since the epoch.
    """
    now = time.time() if now is None else now
    place = path.resolve()
    target = store.root / FOLDER / f"{sha256_bytes(os.fsencode(place))}.json"
    try:
        digest = sha256_bytes(read_regular(place, _LARGEST))
    except OSError:  # it went meanwhile
        return
    old = _read(target)
    same = old is not None and old.sha256 == digest
    known = old.derived if old is not None and same else ()
    if not set(derived).issubset(known):
        known, same = tuple(sorted(derived)), False
    if old is not None and same and abs(now - old.used) < DAY:
        return
    entry = registered_lock(place, lock, sha256=digest, used=now, derived=known)
    try:
        store.make_folder(target.parent)
        atomic_write(target, msgspec.json.encode(entry))
    except OSError as error:
        if error.errno not in REFUSED:
            raise
        return
    for name in sorted(entry.needs):
        touch(store, name, now)


def registered_lock(
    path: Path, lock: Lock, *, sha256: str = "", used: float = 0.0, derived: Sequence[str] = ()
) -> RegisteredLock:
    """Describe a lock as the register does."""
    from envbuild.store.fetch import lock_items  # late: a build with nothing to do needs none of it

    files = tuple(File(item.sha256, item.name, item.size) for item in lock_items(lock))
    place = os.fsencode(path).decode(errors="backslashreplace")  # whatever the locale makes of a name
    return RegisteredLock(path=place, name=lock.name, sha256=sha256, used=used, files=files, derived=tuple(derived))


def touch(store: Store, name: str, now: float) -> None:
    """Give an entry a new time stamp, if it is there and this user's."""
    with suppress(OSError):
        os.utime(entry_path(store, name), (now, now))


def entry_path(store: Store, name: str) -> Path:
    """Return where an entry is, by the name that leases and the register have for it."""
    kind, _, key = name.rpartition("/")
    return store.root / "derived" / kind / key if kind else store.path(name)


def find_roots(store: Store) -> list[Root]:
    """Read the register, latest use first; entries that make no sense are left out."""
    found = []
    for path in sorted((store.root / FOLDER).glob("*.json")):
        entry = _read(path)
        if entry is not None:
            found.append(Root(lock=entry, state=_state(entry), file=path))
    return sorted(found, key=lambda root: (-root.lock.used, root.lock.path))


def file_names(roots: Iterable[Root]) -> dict[str, str]:
    """Return the names that locks have for files, by SHA-256."""
    return {file.sha256: file.name for root in roots for file in root.lock.files}


def locks_by_entry(roots: Iterable[Root]) -> dict[str, list[str]]:
    """Return the names of the locks that need an entry, by the entry's name."""
    locks: dict[str, list[str]] = {}
    for root in roots:
        for name in root.lock.needs:
            if root.lock.name not in (known := locks.setdefault(name, [])):
                known.append(root.lock.name)
    return locks


def needed(found: Iterable[Root], oldest: float) -> frozenset[str]:
    """Return the names of all that locks need: those that are as they were, and others used since ``oldest``.

    A lock that has changed also needs what it reports now, fetched or not.
    """
    names: set[str] = set()
    for root in found:
        if root.state == "current" or root.lock.used >= oldest:
            names |= root.lock.needs
        if root.state == "changed":
            with suppress(OSError, EnvbuildError):
                path = root.lock.place
                names |= registered_lock(path, load(path)).needs
    return frozenset(names)


def _state(entry: RegisteredLock) -> State:
    try:
        path = entry.place
        return "current" if sha256_bytes(read_regular(path, _LARGEST)) == entry.sha256 else "changed"
    except (FileNotFoundError, NotADirectoryError):
        return "gone"
    except OSError as error:
        return "changed" if error.errno in (errno.EFBIG, errno.EINVAL) else "current"


def _read(path: Path) -> RegisteredLock | None:
    try:
        entry = msgspec.json.decode(read_regular(path, _LARGEST, follow=False), type=RegisteredLock)
    except (OSError, ValueError, RecursionError):
        return None
    return entry if all(SHA256.fullmatch(file.sha256) for file in entry.files) else None
