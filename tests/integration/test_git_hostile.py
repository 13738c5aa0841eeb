"""A repository whose files make git run programs: envbuild reads its version, and nothing of it is run.

What writes such files: the program of an earlier run, a package that it imported, or the sender of the project.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from envbuild.record.git import changed_between, file_at, git_state

OWNER = 12345


class Repository:
    """A repository with one commit, a changed file, and a program that leaves a mark wherever it is run."""

    def __init__(self, folder: Path, trap: Path) -> None:
        self.folder, self.mark = folder, trap / "was-run"
        self.program = trap / "program"
        self.program.write_text(f"#!/bin/sh\nid -u >> {self.mark}\n")
        self.program.chmod(0o755)
        folder.mkdir(exist_ok=True)
        self.git("init", "-q", "-b", "work")
        (folder / "train.py").write_text("one\n")
        (folder / "data.bin").write_text("bytes\n")
        self.git("add", ".")
        self.git("commit", "-q", "-m", "m")
        self.commit = self.git("rev-parse", "HEAD").decode().strip()
        (folder / "train.py").write_text("two\n")

    def git(self, *arguments: str) -> bytes:
        """Run git as people do, in a time that no test waits for."""
        environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
        identity = ("-c", "user.name=n", "-c", "user.email=e@example.invalid", "-c", "protocol.file.allow=always")
        command = ["git", *identity, "-C", str(self.folder), *arguments]
        return subprocess.run(command, env=environment, check=False, capture_output=True, timeout=60).stdout

    def set(self, name: str, value: object) -> None:
        """Put a setting into the repository's own configuration."""
        self.git("config", name, str(value))


def fsmonitor(it: Repository) -> None:
    it.set("core.fsmonitor", it.program)


def clean_filter(it: Repository) -> None:
    it.set("filter.x.clean", it.program)
    (it.folder / ".gitattributes").write_text("* filter=x\n")


def process_filter(it: Repository) -> None:
    it.set("filter.x.process", it.program)
    (it.folder / ".git/info/attributes").write_text("* filter=x\n")


def textconv(it: Repository) -> None:
    it.set("diff.x.textconv", it.program)
    (it.folder / ".gitattributes").write_text("* diff=x\n")


def external_diff(it: Repository) -> None:
    it.set("diff.external", it.program)


def diff_driver(it: Repository) -> None:
    it.set("diff.x.command", it.program)
    (it.folder / ".gitattributes").write_text("* diff=x\n")


def hook(it: Repository) -> None:
    (it.folder / ".git/hooks").mkdir(exist_ok=True)
    (it.folder / ".git/hooks/post-index-change").symlink_to(it.program)
    os.utime(it.folder / "data.bin", (1, 1))  # so that the index is written


def hooks_path(it: Repository) -> None:
    hook(it)
    (it.folder / ".git/hooks").rename(it.folder / "others")
    it.set("core.hooksPath", it.folder / "others")


def included(it: Repository) -> None:
    (it.folder / "more").write_text(f"[core]\n\tfsmonitor = {it.program}\n")
    it.set("includeIf.gitdir:**.path", it.folder / "more")
    it.set("include.path", it.folder / "more")


def of_the_worktree(it: Repository) -> None:
    it.set("extensions.worktreeConfig", "true")
    (it.folder / ".git/config.worktree").write_text(f"[core]\n\tfsmonitor = {it.program}\n")


def submodule(it: Repository) -> None:
    inner = Repository(it.folder / "inner", it.program.parent)
    it.git("submodule", "add", "-q", f"{inner.folder}", "sub")
    it.git("commit", "-q", "-m", "sub")
    it.commit = it.git("rev-parse", "HEAD").decode().strip()
    subprocess.run(["git", "-C", str(it.folder / "sub"), "config", "core.fsmonitor", str(it.program)], check=True)
    (it.folder / "sub/train.py").write_text("three\n")


def missing_object(it: Repository) -> None:
    """A partial clone asks its remote for objects that it lacks, by any program that the configuration names."""
    it.set("extensions.partialClone", "origin")
    it.set("core.repositoryFormatVersion", 1)
    it.set("remote.origin.promisor", "true")
    it.set("remote.origin.url", f"{it.folder}")
    it.set("remote.origin.uploadpack", it.program)
    blob = it.git("rev-parse", "HEAD:train.py").decode().strip()
    (it.folder / ".git/objects" / blob[:2] / blob[2:]).unlink()


TRAPS = [
    fsmonitor, clean_filter, process_filter, textconv, external_diff, diff_driver, hook, hooks_path, included,
    of_the_worktree, submodule, missing_object,
]  # fmt: skip


@pytest.fixture(name="repository")
def _repository(tmp_path: Path) -> Repository:
    (tmp_path / "trap").mkdir()
    return Repository(tmp_path / "project", tmp_path / "trap")


@pytest.mark.parametrize("trap", TRAPS)
def test_reading_the_version_runs_nothing(trap: Callable[[Repository], None], repository: Repository) -> None:
    """Whatever a repository's files name, envbuild starts none of it; git itself, as people call it, does."""
    trap(repository)
    repository.mark.unlink(missing_ok=True)
    found = git_state(repository.folder)
    file_at(repository.folder, repository.commit, "train.py")
    changed_between(repository.folder, repository.commit, repository.commit)
    assert not repository.mark.exists()
    if trap is not missing_object:  # what is not there cannot be compared
        assert found is not None
        assert (found.commit, found.branch, found.dirty) == (repository.commit, "work", True)
    repository.git("status")
    repository.git("diff", "HEAD")
    assert repository.mark.exists(), "the trap itself does not work"


