"""What a run changed in its project: the state of all files before, compared with their state after."""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from envbuild.core.digest import sha256_bytes, sha256_stream
from envbuild.core.fs import folder_below, open_regular
from envbuild.core.text import encodable
from envbuild.record.model import Folder, Output

SKIPPED = frozenset(
    [
        *(".envbuild", ".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".ipynb_checkpoints"),
        *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox", ".nox"),
    ]
)
"""Folders of tools, at any depth: never results."""

_LOOKED = 5000
"""Files in a folder of a tool that are looked at."""
_USER: Final = "user."
"""Namespace of the extended attributes that any program may set."""
_HOLES, _SHARE = 16 << 30, 64
"""Bytes from which a file is not read of which no more than one part in so many is on the disk: hours of zeros."""

FileState = tuple[int, int, int, int, int]
"""Size in bytes, modification and change time in nanoseconds, inode, permission bits; of a folder these alone."""


def scan(
    root: Path, skipped: Collection[str] = (), tools: list[str] | None = None, special: list[str] | None = None
) -> dict[str, FileState]:
    """Return the state of all below ``root`` by relative path, folders' with ``/`` at the end; no link is followed.

    A folder that cannot be listed is there without ``/`` too: as a file, which nobody can read either.

    Args:
        root: the project.
        skipped: relative paths to leave out, such as read-only inputs.
        tools: takes the paths of the folders of tools, which are not looked into.
        special: takes those of FIFOs, sockets and devices, which have no content, and of folders with extended
            attributes, a digest of these behind each.
    """
    return dict(_walk(root, skipped, tools, special))


def written_since(root: Path, folders: Iterable[str], moment: int, beyond: list[str] | None = None) -> Iterator[str]:
    """Yield the files in folders that were written or moved there since a moment, in nanoseconds, by relative path.

    The first of very many files are looked at in each of the folders: ``.venv`` may have 100,000.

    Args:
        root: the project.
        folders: relative paths.
        moment: in nanoseconds since 1970.
        beyond: takes those of the folders that have more files than are looked at.
    """
    for folder in folders:
        yield from _written_in(root, folder, moment, beyond)


def read_files(root: Path, paths: Iterable[str]) -> Iterator[tuple[str, int, int]]:
    """Yield path, size in bytes and time of change in ns of the files in a fresh copy of a project that were read.

    A copy is made with one time of access and of change. The kernel notes the first reading by whatever program, also
    where a file system is mounted with ``relatime``; with ``noatime`` nothing is found.

    Args:
        root: the copy.
        paths: relative paths of files that nobody has changed since.
    """
    for path in paths:
        with suppress(OSError):
            status = os.lstat(os.path.join(root, path))  # noqa: PTH118 - one string per file counts here
            if stat.S_ISREG(status.st_mode) and status.st_atime_ns != status.st_mtime_ns:
                yield path, status.st_size, status.st_mtime_ns


def mark_folders(root: Path, states: Mapping[str, FileState]) -> dict[str, int]:
    """Give the folders of a fresh copy one time of access and of change; returns it by path, with ``/`` at the end.

    Listing a folder is noted by the kernel as reading a file is (``listed_folders``).
    """
    marked = {}
    for path in states:
        if path.endswith("/"):
            with suppress(OSError):
                place = os.path.join(root, path)  # noqa: PTH118 - one string per folder counts here
                moment = os.lstat(place).st_mtime_ns
                os.utime(place, ns=(moment, moment), follow_symlinks=False)
                marked[path] = os.lstat(place).st_mtime_ns
    return marked


def listed_folders(root: Path, marked: Mapping[str, int]) -> Iterator[str]:
    """Yield those of the folders that were marked that somebody has listed since; before they are scanned again."""
    for path, moment in marked.items():
        with suppress(OSError):
            if os.lstat(os.path.join(root, path)).st_atime_ns != moment:  # noqa: PTH118 - as above
                yield path


def names_in(states: Iterable[str], folders: Iterable[str], left: Iterable[str]) -> dict[str, str]:
    """Return a digest of the names in each of some folders, but for what a program left there.

    Args:
        states: relative paths, folders' with ``/`` at the end.
        folders: those to look at, without it.
        left: paths of what the program left: their names, and those of folders above them, do not count.
    """
    found: dict[str, list[str]] = {folder: [] for folder in folders}
    own = {*left}
    for path in [*own]:
        while path := path.rpartition("/")[0]:
            own.add(path)
    for path in states:
        name = path.rstrip("/")
        above = found.get(name.rpartition("/")[0])
        if above is not None and encodable(name) not in own:
            above.append(path.rpartition("/")[2] or f"{name.rpartition('/')[2]}/")
    return {folder: sha256_bytes(os.fsencode("\0".join(sorted(names)))) for folder, names in found.items()}


def altered_files(
    root: Path, before: Mapping[str, FileState], after: Mapping[str, FileState]
) -> tuple[set[str], set[str]]:
    """Return the files of a fresh copy that are not as they were: those that were read before, and all of them.

    One that was written where it is has the time of an earlier reading still. Of one that was removed or replaced
    nothing is left to show it, unless it is there under another name.
    """
    files = {path for path in before if not path.endswith("/") and before[path] != after.get(path)}
    moved = {state[3] for path, state in after.items() if path not in before and not path.endswith("/")}
    read = set()
    for path in files:
        was, now = before[path], after.get(path)
        if now is None or now[3] != was[3]:
            if was[3] in moved:
                read.add(path)
            continue
        with suppress(OSError):
            status = os.lstat(os.path.join(root, path))  # noqa: PTH118 - as above
            earlier = status.st_atime_ns <= status.st_mtime_ns or now[1] == was[1]
            if stat.S_ISREG(status.st_mode) and status.st_atime_ns != was[1] and earlier:
                read.add(path)
    return read, files


def _written_in(root: Path, top: str, moment: int, beyond: list[str] | None) -> Iterator[str]:
    left, looked = [top], 0
    while left and looked < _LOOKED:
        folder = left.pop(0)
        try:
            entries = os.scandir(os.path.join(root, folder))  # noqa: PTH118 - one string per file counts here
        except OSError:
            continue
        with entries:
            for entry in entries:
                looked += 1
                if looked > _LOOKED:
                    break
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        left.append(f"{folder}/{entry.name}")
                    elif entry.stat(follow_symlinks=False).st_ctime_ns >= moment:
                        yield f"{folder}/{entry.name}"
    if beyond is not None and (left or looked > _LOOKED):
        beyond.append(top)


def without_others(now: Mapping[str, FileState], first: Mapping[str, FileState]) -> dict[str, FileState]:
    """Return the state before a run of several ranks, as a rank sees it of which others have begun already.

    Args:
        now: what this rank has scanned on its machine, whose file system need not show other machines' times.
        first: what the first rank has scanned, before any of them began.
    """
    return {**first, **{path: state for path, state in now.items() if path in first and state[0] == first[path][0]}}


def scan_mount(root: Path, most: int, special: list[str] | None = None) -> dict[str, FileState] | None:
    """Return the states below a mounted folder; None for more than ``most``. A mounted file has an empty path.

    ``special``: as for ``scan``.
    """
    if root.is_file():
        return {"": _state(root.stat())}
    states = dict(itertools.islice(_walk(root, (), None, special), most + 1))
    return None if len(states) > most else states


def _walk(
    root: Path, skipped: Collection[str] = (), tools: list[str] | None = None, special: list[str] | None = None
) -> Iterator[tuple[str, FileState]]:
    left = [""]
    while left:
        folder = left.pop()
        try:
            entries = os.scandir(os.path.join(root, folder))  # noqa: PTH118 - one string per file counts here
        except OSError as error:
            if folder and not isinstance(error, FileNotFoundError):
                yield folder.rstrip("/"), _unseen(os.path.join(root, folder))  # noqa: PTH118 - as above
            continue
        with entries:
            for entry in entries:
                path = f"{folder}{entry.name}"
                if path in skipped:
                    continue
                if entry.name in SKIPPED and entry.is_dir(follow_symlinks=False):
                    if tools is not None:
                        tools.append(path)
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:  # an editor of the project is at work too
                    continue
                except OSError:  # in a folder that may be listed and not searched
                    yield path, _unseen("")
                    continue
                if stat.S_ISDIR(status.st_mode):
                    left.append(f"{path}/")
                    yield f"{path}/", (0, 0, 0, 0, stat.S_IMODE(status.st_mode))
                    if special is not None and (found := _attributes(os.path.join(root, path))):  # noqa: PTH118 - as above
                        special.append(f"{path}/{found}")
                elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                    yield path, _state(status)
                elif special is not None:
                    special.append(path)


def _unseen(folder: str) -> FileState:
    """Return the state of what nobody can read; of a folder its times show whether it was opened and closed again."""
    with suppress(OSError):
        status = os.lstat(folder)
        return 0, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, 0
    return 0, 0, 0, 0, 0


def _state(status: os.stat_result) -> FileState:
    mode = 0 if stat.S_ISLNK(status.st_mode) else stat.S_IMODE(status.st_mode)
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, mode


def changes(
    root: Path, before: Mapping[str, FileState], after: Mapping[str, FileState]
) -> tuple[tuple[Output, ...], tuple[str, ...]]:
    """Return the files created or changed, with digests, and the paths deleted, both sorted."""
    outputs = tuple(
        _output(root, path, "changed" if path in before else "created", after[path])
        for path in sorted(after)
        if before.get(path) != after[path] and not path.endswith("/")
    )
    closed = tuple(f"{path}/" for path, state in after.items() if not state[0] and not state[4] and f"{path}/" in after)
    deleted = (path for path in before.keys() - after.keys() if not path.endswith("/") and not path.startswith(closed))
    return outputs, tuple(sorted(map(encodable, deleted)))


def _output(root: Path, path: str, change: Literal["created", "changed"], state: FileState) -> Output:
    sha256, attributes = _read(root, path)
    mode = f"{state[4]:03o}" if state[4] else ""
    return Output(path=encodable(path), change=change, size=state[0], sha256=sha256, mode=mode, attributes=attributes)


def folder_changes(before: Mapping[str, FileState], after: Mapping[str, FileState]) -> tuple[Folder, ...]:
    """Return the folders created, removed or of other permissions, sorted."""
    paths = sorted(path for path in {*before, *after} if path.endswith("/") and before.get(path) != after.get(path))
    filled = {f"{path.rstrip('/').rpartition('/')[0]}/" for path in after}
    return tuple(
        Folder(
            path=encodable(path[:-1]),
            change="removed" if path not in after else "changed" if path in before else "created",
            mode=f"{after[path][4]:03o}" if path in after else "",
            empty=path in after and path not in filled and path[:-1] not in after,
        )
        for path in paths
    )


def _read(root: Path, path: str) -> tuple[str | None, str]:
    """Digest a file's bytes or a link's target, and a file's extended attributes.

    The first one is None if it cannot be read, or is hardly anything but holes. Another program may write the folder
    meanwhile: no link is followed, and nobody is waited for.
    """
    *above, name = path.split("/") if path else [""]
    attributes = ""
    try:
        with folder_below(root if path else root.parent, *above) as folder:
            place = folder / (name or root.name)
            if place.is_symlink():
                return sha256_bytes(os.fsencode(os.readlink(place))), ""  # noqa: PTH115 - the name as it is
            with open_regular(place, follow=False) as stream:
                attributes = _attributes(stream.fileno())
                status = os.fstat(stream.fileno())
                if status.st_size > _HOLES and status.st_blocks * 512 < status.st_size // _SHARE:
                    return None, attributes
                return sha256_stream(stream), attributes
    except OSError:
        return None, attributes


def _attributes(file: int | str) -> str:
    """Digest the extended attributes of a file or folder that programs may set (xattr(7)); empty if there are none."""
    found = {}
    with suppress(OSError):
        for name in sorted(os.listxattr(file)):
            if name.startswith(_USER):
                found[name] = os.getxattr(file, name).hex()
    return sha256_bytes(repr(found).encode()) if found else ""
