"""Layers unpacked into folders: each once for all images that have it, checked while it is written.

    <folder>/<diff ID>/tree/      the layer's files
    <folder>/<diff ID>/headers    what its tar has besides their content, compressed: with both, the same tar comes back
    <folder>/<diff ID>/tree.json  what is known of it, written last: without it there is no tree

Only what envbuild's own writer makes is read (``envbuild/image/tar/layer.py``): ustar, and PAX headers where ustar is
too small. Every folder above an entry is one that was made here, in a tree that nobody else sees yet, so that no link
in a layer can lead out of it.

Trees are not synced to the disk when they are made: one of an earlier run of the machine is unpacked again, since a
power cut may have damaged it.
"""

# One system call for each of sixty thousand files counts here, so paths are strings:
# ruff: noqa: PTH101, PTH102, PTH211

from __future__ import annotations

import hashlib
import json
import mmap
import os
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from envbuild.core.foreign_json import parse_json
from envbuild.core.fs import claimed
from envbuild.core.removal import remove_tree
from envbuild.errors import BuildError

_TREE, _NOTE, _HEADERS = "tree", "tree.json", "headers"
_BLOCK = 512
_PIECE = 1 << 24
_XATTR = "SCHILY.xattr."
_WRITABLE = 0o002
_FILE, _LINK, _SYMLINK, _FIFO, _FOLDER, _PAX = b"0", b"1", b"2", b"6", b"5", b"x"


@dataclass(frozen=True, kw_only=True, slots=True)
class Tree:
    """A layer as a folder.

    Attributes:
        path: the folder.
        writable: folders in it that everybody may write to, absolute as the program sees them.
    """

    path: Path
    writable: tuple[str, ...] = ()


class Trees:
    """The trees of a store.

    Args:
        folder: where they are, on a file system that overlays can have below them.
        use: called with a diff ID before its tree is looked for, so that no collection takes it.
        boot: name of this run of the machine; empty if it is not known, and trees are then believed.
    """

    def __init__(self, folder: Path, use: Callable[[str], None], boot: str) -> None:
        self._folder, self._use, self._boot = folder, use, boot

    def find(self, diff_id: str) -> Tree | None:
        """Return a layer's tree; None if there is none that can be relied on."""
        self._use(diff_id)
        folder = self._folder / diff_id
        try:
            note = parse_json((folder / _NOTE).read_bytes())
            if folder.is_symlink() or note["boot"] != self._boot:
                return None
            with suppress(OSError):
                os.utime(folder)
            return Tree(path=folder / _TREE, writable=tuple(map(str, note["writable"])))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def make(self, diff_id: str, tar: Path, advance: Callable[[int], None]) -> Tree:
        """Return a layer's tree, unpacked from its tar if need be; others that want it wait.

        Args:
            advance: receives bytes of the tar; what it raises ends the work, and nothing is left.

        Raises:
            BuildError: the tar is not the layer, holds what no layer of envbuild has, or the disk is full.
        """
        if found := self.find(diff_id):
            return found
        self._folder.mkdir(parents=True, exist_ok=True)
        folder, fresh = self._folder / diff_id, self._folder / f".{diff_id}.tmp"
        with claimed(self._folder / f".{diff_id}.lock", lambda: advance(0)):
            try:
                if self.find(diff_id) is None:
                    remove(folder)
                    remove(fresh)
                    fresh.mkdir(mode=0o755)
                    self._fill(fresh, diff_id, tar, advance)
                    fresh.rename(folder)
            finally:
                remove(fresh)
                (self._folder / f".{diff_id}.lock").unlink(missing_ok=True)
        made = self.find(diff_id)
        if made is None:
            raise BuildError(f"the layer {diff_id[:12]} disappeared while it was unpacked", "run the command again")
        return made

    def forget(self, diff_id: str) -> None:
        """Remove a layer's tree."""
        remove(self._folder / diff_id)

    def _fill(self, folder: Path, diff_id: str, tar: Path, advance: Callable[[int], None]) -> None:
        try:
            with (folder / _HEADERS).open("wb") as headers:
                writable = unpack(tar, diff_id, folder / _TREE, headers, advance)
        except ValueError as error:  # a number that is none, a name with a zero byte
            raise BuildError(f"the layer {diff_id[:12]}… has a header that is damaged: {error}") from error
        except OSError as error:
            raise BuildError(
                f"cannot unpack the layer {diff_id[:12]}… into {self._folder}: {error.strerror}",
                "make room, or choose another disk: export ENVBUILD_STORE=FOLDER",
            ) from error
        (folder / _NOTE).write_text(json.dumps({"boot": self._boot, "writable": writable}))


