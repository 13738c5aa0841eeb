"""What a program wrote outside its project: in the container's own layer, in memory, and in mounted folders.

Files that tools leave there for themselves are no results, recognised by place and name (``tools_files``). What is
looked at has limits; what is beyond is reported in a sentence.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any, Literal

import msgspec

from envbuild.core.digest import sha256_bytes
from envbuild.core.fs import atomic_write, read_foreign
from envbuild.core.text import encodable, human_bytes, plural
from envbuild.engine.protocol import FileChange, Mount, OwnFiles
from envbuild.errors import EngineError
from envbuild.lockfile import layout
from envbuild.record.model import NOTHING_LEFT, Output
from envbuild.runs import workspace
from envbuild.runs.tools_files import (
    MOST_OF_LOCK,
    holds_nothing,
    is_lock,
    is_noise,
    notes_on,
    notes_on_empty,
    notes_on_special,
)

if TYPE_CHECKING:
    import tarfile

MOST_FILES = 10_000
"""Files that are listed and digested."""
MOST_BYTES = 4 << 30
"""Bytes that are read of the container's own files."""
MOST_SCANNED = 200_000
"""Files of a mounted folder that are looked at."""
COPIED, COPIED_FILE = 1 << 30, 128 << 20
"""Bytes of one run's files outside its project that are copied to compare what they hold, and of one such file."""
_PIECE = 1 << 20
_SINGLE = 4
"""Files in one folder that are asked for one by one."""
_NAMED = 20
"""Files in one place that are named if they were not looked at."""
_CLOSED = "it could not be read"
_TEMPORARY = re.compile(r"/(?:var/)?tmp/|/run/|/dev/")
"""Where tools make empty folders, under drawn names mostly."""
_LOOKED = 10_000
"""Names that are looked at in a mounted folder."""
_SMALL = ("/tmp", "/var/tmp")  # noqa: S108 - paths in the container
"""Folders that images have, and that are empty there."""


def name_mounted(mounts: Sequence[Mount], folder: Path) -> None:
    """Put into a run's folder where the caller mounted something: what the program reads there is noted.

    A folder of installed packages is left out: what is imported of it is a library's, and no code of the program's own.
    """
    targets = (mount.target for mount in mounts if not _has_packages(mount.source))
    names = [os.fsencode(target) + b"\0" for target in targets if not f"{target}/".startswith(f"{layout.WORKSPACE}/")]
    if names:
        atomic_write(folder / layout.MOUNTED_FILE, b"".join(names), sync=False)


def _has_packages(folder: Path) -> bool:
    """Whether packages are installed in a folder itself, as ``pip install --target`` does."""
    with suppress(OSError), os.scandir(folder) as entries:
        return any(entry.name.endswith((".dist-info", ".egg-info")) for entry in islice(entries, _LOOKED))
    return False


