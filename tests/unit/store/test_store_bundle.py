"""A folder that carries files from store to store, and what its manifests contain."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from envbuild.core.blob import blob_of
from envbuild.core.digest import canonical_json, sha256_bytes
from envbuild.core.progress import Silent
from envbuild.errors import IntegrityError
from envbuild.lockfile.model import Lock, dumps, lock_digest
from envbuild.store import leases
from envbuild.store.bundle import (
    ARTIFACT,
    LOCK,
    Artifact,
    BundleFolder,
    annotated,
    artifact_of,
    files_of,
    read_artifact,
    tag_of,
    title_of,
    without_artifacts,
)
from envbuild.store.objects import Store
from tests.support.locks import small_lock

WHEELS = {"a-1.0-py3-none-any.whl": b"wheel a", "b-1.0-py3-none-any.whl": b"wheel b"}


@pytest.fixture(name="store")
def _store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "store")
    for data in (*WHEELS.values(), b"deb"):
        store.add_bytes(data)
    yield store
    leases.end(store.root)


@pytest.fixture(name="lock")
def _lock() -> Lock:
    return small_lock(WHEELS, {"hello_1_all.deb": b"deb"}, name="demo")


def test_a_manifest_lists_the_lock_and_its_files(store: Store, lock: Lock) -> None:
    """What is read back is what was written; equal locks give equal bytes; other manifests are not taken for it."""
    artifact = artifact_of(lock, store, [blob_of(b"{}", "x/y", annotated("contents.json", "k"))])
    assert tag_of(lock) == f"demo-{lock_digest(lock)[:12]}"
    assert read_artifact(artifact.manifest, "x") == Artifact(
        lock=blob_of(dumps(lock), LOCK, annotated("pylock.demo.toml")),
        blobs=(*files_of(lock), blob_of(b"{}", "x/y", annotated("contents.json", "k"))),
    )
    assert artifact.manifest == artifact_of(lock, store, artifact.blobs[-1:]).manifest
    assert [title_of(blob) for blob in files_of(lock)] == ["hello_1_all.deb", *WHEELS]
    assert read_artifact(b'{"artifactType":"other"}', "x") is None


@pytest.mark.parametrize(
    "change",
    [b"{", b'{"layers":[]}', b'{"config":{"digest":"sha256:../x","size":1},"layers":[]}', b'{"config":7,"layers":7}'],
)
def test_a_damaged_manifest_is_refused(change: bytes) -> None:
    """Nothing in a manifest becomes a path or a size unchecked."""
    data = (
        change.replace(b"{", b'{"artifactType":"application/vnd.envbuild.store.v1",', 1) if b":" in change else change
    )
    with pytest.raises(IntegrityError) as caught:
        read_artifact(data, "place: tag")
    assert caught.value.message == "place: tag is no sound manifest of a store's files"


def test_files_that_are_not_in_the_store_are_named(tmp_path: Path, lock: Lock) -> None:
    """All of them, before anything is copied."""
    store = Store(tmp_path / "empty")
    with pytest.raises(IntegrityError) as caught:
        artifact_of(lock, store)
    names = "\n  ".join(sorted([*WHEELS, "hello_1_all.deb"]))
    assert caught.value.message == f"3 files are not in the store {store.root}\n  {names}"


def test_a_folder_is_an_oci_layout_and_takes_what_it_lacks(store: Store, lock: Lock, tmp_path: Path) -> None:
    """Blobs are under their digests, the index names each lock once, and a second push writes nothing."""
    folder, artifact = BundleFolder(tmp_path / "carry"), artifact_of(lock, store)
    moved = folder.push(artifact, tag_of(lock), Silent())
    assert (moved.sent, moved.held) == (5, 0)
    again = folder.push(artifact, tag_of(lock), Silent())
    assert (again.sent, again.bytes, again.held) == (0, 0, 5)
    assert {path.name: sha256_bytes(path.read_bytes()) for path in (folder.root / "blobs/sha256").iterdir()} == {
        name: name for name in [blob.digest for blob in (*artifact.blobs, artifact.lock)] + [
            sha256_bytes(artifact.manifest)
        ]
    }  # fmt: skip
    assert json.loads((folder.root / "oci-layout").read_bytes()) == {"imageLayoutVersion": "1.0.0"}
    other = small_lock({"a-1.0-py3-none-any.whl": b"wheel a"}, name="other")
    assert folder.push(artifact_of(other, store), tag_of(other), Silent()).sent == 2
    assert folder.tags() == sorted([tag_of(lock), tag_of(other)])
    assert folder.manifest(tag_of(lock)) == artifact.manifest
    assert folder.manifest("none") is None


def test_damage_does_not_leave_the_store(store: Store, lock: Lock, tmp_path: Path) -> None:
    """A file with other bytes is refused by name, and nothing under its digest appears; nor does the lock's name."""
    sha256 = sha256_bytes(b"wheel a")
    store.path(sha256).chmod(0o644)
    store.path(sha256).write_bytes(b"wheel x")
    folder = BundleFolder(tmp_path / "carry")
    with pytest.raises(IntegrityError) as caught:
        folder.push(artifact_of(lock, store), tag_of(lock), Silent())
    found = sha256_bytes(b"wheel x")
    assert caught.value.message == (
        f"a-1.0-py3-none-any.whl is damaged in the store: expected sha256 {sha256}, found {found}"
    )
    assert not folder.path(sha256).exists()
    assert folder.tags() == []


