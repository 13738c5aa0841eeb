"""A folder that holds every file of a lock, to carry to a place without network.

<directory>/pylock.<name>.toml   the lock
<directory>/wheels/<file>        where the lock's PEP 751 part expects the wheels: `pip install -r` and
                                 `uv pip sync` work on the folder as it is
<directory>/debs/<file>
<directory>/python/<file>        a standalone Python
<directory>/base.tar             the file system of a base image, instead of debs
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from envbuild.core.digest import sha256_file
from envbuild.core.fs import atomic_file, atomic_write, clone
from envbuild.core.progress import Progress
from envbuild.errors import IntegrityError
from envbuild.lockfile.model import Lock, dumps
from envbuild.store.objects import Store, not_written


@dataclass(frozen=True, kw_only=True, slots=True)
class Vendored:
    """What ``vendor`` did: files written, files that were right already, bytes written."""

    written: int
    kept: int
    bytes: int


def vendor(lock: Lock, store: Store, directory: Path, progress: Progress) -> Vendored:
    """Write the lock and all its files below ``directory``; files that are right already are left alone.

    Raises:
        IntegrityError: files are not in the store (all of them named), or damaged there.
        BuildError, UsageError: as for ``not_written``.
    """
    files, document = list(_files(lock)), dumps(lock)
    absent = sorted({place.rsplit("/", 1)[-1] for place, size, sha256 in files if not store.has(sha256, size)})
    if absent:
        names = "".join(f"\n  {name}" for name in absent)
        raise IntegrityError(f"{len(absent)} files are not in the store {store.root}{names}", "run: envbuild fetch")
    written = total = 0
    with progress.phase("vendor", sum(size for _, size, _ in files)) as advance:
        for place, size, sha256 in files:
            target = directory / place
            if not _is_right(target, size, sha256):
                _copy(store, sha256, target)
                written, total = written + 1, total + size
            advance(size)
        with _explained(directory / lock.file_name):
            atomic_write(directory / lock.file_name, document)
    return Vendored(written=written, kept=len(files) - written, bytes=total)


def vendored_sources(lock: Lock, directory: Path) -> dict[str, tuple[str, ...]]:
    """Return the path of each of the lock's files that a vendored folder holds, by SHA-256: sources for ``fetch``."""
    root = directory.absolute()
    return {sha256: (str(root / place),) for place, _, sha256 in _files(lock) if (root / place).is_file()}


def _files(lock: Lock) -> Iterator[tuple[str, int, str]]:
    """Yield place below the folder, size and SHA-256 of each file."""
    places: dict[str, str] = {}
    debs = (*lock.os.packages, *lock.emulators)
    wanted = [(f"debs/{package.file}", package.size, package.sha256) for package in debs]
    wanted += [("base.tar", lock.os.image_size, lock.os.image_rootfs)] if lock.os.image else []
    if build := lock.python.build:
        wanted.append((f"python/{build.file}", build.size, build.sha256))
    wanted += [(f"wheels/{item.wheel.name}", item.wheel.size, item.wheel.sha256) for item in lock.packages]
    for place, size, sha256 in wanted:
        if places.setdefault(place, sha256) != sha256:
            raise IntegrityError(f"the lock has two different files named {place}", "lock again: envbuild lock")
        yield place, size, sha256


def _is_right(path: Path, size: int, sha256: str) -> bool:
    try:
        return path.stat().st_size == size and sha256_file(path) == sha256
    except OSError:
        return False


def _copy(store: Store, sha256: str, target: Path) -> None:
    """Copy an object; never as a hard link, since the folder belongs to the user, who may edit its files."""
    if not store.verify(sha256):
        raise IntegrityError(f"{target.name} was damaged in the store and is removed from it", "run: envbuild fetch")
    with _explained(target), store.path(sha256).open("rb") as source, atomic_file(target) as stream:
        if not clone(source, stream):
            shutil.copyfileobj(source, stream, 1 << 20)


@contextmanager
def _explained(target: Path) -> Iterator[None]:
    """Turn what the folder's file system refuses into an error a person can act on."""
    try:
        yield
    except OSError as error:
        raise not_written(target, error) from error
