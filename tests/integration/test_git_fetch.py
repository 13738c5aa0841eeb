"""What git reads when a commit is fetched: the address in the requirement, no configuration around it, and no bomb."""

from __future__ import annotations

import resource
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from envbuild.errors import ResolveError
from envbuild.sources.git import _Git, fetch_commit
from tests.support.server import FileServer


@pytest.fixture(name="server")
def _server() -> Iterator[FileServer]:
    with FileServer() as server:
        yield server


def git(folder: Path, *arguments: str, data: str = "") -> str:
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    for who in ("AUTHOR", "COMMITTER"):
        environ |= {f"GIT_{who}_NAME": "t", f"GIT_{who}_EMAIL": "t@example.invalid"}
    command = ["git", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environ, check=True, capture_output=True, text=True, input=data
    ).stdout.strip()


def serve(server: FileServer, folder: Path, tree: str) -> str:
    """Commit a tree as ``main`` of a bare repository and serve it; returns its address."""
    commit = git(folder, "commit-tree", "-m", "x", tree)
    git(folder, "update-ref", "refs/heads/main", commit)
    git(folder, "update-server-info")
    server.add_tree(folder, f"{folder.name}")
    return f"{server.url}/{folder.name}"


@pytest.fixture(name="bare")
def _bare(tmp_path: Path) -> Path:
    folder = tmp_path / "bare.git"
    folder.mkdir()
    git(folder, "init", "-q", "--bare", "-b", "main")
    return folder


def test_a_repository_around_the_temporary_folder_configures_nothing(
    server: FileServer, bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TMPDIR may be inside a project, whose ``.git/config`` could send git elsewhere or name a helper to run."""
    blob = git(bare, "hash-object", "-w", "--stdin", data="hello")
    url = serve(server, bare, git(bare, "mktree", data=f"100644 blob {blob}\tx.py\n"))
    outer = tmp_path / "outer"
    (outer / "tmp").mkdir(parents=True)
    git(outer, "init", "-q")
    git(outer, "config", f"url.{server.url}/nowhere/.insteadOf", f"{server.url}/")
    monkeypatch.setattr(tempfile, "tempdir", str(outer / "tmp"))
    assert [(file.path, file.data) for file in fetch_commit(url, "main").files] == [("x.py", b"hello")]


@pytest.mark.parametrize("leaf", ["file", "nothing"])
def test_a_tree_of_trees_without_end_is_refused(
    server: FileServer, bare: Path, leaf: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten trees that each name the one below ten times are 10¹⁰ files, or as many empty folders."""
    blob = git(bare, "hash-object", "-w", "--stdin", data="x")
    tree = git(bare, "mktree", data=f"100644 blob {blob}\tx\n" if leaf == "file" else "")
    for _ in range(10):
        tree = git(bare, "mktree", data="".join(f"040000 tree {tree}\t{name}\n" for name in "abcdefghij"))
    url = serve(server, bare, tree)
    monkeypatch.setattr("envbuild.sources.git._ENTRIES", 2000)  # 200,000 take half a minute on a busy machine
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ResolveError, match="has more than 2000 files and folders"):
        fetch_commit(url, "main")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB


@pytest.mark.parametrize(("url", "allowed"), [("https://h.invalid/x", "https"), ("http://h.invalid/x", "https:http")])
def test_a_redirect_never_leads_from_encryption(tmp_path: Path, url: str, allowed: str) -> None:
    """git follows a redirect to the protocols that it is allowed, and refuses others."""
    assert _Git(tmp_path / "x", url)._environment()["GIT_ALLOW_PROTOCOL"] == allowed
