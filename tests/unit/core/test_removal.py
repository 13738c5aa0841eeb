"""Removal of folders that a program could write."""

from __future__ import annotations

import os
from pathlib import Path

from envbuild.core.removal import remove_tree
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
