"""Git is not started where it would find no repository, and always where it may find one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from envbuild.record import repositories
from envbuild.record.repositories import may_be_in_repository


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder two levels deep; what is above the test's own folder is as if it were empty."""
    folder = tmp_path / "above" / "project"
    folder.mkdir(parents=True)
    real: Callable[[Path], bool] = repositories._may_exist
    monkeypatch.setattr(repositories, "_may_exist", lambda path: path.is_relative_to(tmp_path) and real(path))
    return folder


def test_a_folder_without_a_repository_above_it_is_in_none(project: Path) -> None:
    """Neither it nor one above it has what git looks for."""
    assert not may_be_in_repository(project)


@pytest.mark.parametrize("place", [".git", "../.git", "../../.git", "HEAD", "../HEAD"])
@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_whatever_git_looks_for_is_found(project: Path, place: str, kind: str) -> None:
    """A folder, a working tree's or submodule's file, a link wherever it leads, a repository without working tree."""
    path = project / place
    if kind == "file":
        path.write_text("gitdir: elsewhere")
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("nowhere")
    assert may_be_in_repository(project)


def test_a_link_is_looked_at_where_it_leads(project: Path, tmp_path: Path) -> None:
    """As git, which starts from the real path of its working directory."""
    (project.parent / ".git").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other/link").symlink_to(project)
    assert may_be_in_repository(tmp_path / "other/link")


def test_what_cannot_be_looked_at_may_be_a_repository(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git may run as the project's owner, who sees more than root does on a network's file system."""

    def refused(path: Path) -> os.stat_result:
        raise PermissionError(path)

    monkeypatch.setattr(repositories.os, "lstat", refused)
    assert may_be_in_repository(project)
    monkeypatch.undo()
    assert may_be_in_repository(project / "missing")
