"""The files of a commit of a remote git repository: what a branch or tag is now, and nothing that a repository runs.

git works in an empty repository of envbuild's own, with no configuration but what is given here: no hooks, filters,
credential helpers, submodules, other protocols, no configuration of the user or the machine. Nothing is checked out:
blobs are read as they are stored, so that no attribute of the repository changes them.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from envbuild.core.fs import temporary_folder
from envbuild.errors import IntegrityError, ResolveError
from envbuild.sources.tree import TreeFile

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SHORT = re.compile(r"[0-9a-f]{7,39}")
_LIMIT = 1 << 30
_SECONDS = 1800
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.askPass=",
    "credential.helper=",
    "submodule.recurse=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "http.lowSpeedLimit=100",
    "http.lowSpeedTime=60",
)
_SUBMODULE, _LINK, _EXECUTABLE = "160000", "120000", "100755"


@dataclass(frozen=True, kw_only=True, slots=True)
class Commit:
    """A commit: its digest, its files, and the folders of its submodules, whose files are not among them."""

    commit: str
    files: tuple[TreeFile, ...]
    submodules: tuple[str, ...]


def fetch_commit(url: str, ref: str, commit: str = "") -> Commit:
    """Fetch a commit.

    Args:
        url: address of the repository.
        ref: commit, tag or branch; empty: the default branch.
        commit: what ``ref`` was when it was locked; empty: what it is now.

    Raises:
        ResolveError: there is no git, or the repository has no such commit, tag or branch.
        IntegrityError: the repository cannot be read.
    """
    with temporary_folder("envbuild-fetch-") as folder:
        git = _Git(folder / "repository", url)
        wanted = commit or (ref if _COMMIT.fullmatch(ref) else git.look_up(ref))
        git.start("init", "-q", "--bare", "--template=", *_format(wanted), str(git.folder), inside=False)
        found = git.bring(wanted)
        return git.read(found)


def _format(commit: str) -> tuple[str, ...]:
    return ("--object-format=sha256",) if len(commit) == 64 else ()


class _Git:
    """Runs git for one repository."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self._url = folder, url

    def look_up(self, ref: str) -> str:
        """Return the commit that a tag or branch is now, or the beginning of a commit's digest as it is."""
        names = [f"refs/heads/{ref}", f"refs/tags/{ref}", f"refs/tags/{ref}^{{}}"] if ref else ["HEAD"]
        listed = self._remote("ls-remote", "-q", "--", self._url, *names, inside=False).decode("utf-8", "replace")
        found = {name: commit for commit, _, name in (line.partition("\t") for line in listed.splitlines())}
        if not ref:
            names = ["HEAD"]
        tag = found.get(f"refs/tags/{ref}^{{}}") or found.get(f"refs/tags/{ref}")
        branch = found.get(f"refs/heads/{ref}") or ("" if ref else found.get("HEAD", ""))
        if tag and branch and tag != branch:
            raise ResolveError(
                f"{self._url}: {ref} is a branch and a tag, of different commits", f"write the commit: @{tag}"
            )
        if commit := tag or branch:
            return commit
        if _SHORT.fullmatch(ref):
            return ref
        what = f"no branch or tag {ref}" if ref else "no default branch"
        raise ResolveError(f"{self._url} has {what}", "write a commit of 40 digits, a tag or a branch after @")

    def bring(self, commit: str) -> str:
        """Fetch a commit, alone where the server allows it; returns its whole digest."""
        if _COMMIT.fullmatch(commit) and self._alone(commit):
            return commit
        self._remote(
            *("fetch", "-q", "--no-tags", "--no-recurse-submodules", "--", self._url),
            *("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"),
        )
        done = self._run(("rev-parse", "-q", "--verify", f"{commit}^{{commit}}"))
        if done.returncode:
            raise ResolveError(
                f"{self._url} has no commit {commit} in any branch or tag", "write a commit that is in one of them"
            )
        return done.stdout.decode().strip()

    def _alone(self, commit: str) -> bool:
        options = ("--depth=1", "-q", "--no-tags", "--no-recurse-submodules")
        if self._run(("fetch", *options, "--", self._url, commit)).returncode:
            return False
        return not self._run(("cat-file", "-e", f"{commit}^{{commit}}")).returncode

    def read(self, commit: str) -> Commit:
        """Return the files of a commit that is here."""
        listed = self.start("ls-tree", "-r", "-l", "-z", "--full-tree", commit).split(b"\0")
        files: list[tuple[str, str, str]] = []
        modules, size = [], 0
        for entry in filter(None, listed):
            about, _, name = entry.partition(b"\t")
            mode, _, blob, length = about.decode().split()
            path = name.decode("utf-8", "surrogateescape")
            if mode == _SUBMODULE:
                modules.append(path)
                continue
            size += int(length)
            files.append((path, mode, blob))
        if size > _LIMIT:
            raise ResolveError(f"{self._url}: the files of {commit} have {size} bytes, more than {_LIMIT}")
        contents = self._blobs([blob for _, _, blob in files])
        return Commit(
            commit=commit,
            files=tuple(
                TreeFile(path=path, data=data, executable=mode == _EXECUTABLE, link=mode == _LINK)
                for (path, mode, _), data in zip(files, contents, strict=True)
            ),
            submodules=tuple(modules),
        )

    def _blobs(self, names: Sequence[str]) -> list[bytes]:
        """Return blobs, as ``cat-file --batch`` writes them: a line with the size, the bytes, a newline."""
        data = self._checked(("cat-file", "--batch"), "".join(f"{name}\n" for name in names).encode())
        found, start = [], 0
        for _ in names:
            end = data.index(b"\n", start)
            length = int(data[start:end].split()[-1])
            found.append(data[end + 1 : end + 1 + length])
            start = end + length + 2
        return found

    def start(self, *arguments: str, inside: bool = True) -> bytes:
        """Return what a command prints."""
        return self._checked(arguments, b"", inside=inside)

    def _remote(self, *arguments: str, inside: bool = True) -> bytes:
        done = self._run(arguments, inside=inside)
        if done.returncode:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            why = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[-1] if lines else "")
            raise IntegrityError(
                f"cannot read {self._url}: {why.removeprefix('fatal: ') or 'git failed'}",
                "check the address; for a private repository put its user and token into ~/.netrc",
            )
        return done.stdout

    def _checked(self, arguments: Sequence[str], data: bytes, *, inside: bool = True) -> bytes:
        done = self._run(arguments, data, inside=inside)
        if done.returncode:
            why = done.stderr.decode("utf-8", "replace").strip()
            raise IntegrityError(f"{self._url}: git {arguments[0]} failed: {why}", "try again; clone it to see why")
        return done.stdout

    def _run(
        self, arguments: Sequence[str], data: bytes = b"", *, inside: bool = True
    ) -> subprocess.CompletedProcess[bytes]:
        settings = [word for each in _SETTINGS for word in ("-c", each)]
        place = [f"--git-dir={self.folder}"] if inside else []
        try:
            return subprocess.run(
                ["git", *settings, *place, *arguments],
                input=data,
                capture_output=True,
                env=_environment(),
                cwd=self.folder.parent,
                timeout=_SECONDS,
                check=False,
            )
        except FileNotFoundError:
            raise ResolveError(
                f"git is needed to fetch {self._url}, and is not installed", "install it: apt install git"
            ) from None
        except subprocess.TimeoutExpired:
            raise IntegrityError(f"{self._url}: git took more than {_SECONDS} s", "try again") from None


def _environment() -> dict[str, str]:
    """Return git's variables: those of proxies and certificates, none that names a program or a configuration."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "SSH_"))}
    certificates = {name: os.environ[name] for name in ("GIT_SSL_CAINFO", "GIT_SSL_CAPATH") if name in os.environ}
    return {
        **kept,
        **certificates,
        "LC_ALL": "C",
        "GIT_ALLOW_PROTOCOL": "https:http",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_CEILING_DIRECTORIES": "/",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
    }
