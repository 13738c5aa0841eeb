"""Files that are whole or absent: atomic writes and advisory locks.

Write to a temporary name in the same folder, fsync, rename: a killed command leaves the old file valid. Temporary files
and folders are held by a lock that ends with their process: the next command that writes there removes those of killed
ones.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import BufferedReader, BufferedWriter, FileIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from envbuild.core.leftovers import registered
from envbuild.core.patterns import lazy

if TYPE_CHECKING:
    import tempfile

_OWNED = ".owned"
_UNOWNED = f"{_OWNED}.new"
_RANDOM = lazy(r"\.?[a-z0-9_]{8}\Z")
"""The end of a name that ``tempfile`` or ``random_name`` makes."""
_TEMPORARY = lazy(r"[a-z0-9_]{8}\.tmp")
_PIECE = 1 << 20
_DEEP = 16
"""Levels from which on it is worth its import to open a folder by one call."""
_NOTHING_LEFT = 1 << 16
"""Bytes below which a disk is taken for full."""
_FICLONE = 0x40049409  # linux/fs.h; not in the fcntl module

ELSEWHERE = "free some space, or choose another folder: export ENVBUILD_STORE=FOLDER"
"""The way out when the store's disk takes no more."""

_OTHERS = "choose a folder that this user may write to: export ENVBUILD_STORE=FOLDER"
_WRITABLE = (
    "mount it so that it can be written, or copy the store to another folder: cp -a STORE FOLDER; "
    "export ENVBUILD_STORE=FOLDER"
)
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Numbers of errors of a file system that takes no more, or no more of this user."""
NOT_WRITABLE = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
"""Numbers of errors where a file system, or a folder's owner, lets this user write nothing."""

SYSTEM_FOLDERS = "this root lacks what every Linux has: mount --rbind /dev ROOT/dev; mount -t proc proc ROOT/proc"
"""The way out where a device or a file of ``/proc`` is missing, as in a root that somebody made for ``chroot``."""
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)
"""What file systems without locks answer: Lustre without its option ``flock``, NFS without its daemon for locks."""


def file_system(folder: Path, table: Path = Path("/proc/self/mountinfo")) -> str:
    """Return the type of a folder's file system as proc_pid_mountinfo(5) names it; empty if it is not known.

    Args:
        folder: one that exists.
        table: the mounts that this process sees.
    """
    with suppress(OSError):
        device = folder.stat().st_dev
        number = f"{os.major(device)}:{os.minor(device)}"
        for line in table.read_text(errors="replace").splitlines():
            mount, _, kind = line.partition(" - ")
            if mount.split()[2] == number:
                return kind.split(" ", 1)[0]
    return ""


def way_out(number: int | None) -> str:
    """Return what to do where the store's file system refuses a write, by the error's number."""
    if number in (errno.EACCES, errno.EPERM):
        return _OTHERS
    return _WRITABLE if number == errno.EROFS else ELSEWHERE


def no_space(number: int, on: str = "") -> str:
    """Return that there is no space left, and that it is a quota that ended where that is so.

    Args:
        number: the error's, one of ``NO_SPACE``.
        on: what follows where the disk is full.
    """
    return "no space left within the disk quota (quota -s)" if number == errno.EDQUOT else f"no space left{on}"


@contextmanager
def atomic_file(path: Path, *, mode: int = 0o644, sync: bool = True, hand_over: bool = False) -> Iterator[BinaryIO]:
    """Open a temporary file that takes ``path``'s name when the block ends well, and vanishes otherwise.

    Args:
        path: final name; its folder is made if need be.
        mode: permission bits of the final file, whatever the umask.
        sync: wait for the disk, so that the file is whole after a power cut too; not worth its time for what is
            checked before use or can be made again.
        hand_over: if this process is root's, give the file to whom its folder belongs.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = _begun(path)
    try:
        with os.fdopen(descriptor, "w+b") as stream:
            yield stream
            stream.flush()
            with suppress(
                PermissionError
            ):  # of its own making, as narrow as can be: it stays that where modes are fixed
                os.fchmod(stream.fileno(), mode)
            if hand_over and os.geteuid() == 0:
                above = path.parent.stat()
                with suppress(PermissionError):  # NFS with root_squash
                    os.fchown(stream.fileno(), above.st_uid, above.st_gid)
            if sync:
                os.fsync(stream.fileno())
            Path(name).replace(path)  # while it is held
    except BaseException as error:
        with suppress(FileNotFoundError):
            Path(name).unlink()
        if isinstance(error, OSError):
            _name(error, path)
        raise


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name what is written in errors of a full disk: write(2) knows no names, and there is more than one disk."""
    try:
        yield
    except OSError as error:
        _name(error, path)
        raise