def is_sound(folder: Path, advance: Callable[[int], None] = lambda amount: None) -> bool:
    """Read a tree's folder, which its diff ID names, and report whether it still gives that layer's tar.

    Args:
        advance: receives the number of bytes read.
    """
    digest = hashlib.sha256()
    try:
        for chunk in tar_of(folder):
            digest.update(chunk)
            advance(len(chunk))
    except (OSError, zlib.error, BuildError):
        return False
    return digest.hexdigest() == folder.name


def tar_of(folder: Path) -> Iterator[bytes]:
    """Yield the tar of a tree, byte for byte the one that it was unpacked from.

    Raises:
        OSError, zlib.error, BuildError: a file is missing, or the headers are damaged.
    """
    headers = zlib.decompress((folder / _HEADERS).read_bytes())
    written = 0
    for entry in _entries(memoryview(headers), contents=False):
        yield headers[written : entry.begin]
        written = entry.begin
        if entry.kind == _FILE and entry.size:
            left = entry.size
            with open(folder / _TREE / entry.path, "rb", buffering=0) as stream:
                while left and (chunk := stream.read(min(left, _PIECE))):
                    left -= len(chunk)
                    yield chunk
            yield bytes(left + -entry.size % _BLOCK)
    yield headers[written:]


def unpack(tar: Path, diff_id: str, folder: Path, headers: BinaryIO, advance: Callable[[int], None]) -> list[str]:
    """Unpack a layer into a new folder while its bytes are hashed; returns the folders everybody may write to.

    As root files get their owners; everybody else owns all of it.

    Args:
        headers: receives what the tar has besides the content of files, compressed.

    Raises:
        BuildError: the tar's SHA-256 is another, or it holds what no layer has.
        OSError: it cannot be read or written.
    """
    os.mkdir(folder, 0o755)
    with open(tar, "rb", buffering=0) as stream:
        if os.fstat(stream.fileno()).st_size == 0:
            raise _other(diff_id)
        with mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) as data:
            hashing = _Hashing(data)
            hashing.start()
            try:
                writable = _Unpacking(memoryview(data), str(folder), headers, advance).run()
            finally:
                found = hashing.result()
    if found != diff_id:
        raise _other(diff_id)
    return writable


def remove(folder: Path) -> None:
    """Remove a folder whatever the modes in it are; nothing happens if it is not there."""
    remove_tree(folder)


def _other(diff_id: str) -> BuildError:
    return BuildError(
        f"the layer {diff_id[:12]}… is not as it was made: other bytes than its digest", "check: envbuild store verify"
    )


class _Hashing(threading.Thread):
    """Hashes a mapped file; hashing lets go of the interpreter's lock."""

    def __init__(self, data: mmap.mmap) -> None:
        super().__init__(name="hash", daemon=True)
        self._data = data
        self._digest = hashlib.sha256()

    def run(self) -> None:
        """Hash it all."""
        with memoryview(self._data) as view:
            for begin in range(0, len(view), _PIECE):
                with view[begin : begin + _PIECE] as piece:
                    self._digest.update(piece)

    def result(self) -> str:
        """Wait for the end; returns the digest."""
        self.join()
        return self._digest.hexdigest()


class _Unpacking:
    """The entries of one tar on their way into a folder."""

    def __init__(self, data: memoryview, folder: str, headers: BinaryIO, advance: Callable[[int], None]) -> None:
        self._data, self._folder, self._headers, self._advance = data, folder, headers, advance
        self._compressor = zlib.compressobj(1)
        self._owners = os.geteuid() == 0
        self._folders = {""}
        self._late: list[tuple[str, int, int]] = []
        self._writable: list[str] = []

    def run(self) -> list[str]:
        """Make everything; returns the folders everybody may write to."""
        told = 0
        try:
            place = 0
            for entry in _entries(self._data):
                self._note(place, entry.begin)
                place = entry.end
                if entry.path:
                    self._make(entry)
                if entry.end - told > _PIECE:
                    self._advance(entry.end - told)
                    told = entry.end
            self._note(place, len(self._data))
            self._headers.write(self._compressor.flush())
        finally:
            self._data.release()
        for path, mode, mtime in reversed(self._late):
            os.chmod(path, mode)
            os.utime(path, (mtime, mtime))
        return self._writable

    def _note(self, begin: int, end: int) -> None:
        with self._data[begin:end] as piece:
            self._headers.write(self._compressor.compress(piece))

    def _make(self, entry: _Entry) -> None:
        above, _, name = entry.path.rpartition("/")
        if above not in self._folders or name in ("", ".", "..") or "\0" in entry.path:
            raise BuildError(f"a layer holds {entry.path!r}, whose folder it does not hold")
        path = f"{self._folder}/{entry.path}"
        if entry.kind == _FOLDER:
            self._make_folder(entry, path)
        elif entry.kind == _SYMLINK:
            os.symlink(entry.target, path)
            self._own(path, entry)
            os.utime(path, (entry.mtime, entry.mtime), follow_symlinks=False)
        elif entry.kind == _LINK:
            above, _, name = entry.target.rpartition("/")
            if above not in self._folders or name in ("", ".", ".."):
                raise BuildError(f"a layer holds a hard link to {entry.target!r}, which it does not hold")
            os.link(f"{self._folder}/{entry.target}", path, follow_symlinks=False)
        elif entry.kind == _FIFO:
            os.mkfifo(path, entry.mode)
            self._own(path, entry)
        else:
            self._make_file(entry, path)

    def _make_folder(self, entry: _Entry, path: str) -> None:
        if entry.path in self._folders:
            raise BuildError(f"a layer holds {entry.path!r} twice")
        os.mkdir(path, 0o700)
        self._own(path, entry)
        self._folders.add(entry.path)
        self._late.append((path, entry.mode if self._owners else entry.mode | 0o700, entry.mtime))
        if entry.mode & _WRITABLE:
            self._writable.append(f"/{entry.path}")

    def _make_file(self, entry: _Entry, path: str) -> None:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            begin, size = entry.begin, entry.size
            while size:
                with self._data[begin : begin + min(size, _PIECE)] as piece:
                    count = os.write(number, piece)
                begin, size = begin + count, size - count
            self._own(number, entry)
            os.fchmod(number, entry.mode)
            for key, value in entry.attributes:
                if self._owners:
                    os.setxattr(number, key, value)
            os.utime(number, (entry.mtime, entry.mtime))
        finally:
            os.close(number)

    def _own(self, path: str | int, entry: _Entry) -> None:
        if self._owners and (entry.user or entry.group):
            if isinstance(path, int):
                os.fchown(path, entry.user, entry.group)
            else:
                os.chown(path, entry.user, entry.group, follow_symlinks=False)