def test_a_damaged_folder_is_refused(store: Store, lock: Lock, tmp_path: Path) -> None:
    """Neither an index that is none nor a manifest with other bytes is used."""
    folder = BundleFolder(tmp_path / "carry")
    artifact = artifact_of(lock, store)
    folder.push(artifact, tag_of(lock), Silent())
    folder.path(sha256_bytes(artifact.manifest)).write_bytes(b"{}")
    with pytest.raises(IntegrityError, match=r"^.*/carry is damaged: sha256 "):
        folder.manifest(tag_of(lock))
    (folder.root / "index.json").write_bytes(b"[]")
    with pytest.raises(IntegrityError, match=r"index.json is no index of an OCI image layout$"):
        folder.tags()


def test_a_hostile_folder_is_refused_at_once(store: Store, lock: Lock, tmp_path: Path) -> None:
    """Pipes are not waited for, entries of other shapes are passed over, an index without end is not read."""
    folder = BundleFolder(tmp_path / "carry")
    artifact = artifact_of(lock, store)
    folder.push(artifact, tag_of(lock), Silent())
    odd: list[object] = [7, {"annotations": [1]}, {"annotations": "x", "artifactType": ARTIFACT}]
    for index in ({"manifests": odd}, {"manifests": {"a": 1}}, {"manifests": 3}):
        (folder.root / "index.json").write_bytes(canonical_json(index))
        assert folder.manifest(tag_of(lock)) is None
        assert folder.tags() == []
    with (folder.root / "index.json").open("r+b") as stream:
        stream.truncate(1 << 40)  # sparse: no disk has it
    with pytest.raises(IntegrityError, match=r"index.json is no index of an OCI image layout$"):
        folder.tags()
    (folder.root / "index.json").unlink()
    os.mkfifo(folder.root / "index.json")
    with pytest.raises(IntegrityError, match=r"index.json is no index of an OCI image layout$"):
        folder.tags()
    digest = sha256_bytes(artifact.manifest)
    folder.path(digest).unlink()
    os.mkfifo(folder.path(digest))
    with pytest.raises(IntegrityError, match=r"^.*/carry is damaged: sha256 "):
        folder.read(digest, 1 << 20)


def test_an_artifact_is_no_image() -> None:
    """``push --bundle`` adds a tag to the image's repository; the image is still the only one there."""
    assert without_artifacts(["dfdea813cb2d", "grid-dfdea813cb2d"]) == ["dfdea813cb2d"]
    assert without_artifacts(["v1-dfdea813cb2d"]) == ["v1-dfdea813cb2d"]
    assert without_artifacts([]) == []
