"""The interpreter that a lock gets: the system's, or a standalone build from a folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from envbuild.core.digest import sha256_file
from envbuild.errors import IntegrityError
from envbuild.lockfile import model as locks
from envbuild.operations.events import Silent
from envbuild.operations.standalone import lock_python, standalone_sources
from envbuild.resolve.python.build_sources import UV_VARIABLE, VARIABLE
from envbuild.spec.model import parse_spec
from envbuild.store.fetch import lock_items
from envbuild.store.objects import Store
from envbuild.store.vendor import vendor, vendored_sources
from tests.support.locks import small_lock, standalone_lock
from tests.support.pythons import RELEASE, file_name, tiny_archive, write_list


@pytest.fixture(name="folder")
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configured folder with two builds of 3.12 and a list."""
    folder = tmp_path / "pythons"
    for version in ("3.12.7", "3.12.8"):
        tiny_archive(folder / RELEASE / file_name(version), **{f"share/{version}": b""})
    write_list(folder)
    monkeypatch.delenv(UV_VARIABLE, raising=False)
    monkeypatch.setenv(VARIABLE, f"file://{folder}")
    return folder


def resolved(python: str, store: Store, old: locks.Lock | None = None, *, upgrade: bool = False) -> locks.Python:
    spec = parse_spec(f"name: t\npython: {python}\n")
    return lock_python(spec, old, store, Silent(), upgrade=upgrade)[0]


@pytest.mark.parametrize("line", ["", "python: 3.11\n"])
def test_the_systems_own_python_stays(line: str, tmp_path: Path) -> None:
    """Where the release has what is asked for, nothing is fetched and the lock is as before."""
    python, notes = lock_python(parse_spec(f"name: t\n{line}"), None, Store(tmp_path), Silent(), upgrade=False)
    assert (python, notes) == (small_lock().python, ())


@pytest.mark.parametrize(("python", "version"), [("3.12", "3.12.8"), ("3.12.7", "3.12.7")])
def test_another_python_is_a_build(folder: Path, tmp_path: Path, python: str, version: str) -> None:
    """The newest of a feature release, or exactly the release; its bytes are in the store."""
    store = Store(tmp_path / "store")
    found = resolved(python, store)
    archive = folder / RELEASE / file_name(version)
    assert found == standalone_lock(small_lock(), archive, version).python
    assert found.build is not None
    assert store.path(found.build.sha256).read_bytes() == archive.read_bytes()


def test_a_locked_build_stays_until_it_is_moved(folder: Path, tmp_path: Path) -> None:
    """A newer build moves nothing by itself; an upgrade does."""
    old = standalone_lock(small_lock(), folder / RELEASE / file_name("3.12.7"))
    assert resolved("3.12", Store(tmp_path / "a"), old) == old.python
    moved = resolved("3.12", Store(tmp_path / "b"), old, upgrade=True)
    assert moved.build is not None
    assert moved.build.version == "3.12.8"


def test_an_archive_with_other_bytes_than_listed_is_refused(folder: Path, tmp_path: Path) -> None:
    """Both digests are named, and nothing is stored."""
    archive = folder / RELEASE / file_name("3.12.8")
    archive.write_bytes(archive.read_bytes() + b"\0")
    store = Store(tmp_path / "store")
    with pytest.raises(IntegrityError, match=r"has other bytes than its list states\n  expected  sha256 .*\n  found "):
        resolved("3.12", store)
    assert not store.has(sha256_file(archive))


def test_a_digest_that_nobody_states_is_reported(folder: Path, tmp_path: Path) -> None:
    """The lock then has the digest of what came, and the note says where from."""
    listed = folder / "pythons.toml"
    listed.write_text(re.sub(r', sha256 = "\w+"', "", listed.read_text()))
    spec = parse_spec("name: t\npython: 3.12\n")
    python, (note,) = lock_python(spec, None, Store(tmp_path / "store"), Silent(), upgrade=False)
    assert note.startswith(f"no list states a SHA-256 of {file_name('3.12.8')}: ")
    assert str(folder) in note
    assert python.build is not None


def test_the_archive_is_one_of_the_locks_files(folder: Path, tmp_path: Path) -> None:
    """Fetch, vendor folders, bundles and garbage collection know it, and where it may be."""
    archive = folder / RELEASE / file_name("3.12.7")
    lock = standalone_lock(small_lock(), archive)
    assert lock.python.build is not None
    sha256 = lock.python.build.sha256
    assert [(item.name, item.sha256) for item in lock_items(lock)] == [(archive.name, sha256)]
    assert str(archive) in standalone_sources(lock, {sha256})[sha256]
    assert standalone_sources(lock, set()) == {}
    store = Store(tmp_path / "store")
    store.add_file(archive, sha256)
    vendor(lock, store, tmp_path / "vendor", Silent())
    assert vendored_sources(lock, tmp_path / "vendor") == {sha256: (str(tmp_path / f"vendor/python/{archive.name}"),)}