def _name(error: OSError, path: Path) -> None:
    if error.errno in NO_SPACE and not error.filename:
        error.filename = str(path)


def is_full(folder: Path) -> bool:
    """Whether a folder's file system takes nothing more, of bytes or of files; False if it cannot be found out."""
    with suppress(OSError):
        found = os.statvfs(folder)
        return found.f_bavail * found.f_frsize < _NOTHING_LEFT or (found.f_files > 0 and found.f_favail == 0)
    return False


def _begun(path: Path) -> tuple[int, str]:
    """Make a temporary file next to ``path``, held by this process, and remove those of killed ones."""
    prefix = f".{path.name}."
    try:
        for entry in path.parent.iterdir():
            if entry.name.startswith(prefix) and _TEMPORARY.fullmatch(entry.name, len(prefix)):
                remove_dead(entry)
        while True:
            descriptor, name = _new_file(f"{path.parent}/{prefix}")
            if _held(descriptor, Path(name)):
                return descriptor, name
            os.close(descriptor)
    except OSError as error:
        error.filename = str(path)  # no one knows the temporary name
        raise


def random_name() -> str:
    """Return 8 characters for a temporary name; importing ``tempfile`` for them takes 5 ms."""
    return os.urandom(4).hex()


def _new_file(start: str) -> tuple[int, str]:
    """Make a file that only this user may read, with a name of its own that starts so; returns both."""
    while True:
        name = f"{start}{random_name()}.tmp"
        with suppress(FileExistsError):
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            return os.open(name, flags, 0o600), name


