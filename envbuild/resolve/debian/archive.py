"""A suite of a Debian archive: InRelease, checked, and its Packages indexes, checked against InRelease.

What was got is kept below a cache folder, never trusted: an InRelease file is verified each time it is read, and an
index is named by the SHA-256 that a verified InRelease gives it.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import lzma
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import msgspec

from envbuild.core.clock import utc_now
from envbuild.core.digest import sha256_bytes
from envbuild.core.fs import NO_SPACE, NOT_WRITABLE, atomic_write, locked, way_out
from envbuild.core.progress import Progress, Silent
from envbuild.core.types import prepare_types
from envbuild.errors import BuildError, IntegrityError, UsageError
from envbuild.resolve.debian import http
from envbuild.resolve.debian.index import Index, open_index, write_index
from envbuild.resolve.debian.release_file import (
    ReleaseFile,
    UntrustedReleaseError,
    check_release,
    read_release,
)

FRESH = 600
"""Seconds for which an InRelease file is not asked for again; Debian's archive changes four times a day."""

_RELEASE_LIMIT = 16 << 20
_FILE_LIMIT = 1 << 30
_KEPT = 30 * 86400
_UNPACK: dict[str, Callable[[bytes], bytes]] = {
    ".xz": lzma.decompress,
    ".gz": gzip.decompress,
    ".bz2": bz2.decompress,
    "": bytes,
}


@dataclass(frozen=True, kw_only=True)
class Access:
    """How to reach archives.

    Attributes:
        cache: folder for what can be got again.
        keyrings: further trusted keyring files.
        distribution: whose own keys are trusted; empty: nobody's.
        refresh: ask the mirror even if the cache is fresh.
        offline: ask no mirror; what the cache holds must do.
        get: gets one file; tests put an archive in memory here.
        progress: receives downloads.
    """

    cache: Path
    keyrings: tuple[Path, ...] = ()
    distribution: str = "debian"
    refresh: bool = False
    offline: bool = False
    get: http.Get = http.get
    progress: Progress = field(default_factory=Silent)

    def trusting(self, keyring: Path) -> Access:
        """Return access to an archive that is signed by the certificates of one file, and by no other."""
        return replace(self, keyrings=(keyring,), distribution="")


@dataclass(frozen=True, kw_only=True, slots=True)
class Suite:
    """One checked suite: its archive, name, the base address that answered, and its release file."""

    archive: str
    name: str
    base: str
    release: ReleaseFile

    @property
    def components(self) -> list[str]:
        """The components that its release file names; security suites write ``updates/`` in front."""
        return [word.rpartition("/")[2] for word in self.release.fields.get("Components", "").split()]

    @property
    def folder(self) -> str:
        """The address that the names of its files are relative to."""
        if self.name.endswith("/"):
            return f"{self.base}/{self.name}".rstrip("/")
        return f"{self.base}/dists/{self.name}"


LONGEST = 400
"""Bytes of the cache's path: SQLite takes 512 for a file (os_unix.c, MAX_PATHNAME), with the name of its journal."""

_REFUSED = NOT_WRITABLE | {errno.ENOTDIR, errno.EISDIR, errno.EEXIST}
_NOT_WRITTEN, _FULL = "disk I/O error", "database or disk is full"
"""SQLite's words; Python has no numbers of its errors before 3.11."""


class _Validators(msgspec.Struct):
    """Headers by which a mirror's file is recognised."""

    etag: str = ""
    modified: str = ""


@contextmanager
def cache_errors(cache: Path) -> Iterator[None]:
    """Turn what the cache's file system refuses, such as a full disk, into an error a person can act on.

    SQLite opens no file of a longer path, and its errors for that are those of a damaged disk.
    """
    length = len(os.fsencode(cache.absolute()))
    if length > LONGEST:
        raise UsageError(
            f"the path of the cache {cache} has {length} bytes, and SQLite takes {LONGEST} at most",
            "choose a folder with a shorter path: export ENVBUILD_STORE=FOLDER",
        )
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        reason, number = getattr(error, "strerror", None) or str(error), getattr(error, "errno", None)
        message, hint = f"the cache {cache} cannot be used: {reason}", way_out(number)
        if (number == errno.EFBIG or reason == _NOT_WRITTEN) and (limit := _largest_file(cache)):
            message, hint = limit
        elif number in _REFUSED:
            raise UsageError(message, hint) from error
        elif number not in NO_SPACE and reason != _FULL:
            raise IntegrityError(message, hint) from error
        raise BuildError(message, hint) from error


def _largest_file(cache: Path) -> tuple[str, str] | None:
    """Return what to print if files of this process may not have any size; SQLite has one error for all that fails."""
    from envbuild.core.limits import explained

    return explained(OSError(errno.EFBIG, "", str(cache)))


