"""The Debian releases envbuild knows, as data: adding one is adding a row (and its keys to ``data/keys``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from envbuild.core.text import either, perhaps
from envbuild.errors import ResolveError
from envbuild.lockfile.model import IN_EVERY_IMAGE


@dataclass(frozen=True, kw_only=True, slots=True)
class Release:
    """One Debian release.

    Attributes:
        name: in a spec, such as ``debian-12``.
        codename: in the archive, such as ``bookworm``.
        python: the feature release its Python packages are built for; the only one it has.
        glibc: version of its C library, which decides the newest manylinux tag its Python accepts.
        common: what every image has unless the spec leaves it out (``os.without``): packages by the word for it.
    """

    name: str
    codename: str
    python: str
    glibc: tuple[int, int]
    common: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def suites(self) -> tuple[tuple[str, str], ...]:
        """Archive and suite of each part, in the order in which apt would read them."""
        return (
            ("debian", self.codename),
            ("debian", f"{self.codename}-updates"),
            ("debian-security", f"{self.codename}-security"),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class SystemPython:
    """The interpreter of a release: feature release, Debian packages that hold it, path in the image."""

    version: str
    packages: tuple[str, ...]
    executable: str


STANDALONE_LIBRARIES: tuple[str, ...] = ("libexpat1", "zlib1g")
"""What Debian's Python brings and wheels may assume (``data/libraries.toml``), for images with another Python."""

ARCHIVES = ("debian", "debian-security")

COMMON: Mapping[str, str] = {"tzdata": "time zones", "ca-certificates": "certificates for TLS"}
"""What is in every image for its users' sake, by the word that a spec uses, and what it is."""

_COMMON_12 = {"tzdata": ("tzdata",), "ca-certificates": ("ca-certificates",)}
# Debian 13 has moved names such as US/Eastern into a package of their own.
_COMMON_13 = {**_COMMON_12, "tzdata": ("tzdata", "tzdata-legacy")}

# Sources: the releases' packages python3 and libc6.
RELEASES = {
    release.name: release
    for release in (
        Release(name="debian-12", codename="bookworm", python="3.11", glibc=(2, 36), common=_COMMON_12),
        Release(name="debian-13", codename="trixie", python="3.13", glibc=(2, 41), common=_COMMON_13),
    )
}


def find_release(name: str) -> Release:
    """Return the release that a spec calls ``name``; raises ``ResolveError`` if there is none."""
    try:
        return RELEASES[name]
    except KeyError:
        raise ResolveError(
            f"os: expected {either(RELEASES)}, found {name!r}{perhaps(name, RELEASES)}",
            f"write in the spec: os: {next(iter(RELEASES))}",
        ) from None


def common_packages(release: str, without: Iterable[str] = ()) -> dict[str, str]:
    """Return the packages that every image has, by name, each with the reason as text.

    Args:
        release: such as ``debian-12``.
        without: words of ``COMMON`` to leave out.

    Raises:
        ResolveError: unknown release.
    """
    found = find_release(release).common
    left_out = set(without)
    return {
        package: f"{IN_EVERY_IMAGE}: {COMMON[word]}"
        for word, packages in found.items()
        if word not in left_out
        for package in packages
    }


def system_python(release: str) -> SystemPython:
    """Return the packages and path of a release's own Python.

    ``pythonX.Y`` depends on ``pythonX.Y-minimal`` and ``libpythonX.Y-stdlib``, which together are the whole
    standard library (ssl, ctypes, sqlite3, multiprocessing; not tkinter, not ensurepip, which need a display or
    the network). The shared libpython is not needed: Debian links its interpreter statically.

    Args:
        release: such as ``debian-12``.

    Raises:
        ResolveError: unknown release.
    """
    version = find_release(release).python
    return SystemPython(version=version, packages=(f"python{version}",), executable=f"/usr/bin/python{version}")