class Outside(msgspec.Struct, kw_only=True):
    """Looks at a run's surroundings: first at mounted folders, at the end at all.

    Args:
        mounts: those of the caller.
        wanted: paths in the container that count whatever their names, and are copied to ``kept``.
        kept: folder for copies.
        offline: the run has no network.
        copies: folder for copies of all files, as far as there is room (``COPIED``); None for none.
        targets: where something is mounted in the container, the project included.
        shown: path in the container that is copied to ``kept`` if the program left something there; empty for none.
    """

    mounts: Sequence[Mount]
    wanted: Sequence[str]
    kept: Path
    targets: Sequence[str] = ()
    shown: str = ""
    copies: Path | None = None
    offline: bool = False
    files: dict[str, Output] = msgspec.field(default_factory=dict)
    left_out: list[str] = msgspec.field(default_factory=list)
    _noise: list[str] = msgspec.field(default_factory=list)
    _before: dict[str, Mapping[str, workspace.FileState]] = msgspec.field(default_factory=dict)
    _copied: int = 0
    _empty: list[str] = msgspec.field(default_factory=list)
    _special: dict[str, list[str]] = msgspec.field(default_factory=dict)

    def look_first(self) -> None:
        """Note the state of folders that are mounted to be written; the program has not started."""
        for mount in self.mounts:
            if not mount.read_only:
                special = self._special.setdefault(mount.target, [])
                found = workspace.scan_mount(mount.source, MOST_SCANNED, special)
                if found is None:
                    self.left_out.append(f"{mount.target} has more than {MOST_SCANNED:,} files and was not looked at")
                else:
                    self._before[mount.target] = found

    def found_mounted(self, most: int) -> dict[str, workspace.FileState]:
        """Return what the program found in mounted folders, by path inside; no folder with more than ``most`` files.

        Of what is mounted to be read only, that is what is there now.
        """
        found: dict[str, workspace.FileState] = {}
        for mount in self.mounts:
            before = self._before.get(mount.target)
            if mount.read_only:
                with suppress(OSError):  # a network disk that is gone by now is no reason to lose the run's end
                    before = workspace.scan_mount(mount.source, most)
            if before is not None and len(before) <= most:
                place = mount.target.rstrip("/")
                found |= {f"{place}/{path}" if path else mount.target: state for path, state in before.items()}
        return found

    def look_inside(self, container: OwnFiles) -> None:
        """Digest what is in the container's own layer; the program has ended, the container is still there."""
        try:
            changes = container.changes()
            above = _above(changes)
            files = [path for path, change in changes.items() if change != "deleted" and path not in above]
            paths = [path for path in files if self._counts(path) or (is_lock(path) and not self._is_mounted(path))]
            self._noise += (path for path in {*files}.difference(paths) if not self._is_mounted(path))
            self._read(container, paths, changes)
        except EngineError as error:
            self.left_out.append(f"the container's own files were not looked at: {error.message}")

    def look_last(self, memory: Mapping[str, Any]) -> tuple[tuple[Output, ...], tuple[str, ...]]:
        """Add what is in mounted folders and what was in memory.

        Args:
            memory: what the hook found there (``memory.json``); empty if it found nothing.

        Returns:
            All files by path, and what was not looked at, a sentence each.
        """
        for target, before in self._before.items():
            self._mounted(next(mount for mount in self.mounts if mount.target == target), before)
        self._in_memory(memory)
        self.left_out += (*notes_on(self._noise, offline=self.offline), *notes_on_empty(self._empty))
        for path in self.wanted:
            if not any(_below(found, path) for found in self.files):
                self.left_out.append(f"{NOTHING_LEFT}{path}")
        paths = sorted(self.files)
        if len(paths) > MOST_FILES:
            self.left_out.append(f"{plural(len(paths) - MOST_FILES, 'file')} outside the project are not listed")
        return tuple(self.files[path] for path in paths[:MOST_FILES]), tuple(dict.fromkeys(self.left_out))

    def _counts(self, path: str) -> bool:
        return not self._is_mounted(path) and (self._wanted(path) or not is_noise(path))

    def _is_mounted(self, path: str) -> bool:
        return any(_below(path, target) for target in self.targets)

    def _wanted(self, path: str) -> bool:
        return any(_below(path, each) for each in self.wanted)

    def _is_kept(self, path: str) -> bool:
        return self._wanted(path) or (self.shown != "" and _below(path, self.shown))

    def _mounted(self, mount: Mount, before: Mapping[str, workspace.FileState]) -> None:
        special = list[str]()
        after = workspace.scan_mount(mount.source, MOST_SCANNED, special)
        before_special = self._special.get(mount.target, ())
        place = mount.target.rstrip("/")
        self.left_out += notes_on_special(
            (f"{place}/{path}" for path in before_special), (f"{place}/{path}" for path in special)
        )
        if after is None:
            self.left_out.append(f"{mount.target} has more than {MOST_SCANNED:,} files now and was not looked at")
            return
        found, _ = workspace.changes(mount.source, before, after)
        for each in found:
            path = f"{mount.target.rstrip('/')}/{each.path}" if each.path else mount.target
            if not self._wanted(path) and is_noise(f"/{each.path}"):
                if not is_lock(path) or not holds_nothing(read_foreign(mount.source / each.path, MOST_OF_LOCK)):
                    self._noise.append(path)
            else:
                self.files[path] = msgspec.structs.replace(each, path=path)
                if each.sha256 is None:
                    self._name([path], _CLOSED)
                self._copy_mounted(mount.source, each, path)

    def _in_memory(self, listing: Mapping[str, Any]) -> None:
        """Take what the process that ended last found in memory file systems; a program could have damaged it."""
        files = listing.get("files")
        for each in files if isinstance(files, list) else ():
            with suppress(KeyError, TypeError, ValueError, OverflowError):
                path, size, digest = encodable(str(each["path"])), int(each["size"]), each["sha256"]
                if not path.startswith("/") or not self._counts(path):
                    self._noise += [path] if not self._is_mounted(path) and (size or not is_lock(path)) else []
                    continue
                sha256 = digest if isinstance(digest, str) and re.fullmatch(r"[0-9a-f]{64}", digest) else None
                self.files[path] = Output(path=path, change="created", size=size, sha256=sha256)
                if sha256 is None:
                    self.left_out.append(f"{path} lay in memory and was too large to be compared")
        caches = listing.get("caches")
        self._noise += [each for each in caches if isinstance(each, str)] if isinstance(caches, list) else []
        more = listing.get("left_out")
        if isinstance(more, int) and more > 0:
            self.left_out.append(f"{more} more files were in memory and were not looked at")
        caches_beyond = listing.get("more_caches")
        if isinstance(caches_beyond, int) and caches_beyond > 0:
            self.left_out.append(f"{caches_beyond:,} more files were in folders of caches and were not looked at")

    def _read(self, container: OwnFiles, paths: Sequence[str], changes: Mapping[str, FileChange]) -> None:
        """Read files by the topmost folders that hold nothing else than new files."""
        if not paths:
            return
        import tarfile

        left = MOST_BYTES
        wanted = {*paths}
        for top, expected in _by_top(paths, changes).items():
            why = _CLOSED
            if left > 0:
                try:
                    with container.archive(top) as stream, suppress(tarfile.TarError):
                        left -= self._unpack(stream, PurePosixPath(top).parent, wanted, expected, changes, left)
                except EngineError as error:
                    why = error.message
            if left <= 0:
                why = f"more than {human_bytes(MOST_BYTES)} were written"
            self._name(sorted(expected), why)
            for path in (each for each in expected if self._counts(each)):
                change: Literal["created", "changed"] = "changed" if changes[path] == "changed" else "created"
                self.files[path] = Output(path=encodable(path), change=change, size=0, sha256=None)

    def _name(self, paths: Sequence[str], why: str) -> None:
        """Name what was not looked at: the first few, and how many more."""
        for path in paths[:_NAMED]:
            self.left_out.append(f"{encodable(path)} was not looked at: {why}")
        if len(paths) > _NAMED:
            place = encodable(str(PurePosixPath(paths[0]).parent))
            self.left_out.append(f"{len(paths) - _NAMED:,} more files, such as in {place}, were not looked at: {why}")

    def _unpack(
        self,
        stream: IO[bytes],
        above: PurePosixPath,
        paths: set[str],
        expected: set[str],
        changes: Mapping[str, FileChange],
        limit: int,
    ) -> int:
        """Digest the files of a tar stream that count, and take what came from ``expected``; returns bytes read."""
        import tarfile

        count = 0
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                path = str(above / member.name.rstrip("/"))
                count += member.size
                if count > limit:
                    return count
                if member.isdir() and changes.get(path) == "changed" and path not in _SMALL:
                    expected.discard(path)
                    break  # a folder of the image in which something came and went: nothing in it has changed
                if path not in paths or not (member.isfile() or member.issym() or member.islnk()):
                    if member.isdir() and path in paths and changes.get(path) == "created" and self._counts(path):
                        self._empty += [] if _TEMPORARY.match(path) else [path]
                    if member.isfifo() and path in paths and self._counts(path):
                        self.left_out += notes_on_special((), (path,))
                    expected.discard(path)
                    continue
                if not self._counts(path):  # a lock by its name
                    data = archive.extractfile(member) if member.isfile() else None
                    if not holds_nothing(data.read(MOST_OF_LOCK + 1) if data else None):
                        self._noise.append(path)
                    expected.discard(path)
                    continue
                change: Literal["created", "changed"] = "changed" if changes[path] == "changed" else "created"
                self.files[path] = self._output(archive, member, path, change, above)
                expected.discard(path)
        return count

    def _output(
        self,
        archive: tarfile.TarFile,
        member: tarfile.TarInfo,
        path: str,
        change: Literal["created", "changed"],
        above: PurePosixPath,
    ) -> Output:
        shown, mode = encodable(path), f"{stat.S_IMODE(member.mode):03o}"
        first = self.files.get(str(above / member.linkname)) if member.islnk() else None
        if first is not None:  # a second name of a file that came before
            return Output(path=shown, change=change, size=first.size, sha256=first.sha256, mode=mode)
        if member.issym():
            return Output(path=shown, change=change, size=0, sha256=sha256_bytes(os.fsencode(member.linkname)))
        data = archive.extractfile(member)
        sha256 = self._digest(data, path, member.size) if data else None
        return Output(path=shown, change=change, size=member.size, sha256=sha256, mode=mode)

    def _digest(self, data: IO[bytes], path: str, size: int) -> str:
        """Return the SHA-256; a file that is wanted, or whose content is compared, is copied too."""
        import hashlib

        digest = hashlib.sha256()
        with ExitStack() as streams:
            kept = streams.enter_context(_made(self.kept / path.lstrip("/"))) if self._is_kept(path) else None
            copy = streams.enter_context(_Copy(self._place_of_copy(path, size)))
            while piece := data.read(_PIECE):
                digest.update(piece)
                copy.write(piece)
                if kept is not None:
                    kept.write(piece)
        return digest.hexdigest()

    def _place_of_copy(self, path: str, size: int) -> Path | None:
        """Return where a file is copied to whose content is compared; None if that is not wanted or too much."""
        if self.copies is None or size > COPIED_FILE or self._copied + size > COPIED:
            return None
        self._copied += size
        return self.copies / path.lstrip("/")

    def _copy_mounted(self, source: Path, output: Output, path: str) -> None:
        """Copy a file of a mounted folder; one that is another one by now is compared by its bytes."""
        file = source / output.path if output.path else source
        if output.sha256 is None or file.is_symlink() or (place := self._place_of_copy(path, output.size)) is None:
            return
        data = read_foreign(file, COPIED_FILE)
        if data is not None and sha256_bytes(data) == output.sha256:
            with _Copy(place) as copy:
                copy.write(data)


