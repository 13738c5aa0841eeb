"""The project's version in git, read without running anything that the repository names.

A repository's files can make git run programs: ``core.fsmonitor``, filters, hooks, ``diff`` drivers, included files, a
partial clone's remote, the settings of submodules. The sender of the project may have written them, or a program of an
earlier run. So git is asked in two steps (docs/security.md):

1. Where the repository is, its commit, and its settings as text. None of these reads the index, the working tree or an
   object, so none of them starts a program.
2. Everything else with a directory of envbuild's own in the place of ``.git``: it has the commit, a few settings that
   state how files are stored (``_SETTINGS``), a copy of the index, which git would otherwise write, and nothing that
   names a program. Objects and working tree are the repository's.

As root, git runs with the identity of the project's owner, and refuses repositories of anybody else.
"""

from __future__ import annotations

import errno
import hashlib
import os
import resource
import shutil
import stat
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from envbuild.core.fs import temporary_folder
from envbuild.core.patterns import lazy
from envbuild.record.model import Git

_CHANGED = 1000
"""Names of changed files that a record keeps."""
_SECONDS = 20.0
"""Until git is ended: a pipe in the place of a settings file is never read to its end."""
_MEMORY = 1 << 30
"""Most bytes of memory of a process of git, which reads a list of alternates without end if it is /dev/zero."""
_INDEX = 1 << 30
"""Most bytes of an index, which is copied: a million files take 100 MB, and one of holes can have terabytes."""
_COMMIT = lazy(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SETTINGS = frozenset(
    f"core.{name}"
    for name in (
        *("autocrlf", "eol", "safecrlf", "filemode", "symlinks", "ignorecase", "precomposeunicode", "excludesfile"),
        *("trustctime", "checkstat", "bigfilethreshold"),
    )
)
"""Settings that state how files are stored, compared and left out. None of them names a program."""
_KEPT_VARIABLES = frozenset(("GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM"))


def git_state(project: Path) -> Git | None:
    """Return the version; None outside a repository, before its first commit, without git, or if git takes too long."""
    with _opened(project) as repository:
        if repository is None:
            return None
        diff = repository.start("diff", "HEAD", "--full-index", *_PLAIN)
        changed = repository.start("diff", "HEAD", "--name-only", "--relative", "--no-renames", "-z", *_PLAIN)
        others = repository.start("ls-files", "--others", *repository.excluded, "--directory", *_NO_EMPTY, "-z")
        digest, size = hashlib.sha256(), 0
        while diff.stdout is not None and (chunk := diff.stdout.read(1 << 16)):
            digest.update(chunk)
            size += len(chunk)
        listed, _ = others.communicate()
        files, _ = changed.communicate()
        if diff.wait() != 0 or others.returncode != 0:
            return None
        return Git(
            commit=repository.commit,
            branch=repository.branch,
            dirty=size > 0,
            diff_sha256=digest.hexdigest() if size else "",
            untracked=listed.count(b"\0"),
            changed=_names(files)[:_CHANGED] if changed.returncode == 0 else None,
        )


def file_at(project: Path, commit: str, path: str) -> bytes | None:
    """Return a file's content at a commit; None if git does not have it.

    Args:
        commit: its digest; anything else is not there.
        path: relative to the project.
    """
    if not _COMMIT.fullmatch(commit) or path.startswith("/"):
        return None
    with _opened(project) as repository:
        return repository.output("cat-file", "blob", f"{commit}:./{path}") if repository else None


def changed_between(project: Path, a: str, b: str) -> tuple[str, ...]:
    """Name the project's files that differ between two commits; empty if git does not have both."""
    if not (_COMMIT.fullmatch(a) and _COMMIT.fullmatch(b)):
        return ()
    with _opened(project) as repository:
        if repository is None:
            return ()
        return _names(repository.output("diff", "--name-only", "--relative", "--no-renames", "-z", *_PLAIN, a, b, "--"))


_PLAIN = ("--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty")
"""Of a submodule its commit is compared and nothing in it: git would read the submodule's own settings."""
_NO_EMPTY = ("--no-empty-directory",)


class _Starter(msgspec.Struct, frozen=True, kw_only=True):
    """Starts git in a folder.

    Attributes:
        settings: given to git on its command line.
        user: user and group to become; None to stay.
        started: every process, so that all of them can be ended.
    """

    folder: Path
    environment: Mapping[str, str]
    settings: tuple[str, ...] = ()
    user: tuple[int, int] | None = None
    started: list[subprocess.Popen[bytes]] = msgspec.field(default_factory=list)

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command whose output is read by the caller; raises ``OSError`` if there is no git."""
        process = subprocess.Popen(
            ["git", *(word for each in self.settings for word in ("-c", each)), "-C", str(self.folder), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self.environment,
            start_new_session=True,  # Ctrl-C is meant for the program
            user=None if self.user is None else self.user[0],
            group=None if self.user is None else self.user[1],
            extra_groups=None if self.user is None else [],
        )
        self.started.append(process)
        with suppress(OSError):  # it has ended already
            resource.prlimit(process.pid, resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
        return process

    def output(self, *arguments: str) -> bytes | None:
        """Return what a command prints; None if it fails."""
        process = self.start(*arguments)
        text, _ = process.communicate()
        return text if process.returncode == 0 else None

    def end(self) -> None:
        """Kill what still runs."""
        for process in self.started:
            if process.poll() is None:
                with suppress(OSError):
                    os.killpg(process.pid, 9)


class _Repository(_Starter, frozen=True, kw_only=True):
    """A repository that may be asked anything.

    Attributes:
        branch: empty if detached.
        excluded: options that name what is ignored.
    """

    commit: str
    branch: str
    excluded: tuple[str, ...]


@contextmanager
def _opened(project: Path) -> Iterator[_Repository | None]:
    """Find the repository that holds a project, and give it a directory of ours in the place of its own.

    Yields None if there is none, or no commit, or git cannot be asked.
    """
    real = _Starter(folder=project, environment=_environment(project), user=_owner(project))
    with temporary_folder("envbuild-git-") as directory:
        late = threading.Timer(_SECONDS, real.end)
        late.daemon = True
        late.start()
        try:
            yield _replaced(real, directory)
        except (OSError, subprocess.SubprocessError):
            yield None
        finally:
            late.cancel()
            real.end()


def _replaced(real: _Starter, directory: Path) -> _Repository | None:
    """Do the first step, and make the directory for the second."""
    paths = ("--show-toplevel", "--git-path", "objects", "--git-path", "index", "--git-path", "info/exclude")
    asked = [
        real.start("rev-parse", *paths),
        real.start("rev-parse", "--verify", "-q", "HEAD"),
        real.start("symbolic-ref", "-q", "--short", "HEAD"),
        real.start("config", "--list", "-z"),
    ]
    found = [(process.communicate()[0].decode(errors="surrogateescape"), process.returncode) for process in asked]
    (places, failed), (commit, unborn), (branch, _), (settings, unreadable) = found
    commit, lines = commit.strip(), places.splitlines()
    if failed or unborn or unreadable or len(lines) != 4 or not _COMMIT.fullmatch(commit):
        return None
    top, objects, index, exclude = (real.folder.absolute() / line for line in lines)
    if not real.folder.resolve().is_relative_to(top.resolve()):
        return None  # core.worktree names files that are not the project's
    _fill(directory, commit)
    _copy_index(index, directory, real.user)
    own = {
        "GIT_DIR": str(directory),
        "GIT_WORK_TREE": str(top),
        "GIT_OBJECT_DIRECTORY": str(objects),
        "GIT_INDEX_FILE": str(directory / index.name),
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
    }
    return _Repository(
        folder=real.folder,
        environment={**real.environment, **own},
        settings=_harmless(settings),
        user=real.user,
        started=real.started,
        commit=commit,
        branch=branch.strip(),
        excluded=("--exclude-standard", *((f"--exclude-from={exclude}",) if exclude.is_file() else ())),
    )


def _fill(directory: Path, commit: str) -> None:
    """Write what makes a folder a repository at a commit; readable by the user that git runs as."""
    directory.chmod(0o755)
    (directory / "refs").mkdir()
    (directory / "refs").chmod(0o755)
    sha256 = len(commit) == 64
    extension = "[extensions]\n\tobjectformat = sha256\n" if sha256 else ""
    files = {"HEAD": f"{commit}\n", "config": f"[core]\n\trepositoryformatversion = {int(sha256)}\n{extension}"}
    for name, text in files.items():
        (directory / name).write_text(text)
        (directory / name).chmod(0o644)


def _copy_index(index: Path, directory: Path, user: tuple[int, int] | None) -> None:
    """Copy the index: ``git diff`` refreshes it whatever its options, and others may be using the original.

    Raises:
        OSError: it is no plain file, a huge one, or root would read for the project's owner what belongs to somebody
            else.
    """
    for part in index.parent.glob("sharedindex.*"):  # the other half of a split index
        (directory / part.name).symlink_to(part.absolute())
    try:
        descriptor = os.open(index, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    with open(descriptor, "rb") as source:
        status = os.fstat(source.fileno())
        if not stat.S_ISREG(status.st_mode) or (user is not None and status.st_uid != user[0]):
            raise PermissionError(index)
        if status.st_size > _INDEX:
            raise OSError(errno.EFBIG, f"more than {_INDEX} bytes", str(index))
        copy = directory / index.name
        with copy.open("wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
        copy.chmod(0o644)
        # Git looks twice at files that are no older than the index.
        os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))


def _harmless(listed: str) -> tuple[str, ...]:
    """Return those settings of a list (``git config --list -z``) that state how files are stored."""
    found = {}
    for entry in listed.split("\0"):
        name, given, value = entry.partition("\n")
        if name in _SETTINGS:
            found[name] = f"{name}={value}" if given else name
    # What runs programs has no place to be set any more; this is the second lock on that door.
    return (*found.values(), "core.fsmonitor=false", "core.hooksPath=/dev/null")


def _environment(project: Path) -> dict[str, str]:
    """Return git's variables: none that leads it elsewhere, that lets it write, fetch, or ask."""
    own = {
        name: value
        for name, value in os.environ.items()
        if (not name.startswith("GIT_") or name in _KEPT_VARIABLES) and not name.startswith("SUDO_")
    }
    if (owner := _owner(project)) is not None:
        own.pop("XDG_CONFIG_HOME", None)
        own["HOME"] = _home(owner[0])
    return {
        **own,
        "LC_ALL": "C",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_TERMINAL_PROMPT": "0",
    }


def _owner(project: Path) -> tuple[int, int] | None:
    """Return whom root becomes to read a project: its owner; None for nobody else."""
    if os.geteuid() != 0:
        return None
    with suppress(OSError):
        status = project.stat()
        return (status.st_uid, status.st_gid) if status.st_uid != 0 else None
    return None


def _home(user: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(user).pw_dir
    except KeyError:
        return "/nonexistent"


def _names(listed: bytes | None) -> tuple[str, ...]:
    """Return the names of a list that ends each with a zero byte."""
    return tuple((listed or b"").decode(errors="replace").split("\0")[:-1])