def _held(descriptor: int, path: Path) -> bool:
    """Hold a new file; False if it was taken for a dead one before that. A file system may know no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def remove_dead(path: Path) -> int:
    """Remove a temporary file that no living process holds; returns its bytes, 0 if it stays."""
    with suppress(OSError), open_regular(path, follow=False) as stream:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
        return os.fstat(stream.fileno()).st_size
    return 0


def atomic_write(path: Path, data: bytes, *, mode: int = 0o644, sync: bool = True) -> None:
    """Write ``data`` to ``path`` as ``atomic_file`` does; an equal file is left alone."""
    with suppress(OSError):
        if read_regular(path, len(data)) == data:
            return
    with atomic_file(path, mode=mode, sync=sync) as stream:
        stream.write(data)


@contextmanager
def temporary_folder(prefix: str, beside: Path | None = None) -> Iterator[Path]:
    """Make a folder that goes with the block, or with the process that made it.

    It holds a locked file. Folders of this prefix and this user whose lock nobody holds are those of killed processes:
    they are removed first.

    Args:
        beside: the folder to make it in; by default the system's for temporary files.
    """
    import tempfile

    above = Path(tempfile.gettempdir()) if beside is None else beside
    _sweep(above, prefix)
    folder, stream = _owned_folder(prefix, above)
    try:
        with folder as name, registered(Path(name)), stream:
            yield Path(name)
    finally:
        _gone_when_closed(Path(folder.name))


def _gone_when_closed(folder: Path) -> None:
    """Remove an empty folder: on FUSE and NFS it could not go as long as its locked file was open."""
    with suppress(OSError):
        folder.rmdir()


def _owned_folder(prefix: str, above: Path) -> tuple[tempfile.TemporaryDirectory[str], BufferedWriter]:
    """Make a temporary folder and a locked file in it; until it is locked others may take the folder for a dead one."""
    import tempfile

    while True:
        folder = tempfile.TemporaryDirectory(prefix=prefix, dir=above, ignore_cleanup_errors=True)
        new = Path(folder.name, _UNOWNED)
        with suppress(FileNotFoundError), ExitStack() as stack:
            stream = stack.enter_context(new.open("xb"))
            hold(stream, new)
            new.rename(new.with_name(_OWNED))  # nobody sees it unlocked
            stack.pop_all()
            return folder, stream
        folder.cleanup()


def _sweep(above: Path, prefix: str) -> None:
    """Remove the temporary folders of killed processes."""
    with os.scandir(above) as entries:
        for entry in entries:
            if entry.name.startswith(prefix) and entry.is_dir(follow_symlinks=False):
                remove_dead_folder(Path(entry.path))


def remove_dead_folder(path: Path) -> None:
    """Remove a temporary folder of this user that no living process holds; anything else stays."""
    with suppress(OSError):
        if path.lstat().st_uid != os.geteuid():
            return
        for name in (_OWNED, _UNOWNED):
            with suppress(FileNotFoundError), open_regular(path / name, follow=False) as stream:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                import shutil

                shutil.rmtree(path, ignore_errors=True)
                break
        else:
            if not _RANDOM.search(path.name):
                return
        _gone_when_closed(path)  # or its process was killed before it could put a file into it


def open_regular(path: Path | str, *, follow: bool = True) -> BufferedReader:
    """Open a regular file for reading, without waiting for anybody.

    A program may have put a link there, which leads anywhere on the host, or a FIFO, which never ends.

    Args:
        follow: take the target of a link; else a path whose last part is a link is refused.

    Raises:
        OSError: as ``open`` does; ``EINVAL`` for a FIFO, a device or a folder, ``ELOOP`` for a link that is not
            followed.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def read_regular(path: Path | str, limit: int, *, follow: bool = True, cut: bool = False) -> bytes:
    """Return the content of a regular file, without waiting and without reading more than is expected.

    Args:
        limit: most bytes that the file may have.
        follow: as ``open_regular`` has it.
        cut: of a larger file return the first ``limit`` bytes.

    Raises:
        OSError: as ``open_regular`` does; ``EFBIG`` for a larger file.
    """
    with open_regular(path, follow=follow) as stream:
        size = os.fstat(stream.fileno()).st_size
        data = b"" if size > limit and not cut else _read(stream, size, limit + (not cut))
    if not cut and max(size, len(data)) > limit:
        raise OSError(errno.EFBIG, f"more than {limit} bytes", str(path))
    return data


def _read(stream: BufferedReader, size: int, most: int) -> bytes:
    """Return what a file holds, ``most`` bytes of it: ``read(most)`` takes so much memory, whatever there is to read.

    Args:
        size: of the file when it was opened; it may grow, and files of ``/proc`` have none.
    """
    data = stream.read(min(most, size + 1))
    if len(data) <= size or len(data) == most:
        return data
    pieces = [data]
    while (left := most - sum(map(len, pieces))) and (piece := stream.read(min(left, _PIECE))):
        pieces.append(piece)
    return b"".join(pieces)


def read_foreign(path: Path, limit: int, *, cut: bool = False) -> bytes | None:
    """Return what ``read_regular`` does of a path that is no link; None if there is nothing of that kind to read."""
    try:
        return read_regular(path, limit, follow=False, cut=cut)
    except OSError:
        return None


