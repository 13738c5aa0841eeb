"""Pins of an earlier lock hold while the archive has them and they fit; ``debian.pins``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from envbuild.lockfile.model import OsPackage
from envbuild.resolve.debian.closure import OsRequest, resolve_os
from envbuild.resolve.debian.sources import AptConfig
from tests.support.archives import keyring, stanza, write_release

Ask = Callable[..., dict[str, str]]

LIBC = stanza("libc6", essential="yes")


class Archive:
    """An archive that changes, and a lock of it."""

    def __init__(self, folder: Path) -> None:
        self._root = folder / "mirror"
        self._keys = [keyring(folder / "key.pgp")]
        self.notes: list[str] = []
        self.held: tuple[OsPackage, ...] = ()

    def publish(self, main: Iterable[str], security: Iterable[str] = ()) -> None:
        write_release(self._root, main=[LIBC, *main], security=list(security))

    def lock(self, *packages: str, moved: Sequence[str] = (), versions: dict[str, str] | None = None) -> dict[str, str]:
        """Lock again as ``envbuild lock`` does; returns versions by name."""
        request = OsRequest(release="debian-12", architecture="amd64", packages=packages, mirror=f"file://{self._root}")
        self.notes = []
        found = resolve_os(
            replace(
                request,
                versions=versions or {},
                held=tuple(package for package in self.held if package.name not in moved),
            ),
            self._root.parent / "cache",
            keyrings=self._keys,
            apt=AptConfig(mirrors={}),
            refresh=True,
            note=self.notes.append,
        )
        self.held = found.packages
        return {package.name: package.version for package in found.packages}


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """Return an archive without packages."""
    return Archive(tmp_path)


def test_a_version_that_the_archive_still_has_stays(archive: Archive) -> None:
    """A security update moves nothing by itself, since the release still has the version locked; a note names it."""
    archive.publish([stanza("bash", "1"), stanza("git", "1")])
    assert archive.lock("bash", "git")["bash"] == "1"
    assert archive.notes == []
    archive.publish([stanza("bash", "1"), stanza("git", "1")], [stanza("bash", "2")])
    assert archive.lock("bash", "git") == {"bash": "1", "git": "1", "libc6": "1"}
    (note,) = archive.notes
    assert "1 OS package has a newer version" in note
    assert "bash" in note


def test_one_package_is_moved_by_name(archive: Archive) -> None:
    """Others that have newer versions too stay."""
    archive.publish([stanza("bash", "1"), stanza("git", "1")])
    archive.lock("bash", "git")
    archive.publish([stanza("bash", "1"), stanza("git", "1")], [stanza("bash", "2"), stanza("git", "2")])
    assert archive.lock("bash", "git", moved=["bash"]) == {"bash": "2", "git": "1", "libc6": "1"}


def test_only_what_is_gone_moves(archive: Archive) -> None:
    """A version that the archive has removed is replaced, and no other."""
    archive.publish([stanza("bash", "1"), stanza("git", "1")], [stanza("bash", "1.1")])
    assert archive.lock("bash", "git")["bash"] == "1.1"
    archive.publish([stanza("bash", "1"), stanza("git", "1")], [stanza("bash", "1.2"), stanza("git", "2")])
    assert archive.lock("bash", "git") == {"bash": "1.2", "git": "1", "libc6": "1"}


def test_what_a_move_forces_moves_too(archive: Archive) -> None:
    """Packages of one source that need each other's exact version go together; what needs neither stays."""
    parts = [stanza("python", "1", depends="python-lib (= 1)"), stanza("python-lib", "1"), stanza("git", "1")]
    archive.publish(parts)
    archive.lock("git", "python")
    update = [stanza("python", "2", depends="python-lib (= 2)"), stanza("python-lib", "2"), stanza("git", "2")]
    archive.publish(parts, update)
    assert archive.lock("git", "python") == {"git": "1", "libc6": "1", "python": "1", "python-lib": "1"}
    before = archive.held
    for name in ("python", "python-lib"):
        archive.held = before
        assert archive.lock("git", "python", moved=[name]) == {
            "git": "1",
            "libc6": "1",
            "python": "2",
            "python-lib": "2",
        }


def test_a_new_package_moves_what_it_needs_newer(archive: Archive) -> None:
    """A pin that does not fit what the spec now asks for is given up."""
    archive.publish([stanza("ssl", "1"), stanza("git", "1")])
    archive.lock("ssl", "git")
    archive.publish(
        [stanza("ssl", "1"), stanza("git", "1")],
        [stanza("ssl", "2"), stanza("git", "2"), stanza("curl", "2", depends="ssl (>= 2)")],
    )
    assert archive.lock("ssl", "git", "curl") == {"curl": "2", "git": "1", "libc6": "1", "ssl": "2"}


def test_a_pin_that_breaks_a_new_package_is_given_up(archive: Archive) -> None:
    """Conflicts count as well as needs."""
    archive.publish([stanza("ssl", "1"), stanza("git", "1")])
    archive.lock("ssl", "git")
    archive.publish(
        [stanza("ssl", "1"), stanza("git", "1")],
        [stanza("ssl", "2"), stanza("git", "2"), stanza("curl", "2", breaks="ssl (<< 2)")],
    )
    assert archive.lock("ssl", "git", "curl") == {"curl": "2", "git": "1", "libc6": "1", "ssl": "2"}


def test_another_file_of_the_same_version_is_no_pin(archive: Archive, tmp_path: Path) -> None:
    """A version whose bytes are others now is taken as the archive has it."""
    archive.publish([stanza("bash", "1")], [stanza("bash", "2")])
    archive.lock("bash")
    archive.held = tuple(
        OsPackage(**{**{name: getattr(package, name) for name in package.__struct_fields__}, "sha256": "0" * 64})
        if package.name == "bash"
        else package
        for package in archive.held
    )
    assert archive.lock("bash")["bash"] == "2"


def test_a_version_that_the_spec_names_is_taken_from_any_suite(archive: Archive) -> None:
    """``packages: [bash=1]`` is had while the release has it, whatever security has."""
    archive.publish([stanza("bash", "1")], [stanza("bash", "2")])
    assert archive.lock("bash")["bash"] == "2"
    assert archive.lock("bash", versions={"bash": "1"})["bash"] == "1"
    assert archive.notes == []
