"""The inventory: everything that a store holds, by kind, with its size and the time it was last needed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from envbuild.core.digest import SHA256
from envbuild.store.objects import Store
from envbuild.store.roots import Root

Kind = Literal[
    "wheels", "os packages", "base images", "other files", "layers", "trees", "bytecode", "notes", "indexes", "parts"
]

KINDS: tuple[Kind, ...] = (
    "wheels",
    "os packages",
    "base images",
    "other files",
    "layers",
    "trees",
    "bytecode",
    "notes",
    "indexes",
    "parts",
)
"""All kinds, in the order in which they are shown."""

NOTES = ("locations", "libraries/wheel-libraries", "locks")
"""Folders below ``derived`` of small files, each named by the SHA-256 of the wheel or the lock it is about."""

_DERIVED: Mapping[str, Kind] = {
    "layers": "layers",
    "trees": "trees",
    "linked": "trees",
    "bytecode": "bytecode",
    "compiled": "bytecode",
    "interpreters": "bytecode",
    "emulators": "bytecode",
}
INDEXES = ("debian", "python")
_SHARD = re.compile(r"[0-9a-f]{2}")
_REST = re.compile(r"[0-9a-f]{62}")
_BEGINNINGS: Mapping[bytes, Kind] = {b"PK\x03\x04": "wheels", b"!<arch>\n": "os packages"}


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreEntry:
    """Something that a store holds.

    Attributes:
        kind: what it is.
        name: as leases and the register name it: a SHA-256, or ``<kind>/<key>``; for indexes their path.
        path: where it is: a file, or the folder of a derived thing.
        size: bytes.
        used: seconds since the epoch when a lock last needed it, true to a day.
    """

    kind: Kind
    name: str
    path: str
    size: int
    used: float


def inventory(store: Store, known: Mapping[str, Kind]) -> list[StoreEntry]:
    """List all entries of a store; what vanishes meanwhile is left out.

    Args:
        known: kinds of objects by SHA-256, as ``kinds_of`` finds them; others are reported by their first bytes.

    Raises:
        UsageError: the folder is no store of this user.
    """
    store.admit()
    return [*_objects(store, known), *_derived(store), *_notes(store), *_indexes(store), *_parts(store)]


def kinds_of(roots: Iterable[Root]) -> dict[str, Kind]:
    """Determine the kinds of objects from the names that locks have for them."""
    return {file.sha256: _kind_by_name(file.name) for root in roots for file in root.lock.files}


def _kind_by_name(name: str) -> Kind:
    if name.endswith(".whl"):
        return "wheels"
    if name.endswith(".deb"):
        return "os packages"
    return "base images" if name == "base.tar" else "other files"


def _objects(store: Store, known: Mapping[str, Kind]) -> Iterator[StoreEntry]:
    for shard in _entries(store.root / "sha256"):
        if not _SHARD.fullmatch(shard.name):
            continue
        for entry in _entries(shard.path):
            with suppress(OSError):
                if _REST.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                    found = entry.stat(follow_symlinks=False)
                    name = shard.name + entry.name
                    kind = known.get(name) or _kind_by_content(entry.path)
                    yield StoreEntry(kind=kind, name=name, path=entry.path, size=found.st_size, used=found.st_mtime)


def _kind_by_content(path: str) -> Kind:
    with suppress(OSError), open(path, "rb", buffering=0) as stream:
        beginning = stream.read(8)
        for magic, kind in _BEGINNINGS.items():
            if beginning.startswith(magic):
                return kind
    return "other files"


def _derived(store: Store) -> Iterator[StoreEntry]:
    """Folders that ``Store.derive`` made; what is not one of them is an index or a note."""
    for folder in _entries(store.root / "derived"):
        if folder.name in INDEXES or any(note.startswith(folder.name) for note in NOTES):
            continue
        for entry in _entries(folder.path):
            if SHA256.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                with suppress(OSError):
                    kind = _DERIVED.get(folder.name, "notes")
                    used = entry.stat(follow_symlinks=False).st_mtime
                    once = folder.name == "linked"  # its files are those of layers, which have been counted
                    size = sum(file.size for file in _files(entry.path) if not once or file.links == 1)
                    name = f"{folder.name}/{entry.name}"
                    yield StoreEntry(kind=kind, name=name, path=entry.path, size=size, used=used)


def _notes(store: Store) -> Iterator[StoreEntry]:
    for place in NOTES:
        for entry in _entries(store.root / "derived" / place):
            if SHA256.fullmatch(entry.name.removesuffix(".json")):
                with suppress(OSError):
                    found = entry.stat(follow_symlinks=False)
                    name = f"{place}/{entry.name}"
                    yield StoreEntry(kind="notes", name=name, path=entry.path, size=found.st_size, used=found.st_mtime)


def _indexes(store: Store) -> Iterator[StoreEntry]:
    """Answers of package indexes; the latest of reading and writing counts as use."""
    for place in INDEXES:
        for file in _files(store.root / "derived" / place):
            name = str(Path(file.path).relative_to(store.root / "derived"))
            yield StoreEntry(kind="indexes", name=name, path=file.path, size=file.size, used=file.used)


def _parts(store: Store) -> Iterator[StoreEntry]:
    for entry in _entries(store.root / "part"):
        if SHA256.fullmatch(entry.name):
            with suppress(OSError):
                found = entry.stat(follow_symlinks=False)
                path, used = entry.path, found.st_mtime
                yield StoreEntry(kind="parts", name=f"part/{entry.name}", path=path, size=found.st_size, used=used)


@dataclass(frozen=True, kw_only=True, slots=True)
class _File:
    path: str
    size: int
    used: float
    links: int


def _files(folder: str | Path) -> Iterator[_File]:
    """Give each regular file below a folder."""
    for entry in _entries(folder):
        with suppress(OSError):
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path)
            elif entry.is_file(follow_symlinks=False):
                found = entry.stat(follow_symlinks=False)
                used = max(found.st_mtime, found.st_atime)
                yield _File(path=entry.path, size=found.st_size, used=used, links=found.st_nlink)


def _entries(folder: str | Path) -> list[os.DirEntry[str]]:
    """List a folder, by name; empty if it is not there or cannot be read."""
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError:
        return []
