"""Projects in folders and git repositories: built in the sandbox, pinned, rebuilt after a change, edited in place."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from envbuild.lockfile import model as locks
from tests.support.cli import Project
from tests.support.server import FileServer
from tests.support.sources import make_project

pytestmark = [pytest.mark.engine, pytest.mark.network, pytest.mark.both_engines]

_SCM = """\
import os
if "SETUPTOOLS_SCM_PRETEND_VERSION" not in os.environ:
    raise LookupError("setuptools-scm was unable to detect version for the folder")
"""
"""What setuptools-scm does without a repository, so that no index has to have it."""


@pytest.fixture(scope="module", name="store")
def _store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store for all tests of this file, so that the system that sources are built in is fetched once."""
    return tmp_path_factory.mktemp("projects") / "store"


@pytest.fixture(name="project")
def _project(store: Path, tmp_path: Path) -> Project:
    proxies = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    return Project(folder=tmp_path / "project", store=store, environ=proxies)


@pytest.fixture(name="server")
def _server() -> Iterator[FileServer]:
    with FileServer() as server:
        yield server


def _spec(project: Project, requirements: str, sources: str = "") -> None:
    allowed = f"sources: {sources}\n" if sources else ""
    project.write("spec.yaml", f"name: clitest\nrequirements: {requirements}\n{allowed}")


def _lock(project: Project) -> locks.Lock:
    return locks.load(project.folder / "pylock.clitest.toml")


def test_a_folder_is_built_where_the_spec_allows_it_and_again_after_a_change(project: Project) -> None:
    """Without permission nothing runs; data is no part of the project; a changed file names the folder as changed."""
    make_project(project.folder / "lib", "lib-one", "1.5")
    _spec(project, "[./lib]")
    refused = project("lock")
    assert refused.code == 12
    assert "sources: [lib-one]" in refused.err
    _spec(project, "[./lib]", "[lib-one]")
    project.must("lock")
    first = _lock(project)
    (source,) = first.sources
    assert source.origin == locks.Origin(path="lib")
    project.write("lib/results/weights.bin", "1")
    assert project("lock", "--check").code == 0
    project.write("lib/src/lib_one/__init__.py", "ANSWER = 43\n")
    stale = project("lock", "--check")
    assert stale.code == 11
    assert "lib/** changed" in stale.err
    project.must("lock")
    assert _lock(project).packages[0].wheel.sha256 != first.packages[0].wheel.sha256


def test_an_editable_project_runs_the_files_as_they_are_and_the_record_has_them(project: Project) -> None:
    """``-e .``: an edit needs no new lock; the run's record names the digest of the module that it loaded."""
    make_project(project.folder, "lib-one", "1.5")
    _spec(project, '["-e ."]', "[lib-one]")
    project.write("train.py", "import lib_one\nprint(lib_one.ANSWER, lib_one.__file__)\n")
    project.must("lock")
    assert project.must("run", "train.py").out == "42 /workspace/src/lib_one/__init__.py\n"
    project.write("src/lib_one/__init__.py", "ANSWER = 43\n")
    assert project.must("run", "train.py").out.startswith("43 ")
    digests = []
    for path in sorted((project.folder / ".envbuild" / "runs").glob("*/record.json")):
        record = json.loads(path.read_bytes())
        digests += [file["sha256"] for file in record["modules"] if file["path"] == "src/lib_one/__init__.py"]
    assert len(set(digests)) == 2


def test_a_branch_is_pinned_to_its_commit_until_it_is_upgraded(
    project: Project, server: FileServer, tmp_path: Path
) -> None:
    """A commit on the branch moves nothing until ``-P``; no hook, filter or attribute of the repository is obeyed."""
    work, bare = tmp_path / "work", tmp_path / "lib.git"
    make_project(work / "python", "lib-one", "1.5")
    (work / ".gitattributes").write_text("*.py filter=evil export-ignore\n")
    _git(work, "init", "-q", "-b", "main")
    first = _commit(work)
    _serve(server, work, bare)
    address = f"git+{server.url}/lib.git@main#subdirectory=python"
    _spec(project, f'["{address}"]', "[lib-one]")
    project.must("lock")
    (source,) = _lock(project).sources
    assert source.origin is not None
    assert (source.origin.commit, source.origin.ref) == (first, "main")
    assert server.url.rpartition("@")[2] in source.origin.git
    make_project(work / "python", "lib-one", "1.6")
    second = _commit(work)
    _serve(server, work, bare)
    project.must("lock")
    assert _lock(project).sources == (source,)
    project.must("lock", "--upgrade-package", "lib-one")
    (moved,) = _lock(project).sources
    assert moved.origin is not None
    assert moved.origin.commit == second
    assert _lock(project).packages[0].version == "1.6"


def test_a_version_from_git_is_that_of_the_tag(project: Project, server: FileServer, tmp_path: Path) -> None:
    """No build sees the repository; in a folder, where no tag states one, the message names the ways out."""
    work, bare = tmp_path / "work", tmp_path / "lib.git"
    make_project(work, "lib-one", "@V@")
    definition = (work / "pyproject.toml").read_text().replace('version = "@V@"', 'dynamic = ["version"]')
    (work / "pyproject.toml").write_text(definition)
    backend = (work / "own.py").read_text()
    (work / "own.py").write_text(
        f"{_SCM}exec({backend!r}.replace('@V@', os.environ['SETUPTOOLS_SCM_PRETEND_VERSION']))\n"
    )
    _git(work, "init", "-q", "-b", "main")
    _commit(work)
    _git(work, "tag", "v2.5")
    _serve(server, work, bare)
    _spec(project, f'["git+{server.url}/lib.git@v2.5"]', "[lib-one]")
    project.must("lock")
    assert _lock(project).packages[0].version == "2.5"
    for path in ("pyproject.toml", "own.py", "src/lib_one/__init__.py"):
        project.write(f"lib/{path}", (work / path).read_text())
    _spec(project, "[./lib]", "[lib-one]")
    refused = project("lock")
    assert refused.code == 14, refused.err
    assert "fallback_version" in refused.err


def _git(folder: Path, *arguments: str) -> str:
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    names = [f"{prefix}_{part}" for prefix in ("GIT_AUTHOR", "GIT_COMMITTER") for part in ("NAME", "EMAIL")]
    environ |= dict.fromkeys(names, "t@example.invalid")
    done = subprocess.run(["git", *arguments], cwd=folder, env=environ, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _commit(work: Path) -> str:
    _git(work, "add", "-A")
    _git(work, "commit", "-q", "-m", "x")
    return _git(work, "rev-parse", "HEAD")


def _serve(server: FileServer, work: Path, bare: Path) -> None:
    """Serve a repository over plain HTTP: its files as they are (git's "dumb" protocol)."""
    if not bare.exists():
        _git(work, "clone", "-q", "--bare", str(work), str(bare))
    _git(work, "push", "-q", "--tags", str(bare), "main")
    _git(bare, "update-server-info")
    server.add_tree(bare, "lib.git")
