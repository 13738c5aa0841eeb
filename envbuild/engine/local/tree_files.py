"""A layer's tar as a folder and back: made in one pass over its bytes, and read again byte for byte.

Only what envbuild's own writer makes is read (``envbuild/image/tar/layer.py``): ustar, and PAX headers where ustar is
too small. Every folder above an entry is one that was made here, in a tree that nobody else sees yet, so that no link
in a layer can lead out of it.
"""

# One system call for each of sixty thousand files counts here, so paths are strings:
# ruff: noqa: PTH101, PTH102, PTH104, PTH115, PTH211

from __future__ import annotations

import errno
import hashlib
import os
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from envbuild.core.fs import file_system
from envbuild.engine.local.identities import gives_owners
from envbuild.engine.local.tar_entries import (
    BLOCK,
    FIFO,
    FILE,
    FOLDER,
    LINK,
    PAX,
    SYMLINK,
    Entry,
    checked_size,
    entries,
    entry_of,
    octal,
    records,
)
from envbuild.errors import BuildError

_OTHER_DISK = "choose another disk: export ENVBUILD_STORE=FOLDER"
TREE, HEADERS = "tree", "headers"
_PIECE = 1 << 22
_WRITABLE = 0o002
_KINDS = {FILE: stat.S_IFREG, SYMLINK: stat.S_IFLNK, FIFO: stat.S_IFIFO, FOLDER: stat.S_IFDIR}


