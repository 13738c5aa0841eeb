"""The store: files named by their SHA-256, checked on the way in, shared by all projects of a user.

    <root>/sha256/ab/cdef…        objects, read-only
    <root>/part/abcdef…           objects on their way in; held by an advisory lock, resumed after an interruption
    <root>/derived/<kind>/<key>/  what can be made again from objects, each folder whole or absent
    <root>/leases/, <root>/locks/ who uses what: see ``envbuild.store.leases`` and ``envbuild.store.roots``
    <root>/CACHEDIR.TAG           states that this folder is a store: see ``envbuild.store.marker``

An object appears by a rename after its last byte was written, hashed and synced. Any number of commands may
share a store; one that is killed leaves at most a part, which the next command continues with.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from envbuild.core.digest import SHA256, canonical_json, sha256_bytes, sha256_file, sha256_stream
from envbuild.core.foreign_json import parse_json
from envbuild.core.fs import (
    NO_SPACE,
    atomic_write,
    boot_id,
    claimed,
    is_named,
    no_space,
    open_regular,
    way_out,
)
from envbuild.core.patterns import lazy
from envbuild.core.settings import setting
from envbuild.core.text import encodable
from envbuild.errors import BuildError, EnvbuildError, IntegrityError, UsageError
from envbuild.store import leases
from envbuild.store.marker import admit, make_folder

if TYPE_CHECKING:
    from envbuild.store.partial import Part

_KIND = lazy(r"[a-z0-9][a-z0-9-]*")
_SUMS, _BOOT = ".sums.json", ".boot"
_SUMMED_ELSEWHERE = frozenset({"layer.tar", "boot"})
"""Of a layer: its digest is in ``layer.json``, and when it was compared with it in ``boot`` (image/layer_cache.py)."""
Condition = Literal["sound", "damaged", "absent"]
REFUSED = NO_SPACE | {
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ELOOP,
}  # fmt: skip


def default_root(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the store that is set, else ``$XDG_CACHE_HOME/envbuild``, else ``~/.cache/envbuild``, absolute.

    A relative ``XDG_CACHE_HOME`` is ignored, as the XDG base directory specification requires.

    Raises:
        UsageError: none is set and there is no home folder; its name is no UTF-8, and could not be written down; or
            settings cannot be read.
    """
    root = _chosen_root(environ)
    if not str(root).isascii() and encodable(str(root)) != str(root):
        raise UsageError(
            f"the store's name is not UTF-8: {encodable(str(root))}", "choose another: export ENVBUILD_STORE=FOLDER"
        )
    return root


def _chosen_root(environ: Mapping[str, str]) -> Path:
    if chosen := setting("store", environ):
        return Path(chosen).expanduser().absolute()
    cache = Path(environ.get("XDG_CACHE_HOME") or ".")
    if cache.is_absolute():
        return cache / "envbuild"
    try:
        return Path("~/.cache/envbuild").expanduser()
    except RuntimeError:
        raise UsageError("cannot find the store: there is no home folder", "set ENVBUILD_STORE to a folder") from None


class WrongBytesError(IntegrityError):
    """Bytes are not those that were promised."""


class StoreWriteError(EnvbuildError):
    """The store's own file system does not take a file: no other source of it helps."""


class StoreFullError(StoreWriteError, BuildError):
    """It takes no more."""


class StoreRefusedError(StoreWriteError, UsageError):
    """It may not be written: another user's, mounted read-only, or something else is where a folder must be."""


