"""Real operating systems for tests: resolved from the machine's mirror, fetched once into a store that tests share."""

from __future__ import annotations

import os as system
import tempfile
from functools import cache
from pathlib import Path

import msgspec

from envbuild.fetch import fetch, lock_items
from envbuild.lock import Lock, Os
from envbuild.netconfig import network_config
from envbuild.progress import Silent
from envbuild.resolve.debian import OsRequest, deb_urls, resolve_os
from envbuild.store import Store
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


def os_lock(os: Os, **fields: object) -> Lock:
    """Return a small lock over this system."""
    return msgspec.structs.replace(small_lock(), os=os, **fields)
