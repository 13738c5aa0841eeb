"""Collection: what no lock needs and nobody has used for long goes, while other commands run.

What goes is decided from the register and from ages; that decides only how useful the store stays. That nothing
in use is taken is the leases' business (``envbuild.leases``), which no age and no clock can override.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from envbuild.core.digest import SHA256
from envbuild.core.fs import remove_dead, remove_dead_folder
from envbuild.core.progress import Advance
from envbuild.store.inventory import INDEXES, StoreEntry
from envbuild.store.leases import collecting
from envbuild.store.objects import REFUSED, Store
from envbuild.store.roots import DAY, FOLDER, Root

_TRASH = "trash"
_MOVED_AWAY = re.compile(r"[0-9]+-[0-9]+")
_BEING_WRITTEN = re.compile(r"\.[^/]+\.[a-z0-9_]{8}\.tmp")
_FOLDER_BEING_WRITTEN = re.compile(r"\.(index|contents)-[a-z0-9_]{8}")
_ENTRY_BEING_WRITTEN = re.compile(r"\.[0-9a-f]{64}\.json\.[a-z0-9_]{8}\.tmp")
"""Names that envbuild itself gives: nothing else is ever removed."""
_OTHERS = frozenset({"runs", "steps"})
"""Kinds whose folders belong to running programs."""
_BATCH = 256
"""Entries moved away while others wait; moving takes microseconds each, whatever the size."""
_NOTES = frozenset({"notes", "indexes", "parts"})
"""Kinds that no lock holds and no lease names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """What may go.

    Attributes:
        needed: names of all that locks need.
        oldest: what was used since then stays, in seconds since the epoch.
        largest: bytes the store may keep; to get there, entries go that are younger than ``oldest`` too.
        now: seconds since the epoch.
    """

    needed: frozenset[str]
    oldest: float
    now: float
    largest: int | None = None


def chosen(entries: Collection[StoreEntry], rules: Rules) -> list[StoreEntry]:
    """Choose what goes, the longest unused first; reports nothing about what is in use.

    Parts, indexes and notes stay for a day at least: commands use them without a lease.
    """
    idle = sorted((entry for entry in entries if entry.name not in rules.needed), key=lambda entry: entry.used)
    day = rules.now - DAY
    left = sum(entry.size for entry in entries)
    going = []
    for entry in idle:
        is_note = entry.kind in _NOTES
        if is_note and (entry.used >= day or _about(entry) in rules.needed):
            continue
        # A part grown by no one for a day belongs to a command that was killed.
        old = entry.used < rules.oldest or entry.kind == "parts"
        if old or (rules.largest is not None and left > rules.largest):
            going.append(entry)
            left -= entry.size
    return going


def collect(store: Store, going: Sequence[StoreEntry], advance: Advance = lambda amount: None) -> list[StoreEntry]:
    """Remove what was chosen, but for what is in use or was used since; returns what went.

    Raises:
        StoreWriteError: the store cannot be written.
    """
    with store.explained(REFUSED):
        trash = store.root / _TRASH
        _empty(trash)
        gone: list[StoreEntry] = []
        for begin in range(0, len(going), _BATCH):
            batch = going[begin : begin + _BATCH]
            with collecting(store.root) as used:
                store.make_folder(trash)  # another collection may have ended meanwhile
                moved = [entry for entry in batch if entry.name not in used and _take(entry, trash)]
            gone += moved
            _empty(trash)
            advance(sum(entry.size for entry in batch))
        with collecting(store.root), suppress(OSError):
            trash.rmdir()
    return gone


def forget_locks(roots: Collection[Root], oldest: float) -> list[Root]:
    """Drop the entries of locks that are gone and were not used since ``oldest``; returns them."""
    found = [root for root in roots if root.state == "gone" and root.lock.used < oldest]
    for root in found:
        with suppress(OSError):
            root.file.unlink()
    return found