class Store:
    """A store below ``root``; the folder is made when the first object comes in."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = default_root() if root is None else root.absolute()
        self._admitted = False

    def admit(self) -> bool:
        """Whether the store's folder is there; marks it if it is new.

        Raises:
            UsageError: it is another user's, may be written by everybody, or holds something else.
        """
        self._admitted = self._admitted or admit(self.root)
        return self._admitted

    def make_folder(self, folder: Path) -> None:
        """Make a folder of the store, and the store; raises ``OSError``, or ``UsageError`` as ``admit`` does."""
        if not self.admit():
            make_folder(self.root)
            self.admit()
        make_folder(folder)

    def path(self, sha256: str) -> Path:
        """Return where the object is, or would be; raises ``ValueError`` if that is no SHA-256."""
        if not SHA256.fullmatch(sha256):
            raise ValueError(f"not a lower-case hexadecimal SHA-256: {sha256!r}")
        return self.root / "sha256" / sha256[:2] / sha256[2:]

    def has(self, sha256: str, size: int | None = None) -> bool:
        """Whether the object is there, and of ``size`` bytes if given; its bytes are not read (see ``verify``).

        No collection removes an object that was asked for, as long as this process lives.
        """
        path = self.path(sha256)
        self.admit()
        leases.use(self.root, sha256)
        try:
            found = path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return stat.S_ISREG(found.st_mode) and (size is None or found.st_size == size)

    def verify(self, sha256: str) -> bool:
        """Read the object and compare; a damaged one is removed. False if it is not there (any more)."""
        return self.inspect(sha256) == "sound"

    def inspect(self, sha256: str, advance: Callable[[int], None] = lambda amount: None) -> Condition:
        """Read the object and return the condition in which it was found; a damaged one is removed.

        Args:
            advance: receives the number of bytes read.

        Raises:
            OSError: it cannot be read or, damaged, not be removed.
        """
        path = self.path(sha256)
        try:
            if path.is_symlink() or path.is_fifo():  # an object is a file, whatever the link leads to
                path.unlink()
                return "damaged"
            with open_regular(path, follow=False) as stream:
                if sha256_stream(stream, advance) == sha256:
                    return "sound"
                with claimed(self._part_path(sha256)) as part:  # nobody puts the right bytes there meanwhile
                    if is_named(stream, path):
                        path.unlink()
                    if part.seek(0, os.SEEK_END) == 0:
                        self._part_path(sha256).unlink()
                return "damaged"
        except (FileNotFoundError, NotADirectoryError):
            return "absent"

    def add_bytes(self, data: bytes) -> str:
        """Store ``data`` and return its SHA-256."""
        sha256 = sha256_bytes(data)
        if not self.has(sha256, len(data)):
            with self.writer(sha256, len(data)) as part:
                part.write(data)
        return sha256

    def add_file(self, path: Path, sha256: str) -> Path:
        """Store a copy of ``path`` (sharing its blocks where the file system can) and return the object's path.

        Never a hard link: editing the copy would edit the store.

        Raises:
            IntegrityError: unreadable, or its bytes are not ``sha256``.
        """
        if not self.has(sha256):
            from envbuild.store.partial import copy_into

            try:
                source = path.open("rb")
            except OSError as error:
                raise IntegrityError(f"cannot read {path}: {error.strerror}", "check the path") from None
            with source, self.writer(sha256, name=str(path)) as part:
                copy_into(part, source)
        return self.path(sha256)

    @contextmanager
    def writer(self, sha256: str, size: int | None = None, *, name: str = "") -> Iterator[Part]:
        """Give a part to fill from its start; it becomes the object when the block ends and the bytes are right.

        Args:
            size: expected number of bytes, if known.
            name: what to call it in an error; its digest if empty.

        Raises:
            IntegrityError: other bytes than promised. Nothing is left behind.
            StoreWriteError: the store cannot be written.
        """
        with self.claim(sha256) as part:
            part.restart()
            try:
                with self.explained(NO_SPACE):
                    yield part
                self.publish(part, sha256, size, name=name)
            except BaseException:
                part.restart()
                raise

    @contextmanager
    def claim(self, sha256: str, check: Callable[[], None] = lambda: None) -> Iterator[Part]:
        """Give the exclusive right to bring an object in, waiting for another command that is at it.

        After a wait the object may be there: ask ``has``. A part left empty is removed at the end, any other is kept
        for ``Part.resume``.

        Args:
            check: called several times a second while waiting; raise from it to stop waiting.

        Raises:
            StoreWriteError: the store cannot be written.
        """
        from envbuild.store.partial import Part

        path = self._part_path(sha256)
        with ExitStack() as stack:
            with self.explained(REFUSED):
                self.make_folder(self.path(sha256).parent)
                self.make_folder(path.parent)
                leases.use(self.root, sha256)
                stream = stack.enter_context(claimed(path, check))
            try:
                yield Part(stream)
            finally:
                if is_named(stream, path) and path.stat().st_size == 0:
                    path.unlink()

    def publish(self, part: Part, sha256: str, size: int | None = None, *, name: str = "") -> None:
        """Turn a claimed part into the object.

        Raises:
            WrongBytesError: its size or digest is not as promised; the part is emptied.
            StoreWriteError: the store cannot be written.
        """
        if (size is not None and part.size != size) or part.sha256 != sha256:
            expected = f"sha256 {sha256}" + ("" if size is None else f" ({size} bytes)")
            found = f"sha256 {part.sha256} ({part.size} bytes)"
            part.restart()
            raise WrongBytesError(f"{name or sha256} has other bytes than promised: expected {expected}, found {found}")
        with self.explained(REFUSED):
            part.sync()
            self._part_path(sha256).replace(self.path(sha256))
            part.protect()  # after the rename: a read-only part could not be taken over by the next command

    def cache_dir(self, kind: str) -> Path:
        """Return (made if need be) the folder of one kind of derived things; all of it may be deleted."""
        if not _KIND.fullmatch(kind):
            raise ValueError(f"not a kind of derived things: {kind!r}")
        folder = self.root / "derived" / kind
        with self.explained(REFUSED):
            self.make_folder(folder)
        return folder

    def derived(self, kind: str, key: str) -> Path | None:
        """Return the folder that ``derive`` made for ``key``, or None.

        Files are not synced to the disk when they are made. A power cut may have left others, so the first time after
        a restart of the machine they are read: a folder with other bytes than it was made with counts as absent.
        """
        folder = self.cache_dir(kind) / _key(key)
        leases.use(self.root, f"{kind}/{key}")
        if folder.is_symlink():
            return None
        boot = boot_id()
        with suppress(OSError):
            if boot and (folder / _BOOT).read_bytes() == boot.encode():
                return folder if self.is_whole(kind, key, read=False) else None
        if not self.is_whole(kind, key):
            return None
        with suppress(OSError):  # who may not write it reads again next time
            atomic_write(folder / _BOOT, boot.encode(), sync=False)
        return folder

    def is_whole(
        self, kind: str, key: str, advance: Callable[[int], None] = lambda amount: None, *, read: bool = True
    ) -> bool:
        """Whether a derived folder has the files that it was made with; a layer's tar is compared by its size.

        Args:
            advance: receives the number of bytes read.
            read: compare digests; else sizes only.
        """
        folder = self.cache_dir(kind) / _key(key)
        with suppress(OSError, ValueError, TypeError, AttributeError):
            for name, (size, digest) in parse_json((folder / _SUMS).read_bytes()).items():
                found = (folder / name).lstat()
                if not stat.S_ISREG(found.st_mode) or found.st_size != size:
                    return False
                if read and digest:
                    with (folder / name).open("rb", buffering=0) as stream:
                        if sha256_stream(stream, advance) != digest:
                            return False
            return True
        return False

    def derive(self, kind: str, key: str, make: Callable[[Path], None]) -> Path:
        """Return the folder for ``key``, calling ``make`` with an empty folder to fill if there is none yet.

        One command at a time makes a key; others wait and get its folder. What a killed ``make`` left is dropped.

        Args:
            key: SHA-256 of everything the content depends on.

        Raises:
            BuildError: no space left. Whatever ``make`` raises passes through; nothing is left behind.
        """
        if folder := self.derived(kind, key):
            return folder
        folder = self.cache_dir(kind) / _key(key)
        fresh, lock = folder.with_name(f".{key}.tmp"), folder.with_name(f".{key}.lock")
        with claimed(lock):
            try:
                if self.derived(kind, key) is None:
                    self.forget(kind, key)
                    _remove(fresh)
                    with self.explained(NO_SPACE):
                        fresh.mkdir(0o755)
                        make(fresh)
                        sums = _sums(fresh)
                        (fresh / _BOOT).write_bytes(boot_id().encode())
                        _protect(fresh)
                        # Not synced, like what it lists: on a busy disk that takes seconds in which no signal helps.
                        atomic_write(fresh / _SUMS, canonical_json(sums), sync=False)
                    fresh.replace(folder)
            finally:
                _remove(fresh)
                lock.unlink(missing_ok=True)
        return folder

    def use(self, kind: str, key: str) -> None:
        """Note that this process uses a derived thing, so that no collection takes it; call before looking for it."""
        leases.use(self.root, f"{kind}/{key}")

    def part_size(self, sha256: str) -> int:
        """Return how many bytes of an object have come in so far."""
        with suppress(FileNotFoundError, NotADirectoryError):
            return self._part_path(sha256).stat().st_size
        return 0

    def free_bytes(self) -> int | None:
        """Return how many bytes the store's file system can still take, or None if it does not report it."""
        folder = self.root
        while not folder.exists():
            folder = folder.parent
        found = os.statvfs(folder)
        return found.f_frsize * (found.f_bfree if os.geteuid() == 0 else found.f_bavail) if found.f_blocks else None

    def forget(self, kind: str, key: str) -> None:
        """Remove what ``derive`` made for ``key``, such as a folder found damaged."""
        folder = self.cache_dir(kind) / _key(key)
        if folder.is_symlink():
            folder.unlink()
        _remove(folder)

    def _part_path(self, sha256: str) -> Path:
        return self.root / "part" / sha256

    @contextmanager
    def explained(self, reasons: frozenset[int]) -> Iterator[None]:
        """Turn what the store's file system refuses into an error a person can act on; other errors pass."""
        try:
            yield
        except OSError as error:
            if error.errno not in reasons:
                raise
            raise self.refused(error) from error

    def refused(self, error: OSError, on: str = "") -> StoreWriteError:
        """Return what a person can act on where the store's file system refused a write.

        Args:
            on: what follows where it is full.
        """
        if error.errno in NO_SPACE:
            return StoreFullError(f"the store {self.root} has {no_space(error.errno, on)}", way_out(error.errno))
        message = f"the store {self.root} cannot be written: {error.strerror}"
        return StoreRefusedError(message, way_out(error.errno))