class TreeWriter:
    """Makes the files of a layer from the bytes of its tar, which come in pieces of any size.

    As root files get their owners; everybody else owns all of it.

    Args:
        folder: receives the files in ``tree`` and, compressed, what the tar has besides their content in ``headers``.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder / TREE)
        os.mkdir(self._folder)
        os.chmod(self._folder, 0o755)  # noqa: S103 - the image's root, whatever the umask
        self._headers = open(folder / HEADERS, "wb")  # noqa: SIM115 - closed by close
        self._compressor = zlib.compressobj(1)
        self._owners = gives_owners()
        self._folders = {""}
        self._late: list[tuple[str, int, int]] = []
        self._writable: list[str] = []
        self._head = bytearray()
        self._wanted = BLOCK
        self._pax: Mapping[bytes, bytes] = {}
        self._file: tuple[int, Entry] | None = None
        self._left = self._padding = 0
        self._ended = False
        self._adopted = ""

    def write(self, piece: bytes | bytearray | memoryview) -> int:
        """Take the next bytes; returns how many they are.

        Raises:
            BuildError: they are no layer's.
            OSError: the disk is full, or a file cannot be made.
        """
        data = memoryview(piece)
        place = 0
        try:
            while place < len(data):
                place += self._take(data[place:])
        except ValueError as error:  # a number that is none, a name with a zero byte
            raise BuildError(f"a layer has a header that is damaged: {error}") from error
        return len(data)

    def adopt(self, head: bytes, source: str) -> None:
        """Take the headers of a file's entry, and for its content the file itself, on this file system; it moves.

        Raises:
            BuildError: as ``write`` does; or the file is of another kind or size.
            OSError: it cannot be moved or changed.
        """
        self._adopted = source
        try:
            self.write(head)
        finally:
            self._adopted = ""

    def finish(self) -> list[str]:
        """Give folders their modes and times; returns those that everybody may write to, absolute in the image.

        Raises:
            BuildError: the tar has not come to its end.
            OSError: as ``write`` does.
        """
        if not self._ended:
            raise BuildError(f"a layer ends in the middle of {'a file' if self._left else 'an entry'}")
        self._headers.write(self._compressor.flush())
        self.close()
        for path, mode, mtime in reversed(self._late):
            os.chmod(path, mode)
            os.utime(path, (mtime, mtime))
        return self._writable

    def close(self) -> None:
        """Close what is open; what was made stays."""
        self._headers.close()
        if self._file is not None:
            os.close(self._file[0])
            self._file = None

    def _take(self, data: memoryview) -> int:
        """Take some of the next bytes, one at least; returns how many."""
        if self._left:
            return self._take_content(data)
        if self._padding:
            count = min(self._padding, len(data))
            self._padding -= count
            return count
        if self._ended:
            self._note(data)
            return len(data)
        count = min(self._wanted - len(self._head), len(data))
        self._head += data[:count]
        if len(self._head) == self._wanted:
            self._take_header(bytes(self._head))
        return count

    def _take_content(self, data: memoryview) -> int:
        assert self._file is not None  # noqa: S101 - it has bytes left
        count = os.write(self._file[0], data[: self._left])
        self._left -= count
        if not self._left:
            self._end_file()
        return count

    def _take_header(self, head: bytes) -> None:
        """Take a header of one block, or an extended one with its records."""
        if len(head) == BLOCK:
            if head[0] == 0:
                self._ended = True
            elif (size := checked_size(head)) and head[156:157] == PAX:
                self._wanted = BLOCK + -(-size // BLOCK) * BLOCK
                return
        self._note(head)
        self._head.clear()
        self._wanted = BLOCK
        if len(head) > BLOCK:
            self._pax = dict(records(head[BLOCK : BLOCK + octal(head[124:136])]))
        elif not self._ended:
            entry, self._pax = entry_of(head, self._pax), {}
            if entry.path:
                self._make(entry)
            elif entry.size:
                raise BuildError("a layer holds a file without a name")

    def _note(self, data: bytes | memoryview) -> None:
        self._headers.write(self._compressor.compress(data))

    def _make(self, entry: Entry) -> None:
        above, _, name = entry.path.rpartition("/")
        if above not in self._folders or name in ("", ".", "..") or "\0" in entry.path:
            raise BuildError(f"a layer holds {entry.path!r}, whose folder it does not hold")
        path = f"{self._folder}/{entry.path}"
        if entry.kind == FILE:
            self._begin_file(entry, path)
        elif entry.kind == FOLDER:
            self._make_folder(entry, path)
        elif entry.kind == SYMLINK:
            os.symlink(entry.target, path)
            self._own(path, entry)
            os.utime(path, (entry.mtime, entry.mtime), follow_symlinks=False)
        elif entry.kind == LINK:
            above, _, name = entry.target.rpartition("/")
            if above not in self._folders or name in ("", ".", ".."):
                raise BuildError(f"a layer holds a hard link to {entry.target!r}, which it does not hold")
            os.link(f"{self._folder}/{entry.target}", path, follow_symlinks=False)
        else:
            os.mkfifo(path, entry.mode)
            self._own(path, entry)
            os.chmod(path, entry.mode)
            os.utime(path, (entry.mtime, entry.mtime))

    def _make_folder(self, entry: Entry, path: str) -> None:
        if entry.path in self._folders:
            raise BuildError(f"a layer holds {entry.path!r} twice")
        os.mkdir(path, 0o700)
        self._own(path, entry)
        self._folders.add(entry.path)
        self._late.append((path, _mode_here(entry, owners=self._owners), entry.mtime))
        if entry.mode & _WRITABLE:
            self._writable.append(f"/{entry.path}")

    def _begin_file(self, entry: Entry, path: str) -> None:
        if self._adopted:
            self._move(entry, path)
            return
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self._file = number, entry
        self._left, self._padding = entry.size, -entry.size % BLOCK
        if not entry.size:
            self._end_file()

    def _move(self, entry: Entry, path: str) -> None:
        """Give a file that is there its place; what it has besides its content goes.

        One that has other names where it was is copied: their removal later would give it another time of change.
        """
        if os.lstat(self._adopted).st_nlink > 1:
            _copy(self._adopted, path)
        else:
            os.rename(self._adopted, path)
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        self._file = number, entry
        found = os.fstat(number)
        if not stat.S_ISREG(found.st_mode) or found.st_size != entry.size:
            raise BuildError(f"{entry.path!r} has changed while a layer was made of it")
        for key in _attributes(number):
            with suppress(OSError):  # labels of a security module are the host's
                os.removexattr(number, key)
        if self._owners:
            os.fchown(number, entry.user, entry.group)
        self._end_file()

    def _end_file(self) -> None:
        assert self._file is not None  # noqa: S101 - it was begun
        number, entry = self._file
        self._own(number, entry)
        os.fchmod(number, entry.mode)
        for key, value in entry.attributes if self._owners else ():
            try:
                os.setxattr(number, key, value)
            except OSError as error:
                raise BuildError(
                    f"cannot give {entry.path} its attribute {key}: {error.strerror}",
                    f"the store's file system must keep it; {_OTHER_DISK}",
                ) from error
        os.utime(number, (entry.mtime, entry.mtime))
        self._file = None
        os.close(number)

    def _own(self, path: str | int, entry: Entry) -> None:
        if self._owners and (entry.user or entry.group):
            if isinstance(path, int):
                os.fchown(path, entry.user, entry.group)
            else:
                os.chown(path, entry.user, entry.group, follow_symlinks=False)


def _copy(source: str, target: str) -> None:
    """Copy a file's content to a new file; raises ``OSError``."""
    flags = os.O_NOFOLLOW | os.O_CLOEXEC
    with (
        open(os.open(source, os.O_RDONLY | os.O_NONBLOCK | flags), "rb", buffering=0) as stream,
        open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | flags, 0o600), "wb") as copy,
    ):
        while piece := stream.read(_PIECE):
            copy.write(piece)


