"""Source archives of releases, fetched from the configured indexes and unpacked; nothing of them is run."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from pathlib import Path

from envbuild.net.config import network_config
from envbuild.net.http import Http
from envbuild.resolve.python import indexes, newest, uv
from envbuild.resolve.python.wheels import Target
from tests.support.unpacking import unpack as unpack_archive

_TARGET = Target(python="3.11", platform="manylinux_2_36_x86_64")
_FURTHER = frozenset(("UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_INDEX"))
"""uv's variables for what may have a package before the default index is asked."""


def folder_of(pin: str) -> str:
    """Return the name of the folder of a release such as ``flask==3.1.3``."""
    return pin.replace("==", "-")


def unpack(pin: str, parent: Path) -> None:
    """Unpack the source archive of a release into ``folder_of(pin)``; ``LookupError`` if no index has one.

    Args:
        pin: ``NAME==VERSION``, as the archive's file name has them.
        parent: where the folder is made.
    """
    name, _, version = pin.partition("==")
    network = network_config(os.environ)
    found = newest.read_pages({name: _indexes()}, network)[name]
    file = f"{name.replace('-', '_')}-{version}.tar.gz"
    archive = next((each for files in found for each in files if each.name in {file, f"{name}-{version}.tar.gz"}), None)
    if archive is None:
        raise LookupError(f"no index has {file}")
    http = Http(network)
    try:
        with http.open(archive.address) as response:
            data = response.read()
    finally:
        http.close()
    if hashlib.sha256(data).hexdigest() != archive.sha256:
        raise LookupError(f"{file}: not the SHA-256 that its index states")
    with tarfile.open(fileobj=io.BytesIO(data)) as opened:
        unpack_archive(opened, parent)
    (parent / archive.name.removesuffix(".tar.gz")).rename(parent / folder_of(pin))


def _indexes() -> list[str]:
    """Return the addresses of the package indexes that this machine is configured with, but for folders."""
    places = indexes.configured(os.environ, Path())
    only_default = {key: value for key, value in places.environment.items() if key not in _FURTHER}
    alone = indexes.Indexes(arguments=places.arguments, environment=only_default)
    default = uv.index_of("numpy", _TARGET, alone, os.environ)
    return [place for place in indexes.addresses(places, os.environ, default) if place.startswith("http")]
