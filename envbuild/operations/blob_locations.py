"""Where images were pushed: next to the lock on request, and in the store, so that a registry links what it has."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from envbuild.core.digest import sha256_bytes
from envbuild.core.foreign_json import parse_json
from envbuild.core.fs import atomic_write, read_regular
from envbuild.errors import UsageError
from envbuild.lockfile import model as locks
from envbuild.registry.reference import Reference, parse_reference
from envbuild.store.objects import Store

if TYPE_CHECKING:
    from envbuild.image.record import ImageRecord

_KEPT = 4096
_LARGEST = 1 << 20
"""Bytes of the file that states where an image was pushed."""
"""Blobs remembered for each registry."""


def published_path(path: Path) -> Path:
    """Return the file next to a lock that states where its image has been pushed."""
    return path.with_suffix(".published.json")


def read_published(path: Path, lock: locks.Lock) -> tuple[Reference, ...]:
    """Return where a lock's image has been pushed; none if the file is of another lock."""
    with suppress(OSError, ValueError):
        table = parse_json(read_regular(published_path(path), _LARGEST))
        if table["lock"] == locks.lock_digest(lock):
            return tuple(parse_reference(text) for text in table["references"])
    return ()


def read_index(path: Path, lock: locks.Lock, manifest: str) -> str:
    """Return the digest of the index that a lock's image was pushed with, one of several platforms; empty if none.

    Args:
        manifest: the image's own.
    """
    with suppress(OSError, ValueError, KeyError, TypeError):
        table = parse_json(read_regular(published_path(path), _LARGEST))
        if (table["lock"], table["manifest"]) == (locks.lock_digest(lock), manifest):
            return str(table.get("index", ""))
    return ""


def chosen_location(text: str | None, path: Path, lock: locks.Lock, verb: str) -> Reference:
    """Return the reference that was named, or where the lock's image was pushed.

    Args:
        text: the reference as typed; None if none was.
        verb: the command's name.

    Raises:
        UsageError: none was named, and nothing is noted.
    """
    if text is not None:
        return parse_reference(text)
    published = read_published(path, lock)
    if not published:
        raise UsageError(
            f"{verb} which image? nothing records where that of {path.name} was pushed",
            f"name it: envbuild {verb} REFERENCE; envbuild push --write keeps it next to the lock",
        )
    return published[0]


def published_without_files(path: Path) -> tuple[str, ...]:
    """Return the repositories that got an image of a lock or of an earlier one, and none of its files."""
    with suppress(OSError, ValueError, KeyError, TypeError, UsageError):
        table = parse_json(read_regular(published_path(path), _LARGEST))
        places = dict.fromkeys(parse_reference(text).name for text in table["references"])
        return tuple(place for place in places if place not in table.get("bundles", ()))
    return ()


def write_published(
    path: Path, lock: locks.Lock, record: ImageRecord, reference: Reference, index: str = "", *, bundle: bool = False
) -> Path:
    """Add a place to the file; places of an earlier lock or image go.

    Args:
        path: the lock's file.
        index: digest of the index of all platforms that it was pushed with; empty: none, an earlier one stays.
        bundle: the lock's files were pushed to the same repository.
    """
    target = published_path(path)
    table: dict[str, object] = {"config": record.config, "lock": record.lock, "manifest": record.manifest}
    if index := index or read_index(path, lock, record.manifest):
        table["index"] = index
    kept = [known for known in read_published(path, lock) if known.digest == record.manifest]
    without = published_without_files(path)
    bundles = {known.name for known in kept if known.name not in without} | ({reference.name} if bundle else set())
    if bundles:
        table["bundles"] = sorted(bundles)
    document = {**table, "references": sorted({*map(str, kept), str(reference)})}
    atomic_write(target, (json.dumps(document, indent=2, sort_keys=True) + "\n").encode())
    return target


def offer_bundle(path: Path) -> Iterator[str]:
    """Yield a sentence for a project that publishes its image without the files that it is built from.

    Args:
        path: the lock's file.
    """
    for place in published_without_files(path)[:1]:
        yield (
            f"{published_path(path).name}: {place} has the image without the files that it is built from, which "
            f"mirrors drop in time; to keep them there: envbuild push {place} --bundle --write"
        )


class BlobLocations:
    """Which repositories of a registry were seen to hold which blobs; a wrong guess costs one request.

    Args:
        registry: host, perhaps with a port.
        repository: the one that is asked about now, which is no answer.
    """

    def __init__(self, store: Store, registry: str, repository: str) -> None:
        self._file = store.cache_dir("registries") / f"{sha256_bytes(registry.encode())}.json"
        self._repository = repository
        self._known: dict[str, str] = {}
        with suppress(OSError, ValueError):
            found = parse_json(self._file.read_bytes())
            self._known = {str(digest): str(name) for digest, name in found.items()}

    def others(self, digest: str) -> Sequence[str]:
        """Return the other repository that may hold a blob, if one is known."""
        name = self._known.get(digest, self._repository)
        return () if name == self._repository else (name,)

    def note(self, digests: Iterable[str]) -> None:
        """Remember that the repository holds these blobs."""
        fresh = dict.fromkeys(digests, self._repository)
        kept = {digest: name for digest, name in self._known.items() if digest not in fresh}
        newest = [*kept.items(), *fresh.items()][-_KEPT:]
        with suppress(OSError):
            atomic_write(self._file, json.dumps(dict(newest)).encode(), mode=0o600)
