"""Images as one folder: what is seen of their layers, what a run has of its own, and what damage is found."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from envbuild.engine import overlay
from envbuild.engine.local import linked
from envbuild.engine.local.engine import LocalEngine
from envbuild.engine.local.images import StoredImage
from envbuild.engine.local.linked import FoundTree, LinkedTrees
from envbuild.engine.local.trees import Tree, Trees
from envbuild.image.tar.layer import Entry, LayerWriter
from tests.unit.engine.test_local_trees import BOOT, Folder, quiet

IMAGE = "1" * 64
BIG = b"x" * (1 << 20)


def layer(path: Path, entries: dict[str, bytes | int | str]) -> Path:
    """Write a layer: content of files, modes of folders, targets of links."""
    with path.open("wb", buffering=0) as stream, LayerWriter(stream) as writer:
        for name, each in sorted(entries.items(), key=lambda item: item[0].encode()):
            if isinstance(each, bytes):
                writer.add(Entry(path=name, kind="file", mode=0o644, size=len(each)), each)
            elif isinstance(each, int):
                writer.add(Entry(path=name, kind="dir", mode=each))
            else:
                writer.add(Entry(path=name, kind="symlink", mode=0o777, target=each))
    return path


@pytest.fixture(name="made")
def _made(tmp_path: Path) -> FoundTree:
    """An image of two layers, the upper one of which has other kinds and modes for some names."""
    from envbuild.core.digest import sha256_file

    lower = {
        "etc": 0o755, "etc/conf": b"low", "etc/was-file": b"file", "etc/was-folder": 0o755,
        "etc/was-folder/hidden": b"x", "usr": 0o755, "usr/lib": 0o755, "usr/lib/big": BIG + b"l",
        "usr/lib/kept": b"kept", "usr/lib/spool": 0o1777, "bin": "usr/lib",
    }  # fmt: skip
    upper = {
        "etc": 0o700, "etc/conf": b"high", "etc/was-file": 0o755, "etc/was-file/new": b"n", "etc/was-folder": b"file",
        "usr": 0o755, "usr/lib": 0o755, "usr/lib/big": BIG + b"u",
    }  # fmt: skip
    trees = Trees(tmp_path / "trees", lambda diff_id: None, BOOT)
    tars = [layer(tmp_path / "lower.tar", lower), layer(tmp_path / "upper.tar", upper)]
    layers = [sha256_file(tar) for tar in tars]
    found: list[Tree] = [trees.make(digest, tar, quiet) for digest, tar in zip(layers, tars, strict=True)]
    folder = tmp_path / "linked"
    folder.mkdir()
    return LinkedTrees(folder, lambda image: None, BOOT).make(IMAGE, layers, found)


def test_what_is_seen_of_two_layers(made: FoundTree) -> None:
    """The upper layer's file, folder and mode win; files are the layers' own, no byte is there twice."""
    tree = made.path
    assert (tree / "etc/conf").read_bytes() == b"high"
    assert (tree / "etc").stat().st_mode & 0o777 == 0o700
    assert [path.name for path in (tree / "etc/was-file").iterdir()] == ["new"]
    assert (tree / "etc/was-folder").read_bytes() == b"file"
    assert (tree / "usr/lib/kept").read_bytes() == b"kept"
    assert (tree / "bin").readlink() == Path("usr/lib")
    assert all(path.stat().st_nlink == 2 for path in tree.rglob("*") if path.is_file() and not path.is_symlink())
    assert linked.is_sound(tree.parent)


def test_what_a_run_has_of_its_own(made: FoundTree, tmp_path: Path) -> None:
    """Small folders are copies and can be written; large ones are places; all that a program changed is found."""
    own = tmp_path / "own"
    own.mkdir()
    assert made.known.shared == ("/usr/lib",)
    assert made.known.private == ("/usr/lib/spool",)
    linked.prepare(made, own)
    assert linked.changes(made, own) == {}
    assert not (own / "etc/conf").samefile(made.path / "etc/conf")
    assert [path.name for path in (own / "usr/lib").iterdir()] == ["spool"]
    (own / "etc/conf").write_bytes(b"HIGH")
    (own / "etc/was-file/new").unlink()
    (own / "workspace").mkdir()
    (own / "usr/lib/spool/left").touch()
    (own / "bin").unlink()
    (own / "bin").mkdir()
    (own / "bin/tool").touch()
    assert linked.changes(made, own) == {
        "/etc/conf": "changed",
        "/etc/was-file/new": "deleted",
        "/workspace": "created",
        "/usr/lib/spool/left": "created",
        "/bin": "changed",
        "/bin/tool": "created",
    }
    assert linked.is_sound(made.path.parent)


@pytest.mark.parametrize("how", ["replaced", "added", "removed", "other layer"])
def test_what_somebody_changed_is_linked_anew(how: str, made: FoundTree, tmp_path: Path) -> None:
    """Files of the linked tree itself, and those of a layer that was changed and made again for another image."""
    engine = LocalEngine(Folder(tmp_path), BOOT)
    image = StoredImage(
        config=IMAGE, manifest="", tag="t", layers=made.known.layers, architecture="amd64", environment={}
    )
    (tmp_path / "images").mkdir(exist_ok=True)
    (tmp_path / f"images/{IMAGE}.json").write_bytes(msgspec.json.encode(image))
    assert engine.remove_changed(f"sha256:{IMAGE}") == ()
    file = made.path / "usr/lib/kept"
    if how == "replaced":
        file.unlink()
        file.write_bytes(b"KEPT")
    elif how == "added":
        (made.path / "usr/lib/new").touch()
    elif how == "removed":
        file.unlink()
    else:
        file.write_bytes(b"KEPT")
        trees = Trees(tmp_path / "trees", lambda diff_id: None, BOOT)
        lower = made.known.layers[0]
        assert trees.remove_changed(lower)
        trees.make(lower, tmp_path / "lower.tar", quiet)
    assert engine.remove_changed(f"sha256:{IMAGE}") == (IMAGE,)
    assert not made.path.exists()


def test_a_folder_that_cannot_be_listed_hides_nothing_else(
    made: FoundTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All else is found, what was in it is not said to be deleted, and without a taker it is an error."""
    own = tmp_path / "own"
    own.mkdir()
    linked.prepare(made, own)
    (own / "etc").chmod(0)
    (own / "new").mkdir()
    (own / "new/w").touch()
    scandir = os.scandir

    def closed(folder: str) -> Any:
        if str(folder).endswith("own/etc"):
            raise PermissionError(13, "Permission denied", folder)
        return scandir(folder)

    monkeypatch.setattr(overlay.os, "scandir", closed)
    missed: list[OSError] = []
    assert linked.changes(made, own, missed.append) == {"/etc": "changed", "/new": "created", "/new/w": "created"}
    assert [Path(str(error.filename)).name for error in missed] == ["etc"]
    with pytest.raises(PermissionError):
        linked.changes(made, own)


@pytest.mark.parametrize("harm", ["content", "added", "missing", "mode", "layer"])
def test_damage_is_found(made: FoundTree, harm: str) -> None:
    """Other content, an added or missing file, another mode, a layer that is gone."""
    file = made.path / "usr/lib/kept"
    if harm == "content":
        file.write_bytes(b"KEPT")
    elif harm == "added":
        file.with_name("new").touch()
    elif harm == "missing":
        file.unlink()
    elif harm == "mode":
        (made.path / "etc").chmod(0o755)
    else:
        (made.path.parents[2] / "trees" / made.known.layers[0]).rename(made.path.parents[2] / "elsewhere")
    assert not linked.is_sound(made.path.parent)


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="there is no second file system")
def test_where_there_are_no_hard_links(tmp_path: Path) -> None:
    """From another file system files are copied, with mode and time."""
    import tempfile

    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        source = Path(name) / "file"
        source.write_bytes(b"content")
        source.chmod(0o640)
        os.utime(source, (5, 5))
        linked._link(str(source), str(tmp_path / "file"))
    status = (tmp_path / "file").stat()
    assert ((tmp_path / "file").read_bytes(), status.st_mode & 0o777, status.st_mtime) == (b"content", 0o640, 5)