@contextmanager
def folder_below(root: Path, *names: str, make: bool = False, owner: tuple[int, int] | None = None) -> Iterator[Path]:
    """Open the folder ``root/names…`` and yield a path to it, which holds whatever happens to these names meanwhile.

    None of the names may be a link: a program could have put it there to have this process, perhaps root under sudo,
    read or write elsewhere. ``root`` itself may lead through links.

    Args:
        make: make what is missing.
        owner: user and group of what root makes; by default those of the folder that it is made in.

    Raises:
        OSError: as ``open`` does; ``ENOTDIR`` or ``ELOOP`` for a link; it names the path, not the descriptor.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    descriptor = os.open(root, flags)
    held, begin = "", 0
    try:
        if len(names) > _DEEP and not any(name in ("", ".", "..") or "/" in name for name in names):
            from envbuild.core.deep_paths import open_below

            known = names[:-1] if make else names  # most often the folder above is there
            if (below := open_below(descriptor, known, flags)) is not None:
                os.close(descriptor)
                descriptor, begin = below, len(known)
        for at, name in enumerate(names[begin:], begin):
            if name in ("", ".", "..") or "/" in name:
                raise OSError(errno.EINVAL, "not the name of a folder", str(root.joinpath(*names[: at + 1])))
            try:
                if make:
                    _make_below(descriptor, name, owner)
                below = os.open(name, flags | os.O_NOFOLLOW, dir_fd=descriptor)
            except OSError as error:
                error.filename = str(root.joinpath(*names[: at + 1]))
                raise
            os.close(descriptor)
            descriptor = below
        held = f"/proc/self/fd/{descriptor}"
        yield Path(held)
    except OSError as error:
        if held and isinstance(error.filename, str) and error.filename.startswith(held):
            error.filename = f"{root.joinpath(*names)}{error.filename[len(held) :]}"
        raise
    finally:
        os.close(descriptor)


def _make_below(descriptor: int, name: str, owner: tuple[int, int] | None) -> None:
    """Make a folder in an open one unless it is there; one that root makes gets an owner."""
    try:
        os.mkdir(name, dir_fd=descriptor)
    except FileExistsError:
        return
    if os.geteuid() == 0:
        above = os.fstat(descriptor)
        with suppress(PermissionError):  # NFS with root_squash
            os.chown(name, *(owner or (above.st_uid, above.st_gid)), dir_fd=descriptor, follow_symlinks=False)


def clone(source: BinaryIO, target: BinaryIO) -> bool:
    """Replace ``target``'s content by sharing the blocks of ``source``; False if the file system cannot."""
    try:
        fcntl.ioctl(target.fileno(), _FICLONE, source.fileno())
    except OSError:
        return False
    return True


def boot_id() -> str:
    """Return the kernel's name for this run of the machine, 36 characters (random(4)); empty if it has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def hold(file: int | FileIO | BinaryIO, path: Path, how: int = fcntl.LOCK_EX) -> None:
    """Lock an open file as ``flock`` does; raises ``OSError`` that names ``path`` where there are no locks."""
    try:
        fcntl.flock(file, how)
    except OSError as error:
        if error.errno in _NO_LOCKS and _system_has_locks():
            raise OSError(error.errno, "its file system has no locks (flock)", str(path)) from None
        raise


def _system_has_locks() -> bool:
    """Whether the call works where the kernel has it for sure, in memory: a filter of system calls may refuse it."""
    with suppress(OSError):
        descriptor = os.memfd_create("lock")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        finally:
            os.close(descriptor)
    return True


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive advisory lock on ``path`` (made if need be); the kernel frees it if the process dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    with os.fdopen(os.open(path, flags, 0o666), "rb", buffering=0) as stream:
        hold(stream, path)
        yield


@contextmanager
def claimed(path: Path, check: Callable[[], None] = lambda: None) -> Iterator[BinaryIO]:
    """Hold ``path`` itself, open for reading and writing (made if need be), exclusively; it may be renamed or removed.

    Unlike ``locked`` no lock file stays behind: after a wait the name is looked up again, so the next process never
    holds a file that its last holder renamed or removed. Threads of one process exclude each other too.

    Args:
        check: called several times a second while waiting; raise from it to stop waiting.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with os.fdopen(
            os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600), "r+b", buffering=0
        ) as stream:
            try:
                hold(stream, path, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                check()
                time.sleep(0.1)
                continue
            if not is_named(stream, path):
                continue
            yield stream
            return


def is_named(stream: BinaryIO, path: Path) -> bool:
    """Whether ``path`` still names the open file."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(stream.fileno()), path.stat())
    return False
