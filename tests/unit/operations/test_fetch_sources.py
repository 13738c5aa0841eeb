"""Fetching a lock's files as a use case: where it looks first, what it reports, what it heals."""

from __future__ import annotations

from pathlib import Path

import pytest

from envbuild.errors import IntegrityError, UsageError
from envbuild.lockfile.model import PythonPackage, Wheel, dumps
from envbuild.operations import fetch
from envbuild.operations.events import NothingToFetch, Silent
from envbuild.resolve.debian.sources import AptConfig
from envbuild.store.objects import Store
from tests.support.events import Recorded
from tests.support.locks import small_lock
from tests.support.runtime import make_lock


def test_a_note_that_goes_meanwhile_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Notes of where wheels were are collected concurrently, also between a look and the reading."""
    names = ["a" * 64, "b" * 64, "c" * 64]
    wheels = [Wheel(name=f"{name[0]}-1-py3-none-any.whl", size=1, sha256=name) for name in names]
    packages = tuple(PythonPackage(name=wheel.name[0], version="1", wheel=wheel) for wheel in wheels)
    lock, store = make_lock(packages=packages), Store(tmp_path)
    folder = store.cache_dir("locations")
    (folder / names[0]).write_text("one\nother\n")
    (folder / names[1]).write_bytes(b"\xff")
    monkeypatch.setattr(Path, "is_file", lambda path: True)
    assert fetch._remembered(lock, store, {*names}) == {names[0]: ["one", "other"]}
    assert fetch._remembered(lock, store, {*names[1:]}) == {}


WHEEL = "a-1.0-py3-none-any.whl"


@pytest.fixture(name="complete")
def _complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lock whose only wheel is in the store."""
    monkeypatch.setenv("ENVBUILD_STORE", str(tmp_path / "store"))
    Store().add_bytes(b"wheel")
    path = tmp_path / "pylock.t.toml"
    path.write_bytes(dumps(small_lock({WHEEL: b"wheel"})))
    return path


def test_a_complete_store_is_reported_as_a_value(
    complete: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Programs get an event and a result, and no output: nothing was fetched, and one file was written to a folder."""
    reported = Recorded()
    result = fetch.fetch(complete, reported, vendor=tmp_path / "vendor")
    assert NothingToFetch() in reported.events
    assert (result.loaded.path, result.store, result.vendor) == (complete, Store().root, tmp_path / "vendor")
    assert result.vendored is not None
    assert (result.vendored.written, result.vendored.kept) == (1, 0)
    assert (tmp_path / "vendor" / "wheels" / WHEEL).read_bytes() == b"wheel"
    assert capsys.readouterr() == ("", "")


def test_a_source_that_is_no_folder_is_refused(complete: Path, tmp_path: Path) -> None:
    """Even if nothing is missing: on another machine something would be."""
    with pytest.raises(UsageError, match=r"there is no such folder$"):
        fetch.fetch(complete, Silent(), sources=[tmp_path / "gone"])


def test_corrupt_objects_are_removed_and_named(complete: Path) -> None:
    """A failure by a corrupt file names the file and heals the store; any other failure stays what it is."""
    store, lock = Store(), small_lock({WHEEL: b"wheel"})
    with pytest.raises(IntegrityError, match=r"^other$"), fetch.heal_corrupt_objects(lock, store, Silent()):
        raise IntegrityError("other", "")
    place = store.path(lock.packages[0].wheel.sha256)
    place.chmod(0o600)
    place.write_bytes(b"WHEEL")
    with pytest.raises(IntegrityError) as caught, fetch.heal_corrupt_objects(lock, store, Silent()):
        raise IntegrityError("other", "")
    assert caught.value.message == (
        f"1 file in the store {store.root} had other bytes than locked; removed\n"
        f"  {WHEEL}: expected sha256 {lock.packages[0].wheel.sha256}"
    )
    assert not place.exists()


def test_the_ways_out_name_a_snapshot_service_where_none_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only for missing Debian packages, and only if no such service is known and the lock is of no snapshot."""
    monkeypatch.delenv("ENVBUILD_DEBIAN_SNAPSHOT", raising=False)
    lock = small_lock({WHEEL: b"wheel"}, {"git_1_amd64.deb": b"deb"})
    debs = {package.sha256 for package in lock.os.packages}
    wheels = {package.wheel.sha256 for package in lock.packages}
    none, known = AptConfig(mirrors={}), AptConfig(mirrors={}, snapshot="http://snapshot.example.invalid")
    assert debs
    assert "ENVBUILD_DEBIAN_SNAPSHOT" in fetch.ways_out(lock, debs, none)
    for missing, apt in ((wheels, none), (debs, known)):
        assert "ENVBUILD_DEBIAN_SNAPSHOT" not in fetch.ways_out(lock, missing, apt)
        assert "store pull" in fetch.ways_out(lock, missing, apt)
