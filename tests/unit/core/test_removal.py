"""Removal of folders that a program could write."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envbuild.core.removal import remove_held, remove_tree
from tests.support.races import changing


def fill(folder: Path) -> Path:
    """Make a small tree."""
    (folder / "sub/deeper").mkdir(parents=True)
    for name in ("a", "sub/b", "sub/deeper/c"):
        (folder / name).write_text("mine")
    return folder


def test_all_of_it_goes(tmp_path: Path) -> None:
    """Files, links, pipes, folders that are closed to their owner; absence and a file are fine too."""
    tree, outside = fill(tmp_path / "tree"), fill(tmp_path / "outside")
    (tree / "link").symlink_to(outside)
    os.mkfifo(tree / "pipe")
    (tree / "sub/deeper").chmod(0)
    (tree / "sub").chmod(0o500)
    assert remove_tree(tree)
    assert remove_tree(tree)
    assert not tree.exists()
    (tmp_path / "top").symlink_to(outside)
    assert remove_tree(tmp_path / "top")
    assert sorted(path.name for path in outside.rglob("*")) == ["a", "b", "c", "deeper", "sub"]
    assert remove_tree(tmp_path / "none" / "such")


def test_depth_does_not_matter(tmp_path: Path) -> None:
    """A program can nest folders deeper than paths, descriptors and Python's stack reach."""
    top = tmp_path / "deep"
    top.mkdir()
    folder = os.open(top, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("a" * 200, dir_fd=folder)
        below = os.open("a" * 200, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    assert remove_tree(top)
    assert not top.exists()


def test_nothing_outside_goes_while_names_change(tmp_path: Path) -> None:
    """A folder that becomes a link between two looks at it: what the link leads to stays, its permissions too."""
    outside = fill(tmp_path / "outside")
    outside.chmod(0o500)
    for number in range(200):
        tree = fill(tmp_path / str(number))
        (tree / "link").symlink_to(outside)
        with changing(tree / "sub", tree / "link"):
            remove_tree(tree)
        assert remove_tree(tree)
    assert outside.stat().st_mode & 0o777 == 0o500
    assert sorted(path.name for path in outside.rglob("*")) == ["a", "b", "c", "deeper", "sub"]


@pytest.fixture
def renaming(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[str]]:
    """Have files whose names begin with ``lock`` act as on FUSE while a descriptor is open; gives what was unlinked."""
    unlink, close = os.unlink, os.close
    held: set[int] = set()
    seen: list[str] = []

    def hidden(name: Any, *, dir_fd: int | None = None) -> None:
        seen.append(name)
        if held and str(name).startswith(("lock", ".fuse_hidden")):
            os.rename(name, f".fuse_hidden{len(seen):016x}", src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
        else:
            unlink(name, dir_fd=dir_fd)

    def closed(descriptor: int) -> None:
        held.discard(descriptor)
        close(descriptor)

    def start(lock: int) -> list[str]:
        held.add(lock)
        monkeypatch.setattr("os.unlink", hidden)
        monkeypatch.setattr("os.close", closed)
        return seen

    return start


def test_a_file_that_is_open_where_it_gets_another_name(tmp_path: Path, renaming: Callable[[int], list[str]]) -> None:
    """Each name that is removed becomes another one: and the folder goes when the file is closed."""
    tree = fill(tmp_path / "tree")
    (tree / "lock").touch()
    (tree / ".fuse_hidden1").touch()
    lock = os.open(tree / "lock", os.O_RDONLY)
    seen = renaming(lock)
    assert not remove_tree(tree)
    assert len(seen) < 20
    assert [path.name[:12] for path in tree.iterdir()] == 2 * [".fuse_hidden"], "all else is gone"
    assert remove_held(tree, lock)
    assert not tree.exists()
