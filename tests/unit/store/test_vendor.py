"""Vendored folders: everything of a lock, carried by hand."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from envbuild.core.progress import Silent
from envbuild.errors import IntegrityError, UsageError
from envbuild.lockfile.model import Lock, Os, load
from envbuild.net.config import NetworkConfig
from envbuild.store.fetch import fetch, lock_items
from envbuild.store.objects import Store
from envbuild.store.vendor import Vendored, vendor, vendored_sources
from tests.support.locks import small_lock

WHEEL = "xx-1.0-py3-none-any.whl"


@pytest.fixture
def lock() -> Lock:
    return small_lock({WHEEL: b"wheel"}, {"yy_1.0_amd64.deb": b"deb"})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "store")
    store.add_bytes(b"wheel")
    store.add_bytes(b"deb")
    return store


def test_a_vendored_folder_holds_everything_and_serves_an_empty_store(lock: Lock, store: Store, tmp_path: Path) -> None:
    """Files are where the lock has them, and fill another store without a network."""
    folder = tmp_path / "vendored"
    assert vendor(lock, store, folder, Silent()) == Vendored(written=2, kept=0, bytes=8)
    assert (folder / "wheels" / WHEEL).read_bytes() == b"wheel"
    assert (folder / "debs/yy_1.0_amd64.deb").read_bytes() == b"deb"
    assert load(folder / "pylock.t.toml") == lock
    other = Store(tmp_path / "other")
    items = lock_items(lock, vendored_sources(lock, folder))
    assert fetch(items, other, Silent(), NetworkConfig(offline=True)).fetched == 2


def test_a_base_image_is_vendored_too(lock: Lock, store: Store, tmp_path: Path) -> None:
    """The file system of a base image is in the folder, so that no registry is needed."""
    rootfs = store.add_bytes(b"file system")
    system = Os(
        release="debian-12",
        architecture="amd64",
        image=f"base@sha256:{'a' * 64}",
        image_rootfs=rootfs,
        image_size=11,
    )
    based = msgspec.structs.replace(lock, os=system)
    folder = tmp_path / "vendored"
    assert vendor(based, store, folder, Silent()) == Vendored(written=2, kept=0, bytes=16)
    assert (folder / "base.tar").read_bytes() == b"file system"
    items = lock_items(based, vendored_sources(based, folder))
    assert fetch(items, Store(tmp_path / "other"), Silent(), NetworkConfig(offline=True)).fetched == 2


def test_right_files_are_kept_and_wrong_ones_replaced(lock: Lock, store: Store, tmp_path: Path) -> None:
    """Vendoring again writes only what is wrong, and files of the user's own stay."""
    folder = tmp_path / "vendored"
    vendor(lock, store, folder, Silent())
    (folder / "wheels" / WHEEL).write_bytes(b"WHEEL")
    (folder / "note").write_text("mine")
    assert vendor(lock, store, folder, Silent()) == Vendored(written=1, kept=1, bytes=5)
    assert (folder / "wheels" / WHEEL).read_bytes() == b"wheel"
    assert (folder / "note").read_text() == "mine"


def test_editing_a_vendored_file_does_not_change_the_store(lock: Lock, store: Store, tmp_path: Path) -> None:
    """Vendored files are copies, never links."""
    vendor(lock, store, tmp_path / "vendored", Silent())
    for path in (tmp_path / "vendored/wheels").iterdir():
        path.write_bytes(b"edited")
    assert all(store.verify(entry.sha256) for entry in lock_items(lock))


def test_missing_files_are_all_named(lock: Lock, tmp_path: Path) -> None:
    """What the store lacks is listed, and nothing is written."""
    store = Store(tmp_path / "empty")
    with pytest.raises(IntegrityError) as caught:
        vendor(lock, store, tmp_path / "vendored", Silent())
    assert caught.value.message == f"2 files are not in the store {store.root}\n  {WHEEL}\n  yy_1.0_amd64.deb"
    assert caught.value.hint == "run: envbuild fetch"
    assert not (tmp_path / "vendored").exists()


def test_a_damaged_object_is_not_handed_on(lock: Lock, store: Store, tmp_path: Path) -> None:
    """Bytes that changed in the store never reach a vendored folder."""
    sha256 = lock.packages[0].wheel.sha256
    store.path(sha256).chmod(0o644)
    store.path(sha256).write_bytes(b"WHEEL")
    with pytest.raises(IntegrityError) as caught:
        vendor(lock, store, tmp_path / "vendored", Silent())
    assert caught.value.message == f"{WHEEL} was damaged in the store and is removed from it"
    assert not (tmp_path / "vendored/wheels" / WHEEL).exists()


def test_a_folder_that_cannot_be_written_is_reported(lock: Lock, store: Store, tmp_path: Path) -> None:
    """A file where the folder should be is an error that names it."""
    (tmp_path / "file").touch()
    with pytest.raises(UsageError) as caught:
        vendor(lock, store, tmp_path / "file", Silent())
    assert caught.value.message == f"cannot write {tmp_path}/file/debs/yy_1.0_amd64.deb: Not a directory"