class _Copy:
    """A file that is written as far as that is possible: without it, bytes are compared.

    Args:
        path: where; None for nowhere.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._stream: IO[bytes] | None = None

    def __enter__(self) -> _Copy:
        if self._path is not None:
            with suppress(OSError):
                self._stream = _made(self._path)
        return self

    def write(self, data: bytes) -> None:
        """Add a piece; a disk that is full ends it."""
        if self._stream is not None:
            try:
                self._stream.write(data)
            except OSError:
                self._give_up()

    def __exit__(self, *_: object) -> None:
        if self._stream is not None:
            try:
                self._stream.close()
            except OSError:
                self._give_up()

    def _give_up(self) -> None:
        stream, self._stream = self._stream, None
        with suppress(OSError):
            if stream is not None:
                stream.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def _made(path: Path) -> IO[bytes]:
    """Open a file to be written, unbuffered; folders above it are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("wb", buffering=0)


def _below(path: str, top: str) -> bool:
    return path == top or path.startswith(f"{top}/")


def _by_top(paths: Sequence[str], changes: Mapping[str, FileChange]) -> dict[str, set[str]]:
    """Return what is to be read in turn, each with the files and empty folders that are expected in it."""
    found: dict[str, set[str]] = {top: set() for top in _tops(paths, changes)}
    folders = _above(changes)
    for path in paths:
        if path not in folders:
            top = (
                path if path in found else next(str(each) for each in PurePosixPath(path).parents if str(each) in found)
            )
            found[top].add(path)
    return found


def _above(paths: Iterable[str]) -> set[str]:
    """Return all folders above some paths."""
    return {str(parent) for path in paths for parent in PurePosixPath(path).parents}


def _tops(paths: Sequence[str], changes: Mapping[str, FileChange]) -> Iterator[str]:
    """Yield files and folders that together hold all files, each of them once; folders that were there are left out.

    Many files in a folder that was there, such as ``/tmp``, are read with all of it: each call costs milliseconds.
    """
    tops: dict[str, None] = {}
    folders = _above(changes)
    for path in paths:
        if path in folders:
            continue  # a folder
        top = PurePosixPath(path)
        while changes.get(str(top.parent)) == "created":
            top = top.parent
        tops[str(top)] = None
    siblings: dict[str, list[str]] = {}
    for each in tops:
        siblings.setdefault(str(PurePosixPath(each).parent), []).append(each)
    for folder, found in siblings.items():
        yield from [folder] if len(found) > _SINGLE and folder in _SMALL else found
