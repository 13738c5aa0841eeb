"""Kept layers: trusted while the machine runs, read again after a restart."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from envbuild.core.blob import FileBlob
from envbuild.core.fs import boot_id
from envbuild.engine.local.trees import Trees
from envbuild.errors import BuildError, EnvbuildError, UsageError
from envbuild.image import layer_cache
from envbuild.image.layer_cache import TAR, Layers, make_layer
from envbuild.image.tar.layer import Layer
from envbuild.store.marker import TAG
from envbuild.store.objects import Store
from tests.support.steps import write_os_layer

KEY = "a" * 64


def make(folder: Path) -> Layer:
    """Write a tiny layer."""
    return write_os_layer(folder / TAR)


def forbidden(folder: Path) -> Layer:
    """Fail: the layer is there."""
    raise AssertionError(folder)


def test_a_layer_is_made_once(tmp_path: Path) -> None:
    """The second build gets the first one's file."""
    store = Store(tmp_path)
    assert Layers(store, "boot").find(KEY) is None
    made = make_layer(store, KEY, "boot", make)
    assert make_layer(store, KEY, "boot", forbidden) == made
    assert Layers(store, "boot").find(KEY) == made
    assert made.path.stat().st_size == made.size
    assert made.path.stat().st_mode & 0o222 == 0


def test_a_damaged_layer_is_found_after_a_restart(tmp_path: Path) -> None:
    """Layers are not synced, so a power cut may leave one of the right size and wrong bytes."""
    store = Store(tmp_path)
    made = make_layer(store, KEY, "before", make)
    assert Layers(store, "after").find(KEY) == made
    made.path.chmod(0o644)
    made.path.write_bytes(bytes(made.size))
    assert Layers(store, "after").find(KEY) is not None
    assert Layers(store, "later").find(KEY) is None
    assert make_layer(store, KEY, "later", make) == made


def test_a_cut_layer_is_made_again(tmp_path: Path) -> None:
    """A layer of another size than it was made with counts as absent at once."""
    store = Store(tmp_path)
    made = make_layer(store, KEY, "boot", make)
    os.truncate(made.path, 512)
    assert Layers(store, "boot").find(KEY) is None
    assert make_layer(store, KEY, "boot", make) == made


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    """It is reported as what it is, and the next build starts afresh."""

    def full(folder: Path) -> Layer:
        (folder / TAR).write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    store = Store(tmp_path)
    with pytest.raises(BuildError) as caught:
        make_layer(store, KEY, "boot", full)
    assert caught.value.message == f"the store {tmp_path} has no space left"
    assert Layers(store, "boot").find(KEY) is None
    left = [path for path in tmp_path.rglob("*") if path.is_file() and path.parent.name != "leases"]
    assert left == [tmp_path / TAG]


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.EROFS, UsageError), (errno.EACCES, UsageError), (errno.ENOSPC, BuildError)]
)
def test_a_tar_that_cannot_be_written_is_the_stores_fault(
    number: int, kind: type[EnvbuildError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For Docker a tar is made from a tree: in a store that may not be written that is exit code 2, as elsewhere."""

    def refuse(path: Path, **options: object) -> None:
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(layer_cache, "atomic_file", refuse)
    blob = FileBlob(digest=KEY, size=1, path=tmp_path / "layer.tar")
    trees = Trees(tmp_path / "trees", lambda diff_id: None, "boot")
    with pytest.raises(kind, match=f"^cannot make {blob.path} from its tree: {os.strerror(number)}$"):
        Layers(Store(tmp_path / "store"), "boot", trees).tar(blob)


def test_the_boot_is_known() -> None:
    """Linux names each run of the machine with 36 characters."""
    assert len(boot_id()) == 36
