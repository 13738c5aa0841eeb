"""``lock --summary``: what a lock moved, with the CVE numbers that changelogs of the moved Debian packages name."""

from __future__ import annotations

import gzip
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path

from envbuild.cli import locked_host
from envbuild.cli.console import Console
from envbuild.errors import BuildError, IntegrityError
from envbuild.lockfile import model as locks
from envbuild.lockfile.changes import cves, markdown, moves
from envbuild.lockfile.model import OsPackage
from envbuild.operations.fetch import fetch_some
from envbuild.operations.load_lock import LoadedLock
from envbuild.store.objects import Store

_CHANGELOGS = ("changelog.Debian.gz", "changelog.gz")
_LIMIT = 16 << 20
"""Bytes of an unpacked changelog that are read; the newest entries come first."""


def summarise(path: Path, old: locks.Lock | None, new: locks.Lock, console: Console) -> None:
    """Print what moved between two locks as Markdown; fetches the Debian packages that moved, for their changelogs.

    Args:
        path: the new lock's file.
        old: the lock before; None if there was none, or none that can be read.
    """
    if old is None:
        print(f"## {path.name} is new\n")
        return
    fixes: Mapping[str, tuple[str, ...]] = {}
    readable = True
    try:
        fixes = _fixes(LoadedLock(path=path, lock=new), old, console)
    except (BuildError, IntegrityError) as error:
        readable = False
        console.line("note", error.message.partition("\n")[0])
    found = moves(old, new, (locked_host.facts(old), locked_host.facts(new)), fixes)
    print(markdown(path.name, found, changelogs=readable), end="")


def _fixes(opened: LoadedLock, old: locks.Lock, console: Console) -> dict[str, tuple[str, ...]]:
    """Return the CVE numbers named between the locked versions, by package; needs the moved packages' files."""
    before = {package.name: package.version for package in old.os.packages}
    moved = [each for each in opened.lock.os.packages if before.get(each.name, each.version) != each.version]
    store = Store()
    missing = {package.sha256 for package in moved if not store.has(package.sha256, package.size)}
    if missing:
        fetch_some(opened, store, missing, console)
    return {package.name: _named(package, before[package.name], store) for package in moved}


def _named(package: OsPackage, since: str, store: Store) -> tuple[str, ...]:
    from envbuild.resolve.debian.relations import version_key

    text, limit = _changelog(package, store), version_key(since)
    return cves(text, lambda version: version_key(version) > limit)


def _changelog(package: OsPackage, store: Store) -> str:
    """Return a package's own changelog; empty if another package holds it, as a link says."""
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