def not_written(target: Path, error: OSError) -> EnvbuildError:
    """Return what a person can act on where a folder that they named for copies of the store's files refused one.

    ``BuildError`` where it has no room, else ``UsageError``.
    """
    kind = BuildError if error.errno in NO_SPACE else UsageError
    return kind(f"cannot write {target}: {error.strerror}", "choose another folder")


def _key(key: str) -> str:
    if not SHA256.fullmatch(key):
        raise ValueError(f"not a key of derived things: {key!r}")
    return key


def _protect(folder: Path) -> None:
    """Leave the right to write to the owner alone, whatever the umask: nobody asks later who wrote a layer."""
    for path in folder.rglob("*"):
        mode = path.lstat().st_mode
        if mode & (stat.S_IWGRP | stat.S_IWOTH) and not stat.S_ISLNK(mode):
            path.chmod(stat.S_IMODE(mode) & ~(stat.S_IWGRP | stat.S_IWOTH))


def _sums(folder: Path) -> dict[str, tuple[int, str]]:
    """Size in bytes and SHA-256 of each regular file below a folder."""
    files = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*"))}
    return {
        name: (path.lstat().st_size, "" if name in _SUMMED_ELSEWHERE else sha256_file(path))
        for name, path in files.items()
        if stat.S_ISREG(path.lstat().st_mode)
    }


def _remove(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
