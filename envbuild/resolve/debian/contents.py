"""Which Debian package ships a shared library: the archive's Contents index, got only when somebody asks.

The index (12 MB packed, all paths of the release) is checked like any other, and only its shared libraries are kept.
Source of the format: https://wiki.debian.org/DebianRepository/Format, "Contents" indices.
"""

from __future__ import annotations

import gzip
import io
import re
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from envbuild.core.fs import locked, temporary_folder
from envbuild.core.progress import Progress, Silent
from envbuild.errors import IntegrityError
from envbuild.resolve.debian.archive import Access, cache_errors, fetch_listed, load_suite
from envbuild.resolve.debian.closure import OsRequest
from envbuild.resolve.debian.release_file import environment_keyrings
from envbuild.resolve.debian.releases import find_release
from envbuild.resolve.debian.sources import AptConfig, archive_bases, read_apt_config

FORMAT = 1
"""Raise whenever the cached form changes."""

# Folders that the dynamic linker looks into without configuration: ld.so(8), and /etc/ld.so.conf.d of Debian's libc.
_LINE = re.compile(
    rb"^(?:usr/)?lib(?:32|64|x32)?/(?:[a-z0-9_]+-linux-gnu[a-z0-9_]*/)?([^/\s]+\.so(?:\.[^/\s]+)?)[ \t]+(\S+)[ \t]*$",
    re.MULTILINE,
)
_PIECE = 1 << 22
_COLUMNS = "CREATE TABLE library (soname TEXT PRIMARY KEY, packages TEXT) WITHOUT ROWID;"


def package_for_library(
    soname: str,
    request: OsRequest,
    cache: Path,
    progress: Progress | None = None,
    *,
    keyrings: Sequence[Path] = (),
    apt: AptConfig | None = None,
) -> list[str]:
    """Return the packages that ship a shared library where the dynamic linker finds it; most likely first.

    Args:
        soname: such as ``libGL.so.1``.
        request: release, architecture, mirror and snapshot; its packages are not looked at.
        cache: folder for what can be got again.

    Raises:
        ResolveError: unknown release, or no mirror is known.
        IntegrityError: a download failed, or bytes or signatures are not what they must be.
    """
    with _opened(request, cache, progress or Silent(), keyrings, apt or read_apt_config()) as connection:
        return _look_up(connection, soname)


@contextmanager
def _opened(
    request: OsRequest, cache: Path, progress: Progress, keyrings: Sequence[Path], apt: AptConfig
) -> Iterator[sqlite3.Connection]:
    with cache_errors(cache), closing(_open(request, cache, progress, keyrings, apt)) as connection:
        yield connection


def _open(
    request: OsRequest, cache: Path, progress: Progress, keyrings: Sequence[Path], apt: AptConfig
) -> sqlite3.Connection:
    """Open the library table of a release, making it first if need be."""
    release = find_release(request.release)
    archive, name = release.suites(request.architecture)[0]
    distribution = release.distribution.name
    access = Access(
        cache=cache,
        keyrings=(*keyrings, *environment_keyrings(distribution=distribution)),
        distribution=distribution,
        progress=progress,
    )
    bases = archive_bases(archive, mirror=request.mirror, snapshot=request.snapshot, apt=apt)
    suite = load_suite(archive, name, bases, access, snapshot=request.snapshot)
    # Contents-all is left out: packages for all architectures hold no shared libraries.
    member = f"main/Contents-{request.architecture}.gz"
    whole = f"Contents-{request.architecture}.gz"  # Ubuntu has one for all components
    listed = suite.release.files(member, whole)
    member = whole if whole in listed and member not in listed else member
    key, _ = listed.get(member, ("", 0))
    path = cache / "contents" / f"{key}-{FORMAT}.sqlite"
    if connection := _connect(path):
        return connection
    with locked(path.with_suffix(".lock")):
        if not (connection := _connect(path)):
            _write(path, _libraries(fetch_listed(suite, member, access)))
            connection = _connect(path)
    if connection is None:
        raise IntegrityError(f"{path}: expected the table just written, found a damaged file", "check the disk")
    return connection


def _connect(path: Path) -> sqlite3.Connection | None:
    if not path.exists():
        return None
    with suppress(sqlite3.Error):
        connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True)
        connection.execute("SELECT soname FROM library LIMIT 1").fetchone()
        return connection
    return None


def _libraries(packed: bytes) -> Iterator[tuple[str, str]]:
    """Give each library's file name and its packages, separated by spaces; unpacks piece by piece (half a gigabyte)."""
    found: dict[str, dict[str, None]] = {}
    try:
        with gzip.open(io.BytesIO(packed)) as stream:
            while lines := stream.readlines(_PIECE):
                for name, owners in _LINE.findall(b"".join(lines)):
                    packages = (owner.rsplit("/", 1)[-1] for owner in owners.decode("utf-8", "replace").split(","))
                    found.setdefault(name.decode("utf-8", "replace"), {}).update(dict.fromkeys(packages))
    except (OSError, EOFError, zlib.error) as error:
        raise IntegrityError(
            f"the archive's index of files cannot be unpacked: {error}", "use another mirror"
        ) from None
    return ((name, " ".join(found[name])) for name in sorted(found))


def _write(path: Path, rows: Iterable[tuple[str, str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(".contents-", path.parent) as folder:
        made = folder / "contents"
        with closing(sqlite3.connect(made)) as connection:
            connection.executescript(f"PRAGMA journal_mode = OFF; {_COLUMNS}")
            with connection:
                connection.executemany("INSERT INTO library VALUES (?, ?)", rows)
        made.replace(path)


def _look_up(connection: sqlite3.Connection, soname: str) -> list[str]:
    """Sort by likelihood: a package named after the library before others, short names before long ones."""
    row = connection.execute("SELECT packages FROM library WHERE soname = ?", (soname,)).fetchone()
    stem = soname.partition(".so")[0].lower().replace("_", "-")
    return sorted(row[0].split(), key=lambda name: (not name.startswith(stem), len(name), name)) if row else []