def load_suite(archive: str, name: str, bases: Sequence[str], access: Access, *, snapshot: str = "") -> Suite:
    """Get and check a suite's InRelease file from the first base address that answers.

    Args:
        archive: such as ``debian`` or ``debian-security``.
        name: the suite, such as ``bookworm-updates``; a path that ends in a slash for an archive without suites.
        bases: addresses of the archive, tried in order.
        snapshot: UTC time such as ``20260115T000000Z`` if the addresses are those of a dated snapshot, which never
            changes; it must have been valid then.

    Raises:
        IntegrityError: no mirror answers, or what it gives is not what it must be.
    """
    failure: IntegrityError | None = None
    for base in bases:
        try:
            below = f"{base}/{name}".rstrip("/") if name.endswith("/") else f"{base}/dists/{name}"
            release = _load_release(f"{below}/InRelease", name, access, snapshot=snapshot)
            return Suite(archive=archive, name=name, base=base, release=release)
        except (_UnreachableError, UntrustedReleaseError) as error:
            # apt's sources may name other people's archives, such as a vendor's, whose address ends like Ubuntu's.
            failure = failure or error
    raise failure or IntegrityError(f"{archive}: no address of a mirror for {name}")


def load_indexes(suite: Suite, architecture: str, access: Access, component: str = "main") -> list[Index]:
    """Return a suite's package indexes for an architecture; none if the suite does not have it.

    An index of ``all`` is read too where the suite keeps those packages apart (``No-Support-for-Architecture-all``).
    """
    fields = suite.release.fields
    architectures = fields.get("Architectures", "").split()
    if architecture not in architectures:
        return []
    wanted = [architecture]
    if "all" in architectures and "Packages" not in fields.get("No-Support-for-Architecture-all", "").split():
        wanted.append("all")
    return [_load_index(suite, f"{component}/binary-{part}/Packages", access) for part in wanted]


def load_flat_index(suite: Suite, access: Access) -> Index:
    """Return the index of an archive without suites; packages of other architectures in it are never chosen."""
    return _load_index(suite, "Packages", access)


def fetch_listed(suite: Suite, name: str, access: Access) -> bytes:
    """Get a file that the suite's InRelease lists by exactly this name, and check it; packed files stay packed.

    Raises:
        IntegrityError: not listed, not to be had, or not the bytes that InRelease promises.
    """
    listed = suite.release.files(name)
    if name not in listed:
        raise IntegrityError(f"{suite.release.source}: expected an entry for {name} in its SHA256 section, found none")
    digest, size = listed[name]
    if access.offline:
        raise IntegrityError(
            f"{suite.folder}/{name}: expected it in the cache while offline, found nothing",
            "lock once with network",
        )
    urls = [f"{suite.folder}/{name}"]
    if suite.release.fields.get("Acquire-By-Hash", "") == "yes":
        # By hash first: the name may already mean a newer file than this InRelease does.
        urls.insert(0, f"{urls[0].rpartition('/')[0]}/by-hash/SHA256/{digest}")
    with access.progress.phase(f"{suite.name} {name.rsplit('/', 1)[-1]}", size) as advance:
        for url in urls:
            reply = access.get(url, limit=min(size, _FILE_LIMIT), advance=advance)
            if reply.status == 200:
                check_bytes(reply.data, digest, size, url)
                return reply.data
    raise IntegrityError(
        f"{urls[-1]}: expected the file that InRelease lists, found HTTP status 404", "use another mirror"
    )


def check_bytes(data: bytes, digest: str, size: int, source: str) -> None:
    """Compare bytes with what InRelease promises; raises ``IntegrityError``."""
    if len(data) != size:
        raise IntegrityError(f"{source}: expected {size} bytes, found {len(data)}", "try again, or use another mirror")
    if (found := sha256_bytes(data)) != digest:
        raise IntegrityError(
            f"{source}: expected SHA-256 {digest}, found {found}", "the file was altered or damaged: use another mirror"
        )


class _UnreachableError(IntegrityError):
    """No answer, or no such file: another mirror may do."""


def _load_release(url: str, suite: str, access: Access, *, snapshot: str) -> ReleaseFile:
    """Return the cached file while it is fresh, else what the mirror has now."""
    path = access.cache / "release" / f"{sha256_bytes(url.encode())[:32]}.InRelease"
    if access.offline:
        return _release_offline(path, url, suite, access, snapshot)
    cached = _cached_release(path, url, access)
    if cached is not None and _fresh(path, access, frozen=bool(snapshot)):
        with suppress(IntegrityError):
            return _checked(cached, suite, snapshot, access)
    return _checked(_get_release(url, path, cached, access), suite, snapshot, access)


