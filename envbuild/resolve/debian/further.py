"""Further apt archives that a spec names: a vendor's, a company's, each with a key that is trusted for it alone.

They come after the system: a name that the distribution has is taken from there, so that no further archive can put
another C library under everything by a higher version number. What shall be taken from an archive all the same is
listed in the spec (``replaces``), or pinned to a version that only the archive has. Of several archives the first one
that has a name provides it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from envbuild.core.digest import sha256_bytes
from envbuild.core.fs import read_regular
from envbuild.errors import IntegrityError, ResolveError
from envbuild.lockfile.model import FurtherArchive as LockedArchive
from envbuild.resolve.debian.archive import Access, Suite, load_flat_index, load_indexes, load_suite
from envbuild.resolve.debian.index import Index
from envbuild.resolve.debian.release_file import trusted_certificates

_KEY_LIMIT = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class FurtherArchive:
    """One archive.

    Attributes:
        name: what the lock calls it.
        url: base address; ``{snapshot}`` in it is replaced by the time that the spec asks for.
        suite: name of a suite, or a path that ends in a slash for an archive without suites (``/``: its root), as in
            sources.list(5).
        components: to be searched; none in an archive without suites.
        key: file of the OpenPGP certificates that may sign it, binary or armored.
        replaces: names that are taken from it although the system has them.
    """

    name: str
    url: str
    suite: str
    components: tuple[str, ...]
    key: Path
    replaces: tuple[str, ...] = ()

    @property
    def flat(self) -> bool:
        """Whether it has no suites."""
        return self.suite.endswith("/")


def base_of(url: str, snapshot: str) -> str:
    """Return the base address of an archive at a time; raises ``ResolveError`` if it needs one that is not given."""
    if "{snapshot}" in url and not snapshot:
        raise ResolveError(
            f"os.archives: {url} needs a time, and the spec names none", "write os.snapshot, or an address without it"
        )
    return url.rstrip("/").replace("{snapshot}", snapshot)


def load_further(
    archive: FurtherArchive, architecture: str, snapshot: str, access: Access
) -> list[tuple[Suite, list[Index]]]:
    """Get, check and open an archive: its suite once for each component, with the indexes of it.

    Args:
        access: how to reach it; its keys are replaced by the archive's own.

    Raises:
        IntegrityError: see ``load_suite`` and ``load_indexes``; the key's file is missing or holds no certificate.
        ResolveError: the archive lacks the architecture or a component.
    """
    alone = access.trusting(archive.key)
    base = base_of(archive.url, snapshot)
    dated = snapshot if "{snapshot}" in archive.url else ""
    suite = load_suite(archive.name, archive.suite, [base], alone, snapshot=dated)
    if archive.flat:
        return [(suite, [load_flat_index(suite, alone)])]
    has = suite.components
    if absent := [component for component in archive.components if component not in has]:
        found = ", ".join(has) or "none"
        raise ResolveError(
            f"os.archives: {archive.name}: {archive.suite} has no component {absent[0]}, but {found}",
            f"correct the components of {archive.name} in the spec",
        )
    opened = []
    for component in archive.components:
        indexes = load_indexes(suite, architecture, alone, component)
        if not indexes:
            raise ResolveError(
                f"os.archives: {archive.name}: {archive.suite} has no packages for {architecture}",
                "leave the archive out, or take the one for this architecture",
            )
        opened.append((suite, indexes))
    return opened


def lock_archive(archive: FurtherArchive) -> LockedArchive:
    """Return what a lock records of an archive: where packages are looked for in it, and who may sign it.

    Raises:
        IntegrityError: the key's file cannot be read.
    """
    try:
        data = read_regular(archive.key, _KEY_LIMIT)
    except OSError as error:
        raise IntegrityError(f"{archive.key}: expected a keyring, found: {error.strerror}") from None
    return LockedArchive(
        name=archive.name,
        suite=archive.suite,
        components=archive.components,
        replaces=tuple(sorted(archive.replaces)),
        key_sha256=sha256_bytes(data),
        keys=tuple(sorted(found.fingerprint.upper() for found in trusted_certificates((archive.key,), ""))),
    )


def replaced_names(archives: Sequence[FurtherArchive], suites: Sequence[Suite]) -> dict[int, frozenset[str]]:
    """Return, by its place among the suites, what each further archive provides although the system has it."""
    named = {archive.name: frozenset(archive.replaces) for archive in archives}
    return {place: named[suite.archive] for place, suite in enumerate(suites) if suite.archive in named}


def first_places(archives: Sequence[FurtherArchive], suites: Sequence[Suite]) -> dict[int, int]:
    """Return, for each place of a further archive among the suites, that of its first component."""
    names = [suite.archive for suite in suites]
    further = {archive.name for archive in archives}
    return {place: names.index(name) for place, name in enumerate(names) if name in further}
