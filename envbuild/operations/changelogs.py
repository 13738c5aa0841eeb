"""The security fixes in a new lock: CVE numbers that the changelogs of its changed Debian packages name."""

from __future__ import annotations

import gzip
import tempfile
import zlib
from pathlib import Path

from envbuild.errors import BuildError, IntegrityError
from envbuild.lockfile import model as locks
from envbuild.lockfile.changes import cves
from envbuild.lockfile.model import OsPackage
from envbuild.operations.events import Events, Note
from envbuild.operations.fetch import fetch_some
from envbuild.operations.load_lock import LoadedLock
from envbuild.store.objects import Store, StoreWriteError

_CHANGELOGS = ("changelog.Debian.gz", "changelog.gz")
_LIMIT = 16 << 20
"""Bytes of an unpacked changelog that are read; the newest entries come first."""


def security_fixes(path: Path, old: locks.Lock, new: locks.Lock, events: Events) -> dict[str, tuple[str, ...]] | None:
    """Return the CVE numbers that the changelogs of changed Debian packages name between the two versions, by package.

    Args:
        path: the new lock's file.
        old: the lock before.
        new: the lock that replaces it; its changed packages are fetched if they are not in the store.
        events: receives progress.

    Returns:
        None if a changelog could not be read; a ``Note`` reports why.
    """
    try:
        return _fixes(LoadedLock(path=path, lock=new), old, events)
    except (BuildError, IntegrityError, StoreWriteError) as error:
        events.report(Note(text=error.message.partition("\n")[0]))
        return None


def _fixes(loaded: LoadedLock, old: locks.Lock, events: Events) -> dict[str, tuple[str, ...]]:
    """Return the CVE numbers named between the locked versions, by package; fetches the changed packages."""
    before = {package.name: package.version for package in old.os.packages}
    changed = [each for each in loaded.lock.os.packages if before.get(each.name, each.version) != each.version]
    store = Store()
    missing = {package.sha256 for package in changed if not store.has(package.sha256, package.size)}
    if missing:
        fetch_some(loaded, store, missing, events)
    return {package.name: _named(package, before[package.name], store) for package in changed}


def _named(package: OsPackage, since: str, store: Store) -> tuple[str, ...]:
    from envbuild.resolve.debian.relations import version_key

    text, limit = _changelog(package, store), version_key(since)
    return cves(text, lambda version: version_key(version) > limit)


def _changelog(package: OsPackage, store: Store) -> str:
    """Return a package's own changelog; empty if another package holds it, as a link indicates."""
    from envbuild.image.os.deb import open_deb

    folder = f"usr/share/doc/{package.name}/"
    with tempfile.TemporaryFile() as unpacked:
        deb = open_deb(store.path(package.sha256), package.file)
        deb.unpack_data(unpacked)
        unpacked.seek(0)
        for entry, stream in deb.members(unpacked):
            if stream is not None and entry.path.startswith(folder) and entry.path[len(folder) :] in _CHANGELOGS:
                try:
                    with gzip.open(stream) as text:
                        return text.read(_LIMIT).decode("utf-8", "replace")
                except (OSError, EOFError, zlib.error):
                    return ""
    return ""
