"""Real operating systems for tests: resolved from the machine's mirror, fetched once into a store that tests share."""

from __future__ import annotations

import os as system
import tempfile
from functools import cache
from pathlib import Path

import msgspec

from envbuild.core.digest import sha256_file
from envbuild.core.progress import Silent
from envbuild.engine.docker.adapter import connect
from envbuild.image.os.rootfs import build_os_layer
from envbuild.lockfile.model import Lock, Os, OsPackage
from envbuild.net.config import network_config
from envbuild.resolve.debian.closure import OsRequest, deb_urls, resolve_os
from envbuild.store.fetch import fetch, lock_items
from envbuild.store.objects import Store
from tests.support.debs import make_deb
from tests.support.locks import small_lock


@cache
def shared_store() -> Store:
    """Return a store that outlives a test session, so that packages come from the mirror once."""
    return Store(Path(tempfile.gettempdir()) / f"envbuild-tests-{system.getuid()}")


@cache
def real_os(release: str, *packages: str) -> Os:
    """Return the smallest system of a release that holds these packages; its files are in ``shared_store``."""
    store = shared_store()
    request = OsRequest(release=release, architecture="amd64", packages=packages)
    os = resolve_os(request, store.cache_dir("debian"))
    fetch(lock_items(os_lock(os), deb_urls(os)), store, Silent(), network_config())
    return os


def build_with(folder: Path, target: Path, name: str, files: dict[str, str], scripts: dict[str, str]) -> None:
    """Build the layer of Debian 12 with one more package, made in ``folder``, as the file ``target``."""
    path = make_deb(folder, name, files=files, scripts=scripts)
    sha256, size = sha256_file(path), path.stat().st_size
    package = OsPackage(
        name=name, version="1.0", architecture="all", archive="debian", path=f"pool/{name}_1.0_all.deb",
        size=size, sha256=sha256,
    )  # fmt: skip
    system = real_os("debian-12")
    build_os_layer(
        msgspec.structs.replace(system, packages=(*system.packages, package)),
        lambda digest: path if digest == sha256 else shared_store().path(digest),
        connect(),
        target,
        Silent(),
    )


def os_lock(os: Os, **fields: object) -> Lock:
    """Return a small lock over this system."""
    return msgspec.structs.replace(small_lock(), os=os, **fields)