def _attributes(number: int) -> list[str]:
    """Return the names of a file's extended attributes; none where a file system has none (FUSE, ramfs)."""
    try:
        return os.listxattr(number)
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        return []


def unpack(tar: Path, diff_id: str, folder: Path, advance: Callable[[int], None]) -> list[str]:
    """Unpack a layer into a folder while its bytes are hashed; returns the folders everybody may write to.

    Args:
        folder: as for ``TreeWriter``.
        advance: receives the number of bytes read.

    Raises:
        BuildError: the tar's SHA-256 is another, or it holds what no layer has.
        OSError: it cannot be read or written.
    """
    from concurrent.futures import ThreadPoolExecutor  # 5 ms, and a run that finds its trees needs none

    digest = hashlib.sha256()
    writer = TreeWriter(folder)
    try:
        with open(tar, "rb", buffering=0) as stream, ThreadPoolExecutor(1, thread_name_prefix="hash") as pool:
            while piece := stream.read(_PIECE):
                hashed = pool.submit(digest.update, piece)  # which lets go of the interpreter's lock
                writer.write(piece)
                hashed.result()
                advance(len(piece))
        if digest.hexdigest() != diff_id:
            raise _other(diff_id)
        return writer.finish()
    finally:
        writer.close()


def state(folder: Path) -> str:
    """Return a digest of what the file system knows of a tree's files, without reading them: 4 ms for 1,000.

    Kinds, sizes and times: whoever writes to a file, replaces it or changes its mode gives it another time of change,
    which nobody can set (inode(7), ctime). What a disk has damaged shows nowhere but in the content.

    Raises:
        OSError: it cannot be listed.
    """
    return state_and_last_change(folder)[0]


