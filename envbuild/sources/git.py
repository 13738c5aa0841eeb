"""The files of a commit of a remote git repository: what a branch or tag is now, and nothing that a repository runs.

git works in an empty repository of envbuild's own, with no configuration but what is given here: no hooks, filters,
credential helpers, submodules, other protocols, no configuration of the user or the machine. Nothing is checked out:
blobs are read as they are stored, so that no attribute of the repository changes them.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from envbuild.core.fs import temporary_folder
from envbuild.errors import IntegrityError, ResolveError
from envbuild.sources.tree import TreeFile

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SHORT = re.compile(r"[0-9a-f]{7,39}")
_LIMIT = 1 << 30
_ENTRIES, _NAMES, _NAME = 200_000, 64 << 20, 1 << 16
"""Most files and folders of a commit, bytes of their list, and bytes of one entry: trees that name the same tree many
times have more files than any machine could list."""
_PACKED, _OBJECTS = 2 << 30, 5_000_000
"""Most bytes and objects that a fetch may bring: what a server sends for one commit is its own decision."""
_MEMORY = 4 << 30
"""Most bytes of memory, as addresses, of a process of git while it fetches."""
_LOOK = 0.2
"""Seconds between two looks at what a fetch has brought."""
_SECONDS = 1800
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.askPass=",
    "credential.helper=",
    "submodule.recurse=false",
    "gc.auto=0",
    "core.bigFileThreshold=16m",
    "fetch.unpackLimit=1",
    "maintenance.auto=false",
    "http.lowSpeedLimit=100",
    "http.lowSpeedTime=60",
)
_FOLDER, _SUBMODULE, _LINK, _EXECUTABLE = "040000", "160000", "120000", "100755"


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
        git.start("init", "-q", "--bare", "--template=", *_format(wanted))
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
        listed = self._remote("ls-remote", "-q", "--", self._url, *names).decode("utf-8", "replace")
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
        self._succeeded(self._fetch("--", self._url, "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"))
        done = self._run(("rev-parse", "-q", "--verify", f"{commit}^{{commit}}"))
        if done.returncode:
            raise ResolveError(
                f"{self._url} has no commit {commit} in any branch or tag", "write a commit that is in one of them"
            )
        return done.stdout.decode().strip()

    def _alone(self, commit: str) -> bool:
        if self._fetch("--depth=1", "--", self._url, commit).returncode:
            return False
        return not self._run(("cat-file", "-e", f"{commit}^{{commit}}")).returncode

    def _fetch(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return self._ask("fetch", "-q", "--no-tags", "--no-recurse-submodules", *arguments)

    def _ask(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        """Run what talks to the server; raises ``ResolveError`` as soon as it has brought too much, and ends it.

        git and its helpers are a group of processes, none of which may write more than fits, or fill the memory.
        """
        command = self._command(arguments)
        limits = f"ulimit -f {_PACKED // 512 + 1}; ulimit -v {_MEMORY >> 10}; "
        end = time.monotonic() + _SECONDS
        with (
            TemporaryFile() as output,
            TemporaryFile() as errors,
            subprocess.Popen(
                ["/bin/sh", "-c", f'{limits}exec "$@"', "sh", *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                env=self._environment(),
                cwd=self.folder.parent,
                start_new_session=True,
            ) as process,
        ):
            try:
                while True:
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(_LOOK)
                    self._measure(output, errors)
                    if process.returncode is not None:
                        break
                    if time.monotonic() > end:
                        raise self._late()
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
            output.seek(0)
            errors.seek(0)
            return subprocess.CompletedProcess(command, process.returncode, output.read(), errors.read())

    def _measure(self, *printed: IO[bytes]) -> None:
        """Raise ``ResolveError`` if the repository has more than a fetch may bring; packs state their objects first."""
        size = number = 0
        lines = max(os.fstat(file.fileno()).st_size for file in printed)
        for place, _, names in os.walk(self.folder / "objects"):
            number += len(names)
            for path in (Path(place, name) for name in names):
                with suppress(OSError):  # it has another name by now
                    size += path.lstat().st_size
                    if path.parent.name == "pack":
                        with path.open("rb") as file:
                            head = file.read(12)
                        number += int.from_bytes(head[8:], "big") if head.startswith(b"PACK") else 0
        if size > _PACKED or number > _OBJECTS or lines > _NAMES:
            raise ResolveError(
                f"{self._url} sends more than {_PACKED >> 20} MiB, {_OBJECTS} objects or {_NAMES >> 20} MiB of names",
                "clone it, and name the folder of the clone",
            )

    def read(self, commit: str) -> Commit:
        """Return the files of a commit that is here."""
        files: list[tuple[str, str, str]] = []
        modules, size = [], 0
        for entry in self._entries(commit):
            about, _, name = entry.partition(b"\t")
            mode, _, blob, length = about.decode().split()
            path = name.decode("utf-8", "surrogateescape")
            if mode == _SUBMODULE:
                modules.append(path)
            elif mode != _FOLDER:
                size += int(length)
                files.append((path, mode, blob))
            if size > _LIMIT:
                raise ResolveError(f"{self._url}: the files of {commit} have more than {_LIMIT} bytes")
        contents = self._blobs([blob for _, _, blob in files])
        return Commit(
            commit=commit,
            files=tuple(
                TreeFile(path=path, data=data, executable=mode == _EXECUTABLE, link=mode == _LINK)
                for (path, mode, _), data in zip(files, contents, strict=True)
            ),
            submodules=tuple(modules),
        )

    def _entries(self, commit: str) -> Iterator[bytes]:
        """Yield the files, submodules and folders of a commit as git lists them, which ends with more than may be."""
        command = self._command(("ls-tree", "-r", "-t", "-l", "-z", "--full-tree", commit))
        with (
            TemporaryFile() as errors,
            subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=self._environment(),
                cwd=self.folder.parent,
            ) as process,
        ):
            try:
                assert process.stdout is not None  # noqa: S101 - it is a pipe
                rest, number, size = b"", 0, 0
                while chunk := process.stdout.read(_NAME):
                    *entries, rest = (rest + chunk).split(b"\0")
                    number, size = number + len(entries), size + len(chunk)
                    if number > _ENTRIES or size > _NAMES or len(rest) > _NAME:
                        raise ResolveError(
                            f"{self._url}: {commit} has more than {_ENTRIES} files and folders, or {_NAMES} bytes of "
                            "names",
                            "name another commit, or clone it and name the folder",
                        )
                    yield from entries
            except BaseException:
                process.kill()
                raise
            if process.wait():
                errors.seek(0)
                raise self._failed("ls-tree", errors.read(_NAME))

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

    def start(self, *arguments: str) -> bytes:
        """Return what a command prints."""
        return self._checked(arguments, b"")

    def _remote(self, *arguments: str) -> bytes:
        return self._succeeded(self._ask(*arguments))

    def _succeeded(self, done: subprocess.CompletedProcess[bytes]) -> bytes:
        """Return what a command that asked the server printed; raises ``IntegrityError`` if it failed."""
        if done.returncode:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            why = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[-1] if lines else "")
            raise IntegrityError(
                f"cannot read {self._url}: {why.removeprefix('fatal: ') or 'git failed'}",
                "check the address; for a private repository put its user and token into ~/.netrc",
            )
        return done.stdout

    def _checked(self, arguments: Sequence[str], data: bytes) -> bytes:
        done = self._run(arguments, data)
        if done.returncode:
            raise self._failed(arguments[0], done.stderr)
        return done.stdout

    def _failed(self, command: str, stderr: bytes) -> IntegrityError:
        why = stderr.decode("utf-8", "replace").strip()
        return IntegrityError(f"{self._url}: git {command} failed: {why}", "try again; clone it to see why")

    def _command(self, arguments: Sequence[str]) -> list[str]:
        """Return a command line; git searches no folder for a repository, even where this one is yet to be made."""
        settings = [word for each in _SETTINGS for word in ("-c", each)]
        return ["git", *settings, f"--git-dir={self.folder}", *arguments]

    def _run(self, arguments: Sequence[str], data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(
                self._command(arguments),
                input=data,
                capture_output=True,
                env=self._environment(),
                cwd=self.folder.parent,
                timeout=_SECONDS,
                check=False,
            )
        except FileNotFoundError:
            raise self._missing() from None
        except subprocess.TimeoutExpired:
            raise self._late() from None

    def _missing(self) -> ResolveError:
        return ResolveError(f"git is needed to fetch {self._url}, and is not installed", "install it: apt install git")

    def _late(self) -> IntegrityError:
        return IntegrityError(f"{self._url}: git took more than {_SECONDS} s", "try again")

    def _environment(self) -> dict[str, str]:
        """Return git's variables: those of proxies and certificates, none that names a program or a configuration."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "SSH_"))}
        certificates = {name: os.environ[name] for name in ("GIT_SSL_CAINFO", "GIT_SSL_CAPATH") if name in os.environ}
        return {
            **kept,
            **certificates,
            "LC_ALL": "C",
            # A server may redirect to encryption, never from it.
            "GIT_ALLOW_PROTOCOL": "https" if self._url.startswith("https:") else "https:http",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_CEILING_DIRECTORIES": str(self.folder.parent.parent),
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
        }