def _release_offline(path: Path, url: str, suite: str, access: Access, snapshot: str) -> ReleaseFile:
    """Return the cached file, however old it is; raises ``IntegrityError`` with what is wrong with it."""
    try:
        data = path.read_bytes()
    except OSError:
        raise _UnreachableError(
            f"{url}: expected it in the cache while offline, found nothing", "lock once with network"
        ) from None
    try:
        release = read_release(data, url, access.keyrings, access.distribution)
        return _checked(release, suite, snapshot, access, judge=False)
    except IntegrityError as error:
        raise _UnreachableError(f"as cached, {error.message}", f"{error.hint}; or lock once with network") from None


def _checked(release: ReleaseFile, suite: str, snapshot: str, access: Access, *, judge: bool = True) -> ReleaseFile:
    now = utc_now()
    moment = datetime.strptime(snapshot, "%Y%m%dT%H%M%S%z") if snapshot else now
    judged = moment if judge or snapshot else None
    check_release(release, suite, now=now, judged=judged, distribution=access.distribution)
    return release


def _fresh(path: Path, access: Access, *, frozen: bool) -> bool:
    """Return whether the mirror was asked a short time ago; a snapshot never changes."""
    return not access.refresh and (frozen or 0 <= time.time() - path.stat().st_mtime < FRESH)


def _cached_release(path: Path, url: str, access: Access) -> ReleaseFile | None:
    """Read and verify the cached file; one that is absent or damaged is as good as none."""
    with suppress(OSError, IntegrityError):
        return read_release(path.read_bytes(), url, access.keyrings, access.distribution)
    return None


def _get_release(url: str, path: Path, cached: ReleaseFile | None, access: Access) -> ReleaseFile:
    """Ask the mirror, conditionally if something is cached; what it gives is verified before it is kept."""
    note = path.with_suffix(".json")
    validators = _Validators()
    if cached is not None:
        with suppress(OSError, ValueError):
            validators = msgspec.json.decode(note.read_bytes(), type=_Validators)
    headers = {"If-None-Match": validators.etag, "If-Modified-Since": validators.modified}
    try:
        reply = access.get(url, limit=_RELEASE_LIMIT, headers={key: value for key, value in headers.items() if value})
    except IntegrityError as error:
        raise _UnreachableError(error.message, error.hint) from None
    if reply.status == 304 and cached is not None:
        path.touch()
        return cached
    if reply.status != 200:
        raise _UnreachableError(
            f"{url}: expected the suite's InRelease file, found HTTP status {reply.status}",
            "check the mirror's address, and that it has this release",
        )
    release = read_release(reply.data, url, access.keyrings, access.distribution)
    if cached is not None and cached.date > release.date:
        # A mirror that lags, or an attacker, must not take the archive back in time.
        path.touch()
        return cached
    found = _Validators(etag=reply.headers.get("etag", ""), modified=reply.headers.get("last-modified", ""))
    atomic_write(path, reply.data)
    atomic_write(note, msgspec.json.encode(found))
    path.touch()
    return release


def _load_index(suite: Suite, name: str, access: Access) -> Index:
    """Open the parsed form of an index, making it first if need be."""
    listed = suite.release.files(name, *(f"{name}{packing}" for packing in _UNPACK))
    if not listed:
        raise IntegrityError(f"{suite.release.source}: expected an entry for {name} in its SHA256 section, found none")
    path = access.cache / "index" / f"{next(iter(listed.values()))[0]}.sqlite"
    if index := open_index(path):
        return index
    with locked(path.with_suffix(".lock")):
        if index := open_index(path):
            return index
        write_index(path, _get_index(suite, name, listed, access), f"{suite.folder}/{name}")
        _forget_old(path.parent)
    if index := open_index(path):
        return index
    raise IntegrityError(f"{path}: expected the index just written, found a damaged file", "check the disk")


def _get_index(suite: Suite, name: str, listed: Mapping[str, tuple[str, int]], access: Access) -> bytes:
    """Get an index in the best packing there is and unpack it; both forms are checked if both are listed."""
    packing = next(packing for packing in _UNPACK if f"{name}{packing}" in listed)
    packed = fetch_listed(suite, f"{name}{packing}", access)
    source = f"{suite.folder}/{name}"
    try:
        data = _UNPACK[packing](packed)
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise IntegrityError(f"{source}{packing}: expected a file that can be unpacked, found: {error}") from None
    if name in listed:
        check_bytes(data, *listed[name], source)
    return data


def _forget_old(folder: Path) -> None:
    """Remove indexes that nothing has opened for a month, and what killed commands left half-made."""
    for path in folder.iterdir():
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _KEPT:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


prepare_types(_Validators)