def state_and_last_change(folder: Path) -> tuple[str, int]:
    """Return what ``state`` does, and the latest time of change in nanoseconds; 0 for an empty tree."""
    digest = hashlib.blake2b(digest_size=16)
    last = 0
    left = [f"{folder / TREE}"]
    while left:
        above = left.pop()
        lines, below = [], []
        descriptor = os.open(above, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with os.scandir(descriptor) as found:  # its files are then looked up by their names alone
                for each in found:
                    known = each.stat(follow_symlinks=False)
                    changed = known.st_ctime_ns
                    last = max(last, changed)
                    lines.append(f"{each.name}\0{known.st_mode} {known.st_size} {known.st_mtime_ns} {changed}\n")
                    if stat.S_ISDIR(known.st_mode):
                        below.append(f"{above}/{each.name}")
        finally:
            os.close(descriptor)
        lines.sort()
        below.sort()
        digest.update("".join((*lines, "\n")).encode("utf-8", "surrogateescape"))
        left += below
    return digest.hexdigest(), last


def is_sound(folder: Path, advance: Callable[[int], None] = lambda amount: None) -> bool:
    """Read a tree's folder, which its diff ID names, and report whether it still is that layer, metadata included.

    Args:
        advance: receives the number of bytes read.
    """
    digest = hashlib.sha256()
    try:
        for chunk in tar_of(folder):
            digest.update(chunk)
            advance(len(chunk))
        return digest.hexdigest() == folder.name and _is_as_written(folder)
    except (OSError, ValueError, zlib.error, BuildError):
        return False


def tar_of(folder: Path) -> Iterator[bytes]:
    """Yield the tar of a tree, byte for byte the one that it was made from.

    Raises:
        OSError, ValueError, zlib.error, BuildError: a file is missing, or the headers are damaged.
    """
    headers = zlib.decompress((folder / HEADERS).read_bytes())
    written = 0
    for entry, end in entries(headers):
        if entry.kind == FILE and entry.size:
            yield headers[written:end]
            written = end
            left = entry.size
            with open(folder / TREE / entry.path, "rb", buffering=0) as stream:
                while left and (chunk := stream.read(min(left, _PIECE))):
                    left -= len(chunk)
                    yield chunk
            yield bytes(left + -entry.size % BLOCK)
    yield headers[written:]


def file_names(folder: Path) -> Iterator[str]:
    """Yield the paths of all entries of a tree that are no folders; raises as ``tar_of`` does."""
    for entry, _ in entries(zlib.decompress((folder / HEADERS).read_bytes())):
        if entry.kind != FOLDER:
            yield entry.path


def _is_as_written(folder: Path) -> bool:
    """Whether a tree has the entries of its headers and no others, with their kinds, modes, owners, links and times."""
    top, owners = f"{folder / TREE}", gives_owners()
    known = set()
    for entry, _ in entries(zlib.decompress((folder / HEADERS).read_bytes())):
        if not entry.path:
            continue
        path = f"{top}/{entry.path}"
        found = os.lstat(path)
        known.add(entry.path)
        if entry.kind == LINK:
            if not _is_linked(path, f"{top}/{entry.target}"):
                return False
        elif stat.S_IFMT(found.st_mode) != _KINDS[entry.kind] or int(found.st_mtime) != entry.mtime:
            return False
        elif entry.kind == SYMLINK:
            if os.readlink(path) != entry.target:
                return False
        elif stat.S_IMODE(found.st_mode) != _mode_here(entry, owners=owners):
            return False
        if owners and entry.kind != LINK:
            if (found.st_uid, found.st_gid) != (entry.user, entry.group):
                return False
            if any(os.getxattr(path, key, follow_symlinks=False) != value for key, value in entry.attributes):
                return False
    return all(path in known for path in _found_below(top, ""))


def _is_linked(path: str, target: str) -> bool:
    """Whether two names are of one file, or of two that an overlay made of one.

    Without its option ``index`` an overlay gives each name of a file of its lower layer a copy of its own as soon as
    that name is linked or written to (Linux, Documentation/filesystems/overlayfs.rst, "Non-standard behavior").
    """
    found, other = os.lstat(path), os.lstat(target)
    if os.path.samestat(found, other):
        return True
    if not stat.S_ISREG(found.st_mode) or file_system(Path(path).parent) != "overlay":
        return False
    import filecmp

    first, second = ((each.st_mode, each.st_uid, each.st_gid, each.st_mtime_ns) for each in (found, other))
    return first == second and filecmp.cmp(path, target, shallow=False)


def _found_below(folder: str, prefix: str) -> Iterator[str]:
    with os.scandir(folder) as found:
        for each in found:
            yield prefix + each.name
            if each.is_dir(follow_symlinks=False):
                yield from _found_below(each.path, f"{prefix}{each.name}/")


def _mode_here(entry: Entry, *, owners: bool) -> int:
    """Return the mode that an entry gets on the disk: who is not root must be able to remove it."""
    return entry.mode if owners or entry.kind != FOLDER else entry.mode | 0o700


def _other(diff_id: str) -> BuildError:
    return BuildError(
        f"the layer {diff_id[:12]}… is not as it was made: other bytes than its digest", "check: envbuild store verify"
    )