@dataclass(kw_only=True, slots=True)
class _Entry:
    """An entry of a tar; ``begin`` and ``end`` are offsets of its content and of what follows it."""

    path: str
    kind: bytes
    mode: int
    user: int
    group: int
    size: int
    mtime: int
    target: str
    begin: int
    end: int
    attributes: tuple[tuple[str, bytes], ...] = ()


def _entries(data: memoryview, *, contents: bool = True) -> Iterator[_Entry]:
    """Yield the entries of a tar; raises ``BuildError`` if it is none.

    Args:
        contents: False for headers alone, where the content of files is left out.
    """
    place, pax = 0, {}
    whole = len(data)
    while True:
        head = bytes(data[place : place + _BLOCK])
        if len(head) < _BLOCK:
            raise BuildError("a layer ends in the middle of an entry")
        if head[0] == 0:
            return
        if sum(head[:148]) + sum(head[156:]) + 8 * 32 != _octal(head[148:156]):
            raise BuildError("a layer has a header that is damaged")
        size, kind = _octal(head[124:136]), head[156:157]
        begin = place + _BLOCK
        if kind == _PAX:
            place = begin + -(-size // _BLOCK) * _BLOCK
            pax = dict(_records(bytes(data[begin : begin + size])))
            continue
        size = int(pax.get(b"size", size))
        place = begin + (-(-size // _BLOCK) * _BLOCK if contents else 0)
        if place > whole:
            raise BuildError("a layer ends in the middle of a file")
        if kind not in b"01256" or len(kind) != 1:
            raise BuildError(f"a layer holds an entry of kind {kind!r}")
        prefix = _text(head[345:500])
        path = pax.get(b"path") or (prefix + b"/" if prefix else b"") + _text(head[:100])
        attributes = tuple(
            (key.decode()[len(_XATTR) :], value) for key, value in pax.items() if key.startswith(_XATTR.encode())
        )
        yield _Entry(
            path=os.fsdecode(path).strip("/"),
            kind=kind,
            mode=_octal(head[100:108]) & 0o7777,
            user=int(pax.get(b"uid", _octal(head[108:116]))),
            group=int(pax.get(b"gid", _octal(head[116:124]))),
            size=size,
            mtime=_octal(head[136:148]),
            target=os.fsdecode(pax.get(b"linkpath") or _text(head[157:257])),
            begin=begin,
            end=place,
            attributes=attributes,
        )
        pax = {}


def _records(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the records of a PAX header."""
    while data:
        length, _, rest = data.partition(b" ")
        if not length.isdigit() or not len(length) + 1 < int(length) <= len(data):
            raise BuildError("a layer has an extended header that is damaged")
        key, _, value = rest[: int(length) - len(length) - 2].partition(b"=")
        yield key, value
        data = data[int(length) :]


def _octal(field: bytes) -> int:
    digits = _text(field).strip()
    if not all(each in b"01234567" for each in digits):
        raise BuildError("a layer has a header that is damaged")
    return int(digits or b"0", 8)


def _text(field: bytes) -> bytes:
    return field.partition(b"\0")[0]