def sweep(store: Store) -> int:
    """Remove what killed commands left: leases, half-made derived entries, temporary files; returns its bytes.

    A half-made entry is claimed as its maker would, so that one at work is never disturbed; a temporary file is locked
    by the process that writes it.
    """
    freed = 0
    if not store.admit():
        return 0
    with suppress(OSError), collecting(store.root):
        pass  # which removes the leases
    for kind in _folders(store.root / "derived"):
        for half in sorted(kind.glob(".*.tmp")):
            key = half.name[1:-4]
            if SHA256.fullmatch(key):
                freed += _sweep_half(half, half.with_name(f".{key}.lock"))
        for lock in sorted(path for path in kind.glob(".*.lock") if SHA256.fullmatch(path.name[1:-5])):
            freed += _sweep_half(lock.with_name(f"{lock.name[:-5]}.tmp"), lock)
    temporary = [path for path in (store.root / FOLDER).glob(".*.tmp") if _ENTRY_BEING_WRITTEN.fullmatch(path.name)]
    temporary += [path for path in store.root.glob(".*.tmp") if _BEING_WRITTEN.fullmatch(path.name)]
    for path in _written_below(store.root / "derived"):
        if _BEING_WRITTEN.fullmatch(path.name):
            temporary.append(path)
        elif _FOLDER_BEING_WRITTEN.fullmatch(path.name):
            remove_dead_folder(path)
    return freed + sum(remove_dead(path) for path in temporary)


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files below a folder; 0 if it is not there."""
    with suppress(OSError):
        if not path.is_dir():
            return path.lstat().st_size
        return sum(size_of(entry) for entry in path.iterdir())
    return 0


def _about(entry: StoreEntry) -> str:
    """Return the object that a note or part is about."""
    return Path(entry.name).name.removesuffix(".json")


def _written_below(derived: Path) -> Iterator[Path]:
    """Give all paths in the folders of derived things that envbuild itself writes files to.

    What is in the tree of a layer or of a run is the image's or the program's own, whatever its name, and may go
    while it is read.
    """
    for folder, names, files in os.walk(derived):  # passes over what goes meanwhile
        path = Path(folder)
        yield from (path / name for name in (*names, *files))
        parts = path.relative_to(derived).parts
        if parts and (parts[0] in _OTHERS or (len(parts) > 1 and parts[0] not in INDEXES)):
            names.clear()


def _take(entry: StoreEntry, trash: Path) -> bool:
    """Move an entry out of the store unless it is gone or was used since it was chosen."""
    path = Path(entry.path)
    if entry.kind == "parts":
        return _take_part(path, entry.used)
    with suppress(FileNotFoundError):
        found = path.stat()
        used = max(found.st_mtime, found.st_atime) if entry.kind == "indexes" else found.st_mtime
        if used <= entry.used:
            path.rename(trash / f"{os.getpid()}-{time.monotonic_ns()}")
            return True
    return False


def _take_part(path: Path, used: float) -> bool:
    """Remove a part unless a command is at work on it."""
    with suppress(OSError), path.open("r+b") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(stream.fileno()), path.stat()) and path.stat().st_mtime <= used:
            path.unlink()
            return True
    return False


def _sweep_half(half: Path, lock: Path) -> int:
    """Remove a half-made folder and its lock file unless someone is at work on it."""
    with suppress(OSError), os.fdopen(os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(stream.fileno()), lock.stat()):
            size = size_of(half)
            shutil.rmtree(half, ignore_errors=True)
            lock.unlink()
            return size
    return 0


def _empty(trash: Path) -> None:
    """Delete what was moved away, by this command or by one that was killed."""
    with suppress(FileNotFoundError):  # another collection has ended
        for path in sorted(path for path in trash.iterdir() if _MOVED_AWAY.fullmatch(path.name)):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _folders(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from sorted(path for path in folder.iterdir() if path.is_dir())
