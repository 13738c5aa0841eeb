"""The interpreter of a lock: the operating system's, or a standalone build of CPython."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from envbuild.errors import IntegrityError
from envbuild.lockfile import model as locks
from envbuild.lockfile.pylock import STANDALONE_PREFIX
from envbuild.operations import operating_system
from envbuild.operations.events import Events
from envbuild.spec.model import Spec
from envbuild.store.objects import Store

if TYPE_CHECKING:
    from envbuild.resolve.python.builds import Row


def lock_python(
    spec: Spec, old: locks.Lock | None, store: Store, events: Events, *, upgrade: bool
) -> tuple[locks.Python, tuple[str, ...]]:
    """Return the interpreter that a spec without a base image asks for, and sentences that a person should read.

    A standalone build that an earlier lock has stays; another one is brought into the store, since only its bytes
    state its size, and its digest where no list does.

    Args:
        old: the lock that is replaced.
        upgrade: take the newest build that the spec admits.

    Raises:
        ResolveError: there is no such build.
        IntegrityError: it could not be fetched, or has another digest than uv's metadata states.
        UsageError: the configured mirror is none.
    """
    from envbuild.resolve.python import build_sources, builds

    if own := operating_system.system_python(spec):
        return own, ()
    same = old is not None and old.os.architecture == spec.os.architecture
    held = old.python.build if old and same and not upgrade else None
    path = build_sources.own_list()
    listed = builds.read_table(path) if path else None
    version, row = builds.choose(spec.python, spec.os.architecture, held, listed)
    build, notes = (row, ()) if isinstance(row, locks.PythonBuild) else _bring(version, row, store, events)
    feature = ".".join(version.split(".")[:2])
    python = locks.Python(
        version=feature,
        executable=f"{STANDALONE_PREFIX}/bin/python{feature}",
        platform=operating_system.platform_of(spec),
        build=build,
    )
    return python, notes


def standalone_sources(lock: locks.Lock, missing: set[str]) -> Mapping[str, Sequence[str]]:
    """Return where a lock's standalone Python may be, by SHA-256; asks nobody if it is not missing."""
    from envbuild.resolve.python.build_sources import addresses

    build = lock.python.build
    return {build.sha256: addresses(build.path)} if build and build.sha256 in missing else {}


def _bring(version: str, row: Row, store: Store, events: Events) -> tuple[locks.PythonBuild, tuple[str, ...]]:
    """Have an archive in the store, whose digest may be unknown so far."""
    from envbuild.core.fs import temporary_folder
    from envbuild.net.config import network_config
    from envbuild.resolve.python import build_sources

    if row.sha256 and store.has(row.sha256):
        size = store.path(row.sha256).stat().st_size
        return locks.PythonBuild(version=version, path=row.path, size=size, sha256=row.sha256), ()
    name = row.path.rsplit("/", 1)[-1]
    with temporary_folder("build.", store.cache_dir("python")) as folder:
        found = build_sources.download(row.path, folder / "archive", network_config(), events)
        if row.sha256 and found.sha256 != row.sha256:
            raise IntegrityError(
                f"{name}: {found.source} has other bytes than its list states\n"
                f"  expected  sha256 {row.sha256}\n  found     sha256 {found.sha256}",
                "use another mirror, or another release in the spec's python",
            )
        store.add_file(folder / "archive", found.sha256)
    build = locks.PythonBuild(version=version, path=row.path, size=found.size, sha256=found.sha256)
    if row.sha256:
        return build, ()
    return build, (
        f"no list states a SHA-256 of {name}: the lock has that of the bytes which came from {found.source}",
    )
