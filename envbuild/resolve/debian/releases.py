"""The systems envbuild knows, as data: adding a release is adding a row (and its keys to ``data/keys``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from envbuild.core.text import either, perhaps
from envbuild.errors import ResolveError
from envbuild.lockfile.model import IN_EVERY_IMAGE


@dataclass(frozen=True, kw_only=True, slots=True)
class Distribution:
    """What the releases of one distribution share.

    Attributes:
        name: the first part of its releases' names, which is also that of its keys in ``data/keys`` and its settings.
        title: for messages.
        archives: every archive it has; each is the last part of its address on a mirror.
        components: those that are searched unless a spec names others.
        further: the other ones.
        dated: path of an archive in its snapshot service.
        everywhere: architectures of the first archive; others are in the second one. None: the first one has all.
    """

    name: str
    title: str
    archives: tuple[str, ...]
    components: tuple[str, ...]
    further: tuple[str, ...]
    dated: str
    everywhere: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Release:
    """One release.

    Attributes:
        name: in a spec, such as ``debian-12``.
        codename: in the archive, such as ``bookworm``.
        python: the feature release its Python packages are built for; the only one that is taken from it.
        glibc: version of its C library, which decides the newest manylinux tag its Python accepts.
        common: what every image has unless the spec leaves it out (``os.without``): packages by the word for it.
        emulator: the package with QEMU's user-mode emulators, linked statically.
    """

    name: str
    codename: str
    python: str
    glibc: tuple[int, int]
    common: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    emulator: str = "qemu-user-static"

    @property
    def distribution(self) -> Distribution:
        """The distribution that it is a release of."""
        return distribution_of(self.name)

    def suites(self, architecture: str) -> tuple[tuple[str, str], ...]:
        """Return archive and suite of each part, in the order in which apt would read them."""
        found = self.distribution
        if found is DEBIAN:
            first, security = found.archives
        else:
            elsewhere = found.everywhere is not None and architecture not in found.everywhere
            first = security = found.archives[1 if elsewhere else 0]
        return (
            (first, self.codename),
            (first, f"{self.codename}-updates"),
            (security, f"{self.codename}-security"),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class SystemPython:
    """The interpreter of a release: feature release, Debian packages that hold it, path in the image."""

    version: str
    packages: tuple[str, ...]
    executable: str


STANDALONE_LIBRARIES: tuple[str, ...] = ("libexpat1", "zlib1g")
"""What Debian's Python brings and wheels may assume (``data/libraries.toml``), for images with another Python."""

DEBIAN = Distribution(
    name="debian",
    title="Debian",
    archives=("debian", "debian-security"),
    components=("main",),
    further=("contrib", "non-free", "non-free-firmware"),
    dated="archive/{archive}/{snapshot}",
)
# Sources: Ubuntu's documentation of its archive (components, pockets), and of its snapshot service: the address of a
# snapshot is SERVICE/ubuntu/20240301T030400Z. Extended security maintenance has archives of its own, behind a token.
UBUNTU = Distribution(
    name="ubuntu",
    title="Ubuntu",
    archives=("ubuntu", "ubuntu-ports"),
    components=("main", "universe"),
    further=("restricted", "multiverse"),
    dated="{archive}/{snapshot}",
    everywhere=("amd64", "i386"),
)
DISTRIBUTIONS = {found.name: found for found in (DEBIAN, UBUNTU)}

ARCHIVES = tuple(archive for found in DISTRIBUTIONS.values() for archive in found.archives)
"""Names that a further archive cannot have."""

COMMON: Mapping[str, str] = {"tzdata": "time zones", "ca-certificates": "certificates for TLS"}
"""What is in every image for its users' sake, by the word that a spec uses, and what it is."""

_COMMON = {"tzdata": ("tzdata",), "ca-certificates": ("ca-certificates",)}
# Debian 13 and Ubuntu 24.04 have moved names such as US/Eastern into a package of their own.
_COMMON_SPLIT = {**_COMMON, "tzdata": ("tzdata", "tzdata-legacy")}

# Sources: the releases' packages python3 and libc6. The C library of Ubuntu 26.04 is newer than stated; wheels that
# need it are rare, and none is chosen that the system could not load. From QEMU 9.1 on Debian links the programs of the
# package qemu-user statically (its changelog), and qemu-user-static has only links to them.
RELEASES = {
    release.name: release
    for release in (
        Release(name="debian-11", codename="bullseye", python="3.9", glibc=(2, 31), common=_COMMON),
        Release(name="debian-12", codename="bookworm", python="3.11", glibc=(2, 36), common=_COMMON),
        Release(
            name="debian-13",
            codename="trixie",
            python="3.13",
            glibc=(2, 41),
            common=_COMMON_SPLIT,
            emulator="qemu-user",
        ),
        # As it was in October 2026; its C library and Python grow until it is Debian 14.
        Release(
            name="debian-testing",
            codename="forky",
            python="3.14",
            glibc=(2, 43),
            common=_COMMON_SPLIT,
            emulator="qemu-user",
        ),
        Release(name="ubuntu-22.04", codename="jammy", python="3.10", glibc=(2, 35), common=_COMMON),
        Release(name="ubuntu-24.04", codename="noble", python="3.12", glibc=(2, 39), common=_COMMON_SPLIT),
        Release(
            name="ubuntu-26.04",
            codename="resolute",
            python="3.14",
            glibc=(2, 42),
            common=_COMMON_SPLIT,
            emulator="qemu-user",
        ),
    )
}


def find_release(name: str) -> Release:
    """Return the release that a spec calls ``name``; raises ``ResolveError`` if there is none."""
    try:
        return RELEASES[name]
    except KeyError:
        raise ResolveError(
            f"os: expected {either(RELEASES)}, found {name!r}{perhaps(name, RELEASES)}",
            "write in the spec: os: debian-12",
        ) from None


def distribution_of(release: str) -> Distribution:
    """Return the distribution of a release by its name; Debian's for one that is not known."""
    return DISTRIBUTIONS.get(release.partition("-")[0], DEBIAN)


def owner_of(archive: str) -> Distribution | None:
    """Return the distribution that has an archive; None for a further archive."""
    return next((found for found in DISTRIBUTIONS.values() if archive in found.archives), None)


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
    the network). The shared libpython is not needed: Debian links its interpreter statically, Ubuntu too.

    Args:
        release: such as ``debian-12``.

    Raises:
        ResolveError: unknown release.
    """
    version = find_release(release).python
    return SystemPython(version=version, packages=(f"python{version}",), executable=f"/usr/bin/python{version}")