def test_the_version_is_what_it_is_without_the_traps(repository: Repository) -> None:
    """A repository with all traps has the same commit, branch and difference as one without."""
    expected = git_state(repository.folder)
    assert expected is not None
    assert expected.diff_sha256 == hashlib.sha256(repository.git("diff", "HEAD", "--full-index")).hexdigest()
    for trap in (fsmonitor, external_diff, hook, of_the_worktree):
        trap(repository)
    assert git_state(repository.folder) == expected
    assert (file_at(repository.folder, repository.commit, "train.py")) == b"one\n"


def test_nothing_in_the_repository_is_written(repository: Repository) -> None:
    """Not even the index, which ``git diff`` refreshes: others may be using the repository, or own it."""
    os.utime(repository.folder / "data.bin", (1, 1))
    before = (repository.folder / ".git/index").read_bytes()
    found = git_state(repository.folder)
    assert found is not None
    assert found.changed == ("train.py",)
    assert (repository.folder / ".git/index").read_bytes() == before


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_copies_no_file_of_its_own(repository: Repository, tmp_path: Path) -> None:
    """An index that links to a file of root's is not read for the project's owner."""
    (tmp_path / "secret").write_bytes((repository.folder / ".git/index").read_bytes())
    for path in [repository.folder, *repository.folder.rglob("*")]:
        os.chown(path, OWNER, OWNER)
    for make in (os.symlink, os.link):
        (repository.folder / ".git/index").unlink()
        make(tmp_path / "secret", repository.folder / ".git/index")
        assert git_state(repository.folder) is None


def test_the_environment_names_no_other_repository(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables of a hook that started envbuild, or of a stranger, do not lead git elsewhere."""
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(repository.program))
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", f"'core.fsmonitor={repository.program}'")
    found = git_state(repository.folder)
    assert found is not None
    assert found.commit == repository.commit
    assert not repository.mark.exists()


def test_a_setting_that_never_answers_ends(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """A configuration that includes a pipe makes git wait for ever: git is ended, and the record has no version."""
    monkeypatch.setattr("envbuild.record.git._SECONDS", 0.5)
    os.mkfifo(repository.folder / "pipe")
    with (repository.folder / ".git/config").open("a") as config:
        config.write(f"[include]\n\tpath = {repository.folder}/pipe\n")
    assert git_state(repository.folder) is None


def test_untracked_files_that_could_not_be_listed_are_not_none(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe in the place of .gitignore: the list never comes, and the record does not state that there are none."""
    monkeypatch.setattr("envbuild.record.git._SECONDS", 2.0)
    (repository.folder / "new.py").touch()
    os.mkfifo(repository.folder / ".gitignore")
    assert git_state(repository.folder) is None


def test_a_huge_index_is_not_copied(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index of holes would fill the disk for temporary files: the record has no version then."""
    monkeypatch.setattr("envbuild.record.git._INDEX", 1 << 20, raising=False)
    assert git_state(repository.folder) is not None
    with (repository.folder / ".git/index").open("r+b") as file:
        file.truncate((1 << 20) + 1)
    copied: list[int] = []
    monkeypatch.setattr("envbuild.record.git.shutil.copyfileobj", lambda *_: copied.append(1))
    assert git_state(repository.folder) is None
    assert copied == []


def test_memory_has_an_end(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of alternates may be a link to /dev/zero: git ends before the machine's memory does."""
    assert git_state(repository.folder) is not None
    monkeypatch.setattr("envbuild.record.git._MEMORY", 64 << 20, raising=False)
    (repository.folder / ".git/objects/info").mkdir(exist_ok=True)
    with (repository.folder / ".git/objects/info/alternates").open("wb") as file:
        file.truncate(256 << 20)
    assert git_state(repository.folder) is None


@pytest.mark.parametrize("commit", ["HEAD", "--output=/tmp/x", "a" * 39, "", "a" * 40 + "\n"])
def test_a_commit_is_a_digest(commit: str, repository: Repository) -> None:
    """What a record has for a commit goes to git only if it is a digest: no option, no name, no line break."""
    assert file_at(repository.folder, commit, "train.py") is None
    assert changed_between(repository.folder, commit, repository.commit) == ()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_reads_as_the_owner(repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under sudo every git process has the identity of the project's owner, and root's own files are out of reach."""
    programs = tmp_path / "bin"
    programs.mkdir()
    seen = tmp_path / "seen"
    seen.touch()
    seen.chmod(0o666)
    for folder in (*tmp_path.parents[:3], tmp_path):
        folder.chmod(folder.stat().st_mode | 0o755)
    (programs / "git").write_text(f'#!/bin/sh\nid -u >> {seen}\nexec /usr/bin/git "$@"\n')
    (programs / "git").chmod(0o755)
    for path in [repository.folder, *repository.folder.rglob("*")]:
        os.chown(path, OWNER, OWNER)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("SUDO_UID", str(OWNER))
    found = git_state(repository.folder)
    assert found is not None
    assert (found.commit, found.dirty, found.changed) == (repository.commit, True, ("train.py",))
    assert {*seen.read_text().split()} == {str(OWNER)}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_leaves_the_repository_of_another_alone(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of root's inside a repository of somebody else's has no version: root does not act on that."""
    for path in [repository.folder, *repository.folder.rglob("*")]:
        os.chown(path, OWNER, OWNER)
    inner = repository.folder / "inner"
    inner.mkdir()
    monkeypatch.setenv("SUDO_UID", str(OWNER))
    assert git_state(inner) is None
