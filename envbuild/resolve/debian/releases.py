"""The Debian releases envbuild knows, as data: adding one is adding a row (and its keys to ``data/keys``)."""

from __future__ import annotations

from dataclasses import dataclass

from envbuild.core.text import either, perhaps
from envbuild.errors import ResolveError


@dataclass(frozen=True, kw_only=True, slots=True)
class Release:
    """One Debian release.

    Attributes:
        name: in a spec, such as ``debian-12``.
        codename: in the archive, such as ``bookworm``.
        python: the feature release its Python packages are built for; the only one it has.
        glibc: version of its C library, which decides the newest manylinux tag its Python accepts.
    """

    name: str
    codename: str
    python: str
    glibc: tuple[int, int]

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


ARCHIVES = ("debian", "debian-security")

# Sources: the releases' packages python3 and libc6.
RELEASES = {
    release.name: release
    for release in (
        Release(name="debian-12", codename="bookworm", python="3.11", glibc=(2, 36)),
        Release(name="debian-13", codename="trixie", python="3.13", glibc=(2, 41)),
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


def system_python(release: str, version: str = "") -> SystemPython:
    """Return the packages and path of a release's own Python.

    ``pythonX.Y`` depends on ``pythonX.Y-minimal`` and ``libpythonX.Y-stdlib``, which together are the whole
    standard library (ssl, ctypes, sqlite3, multiprocessing; not tkinter, not ensurepip, which need a display or
    the network). The shared libpython is not needed: Debian links its interpreter statically.

    Args:
        release: such as ``debian-12``.
        version: feature release the spec asks for, such as ``3.11``; empty for what the release has.

    Raises:
        ResolveError: unknown release, or a Python that the release does not have.
    """
    known = find_release(release)
    wanted = version or known.python
    if wanted != known.python:
        others = [other.name for other in RELEASES.values() if other.python == wanted]
        raise ResolveError(
            f"python: {release} has Python {known.python} only, found {wanted!r}",
            f"write python: {known.python!r} in the spec" + (f", or os: {either(others)}" if others else ""),
        )
    return SystemPython(version=wanted, packages=(f"python{wanted}",), executable=f"/usr/bin/python{wanted}")
