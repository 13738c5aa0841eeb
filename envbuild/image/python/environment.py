"""Layers of the virtual environment: wheels, and trees of made files.

Each function is a pure function of its arguments' content. Where two wheels install the same path, the later one wins,
as in an installation one after the other; the plan's order is what "later" means.
"""

from __future__ import annotations

import shlex
import tarfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, cast

from envbuild.core.digest import sha256_file
from envbuild.core.progress import Advance
from envbuild.errors import BuildError, IntegrityError
from envbuild.image.python.inflate import Reader
from envbuild.image.python.wheel import File, Wheel, WheelError, folders_above, parents, skeleton
from envbuild.image.tar.layer import BLOCK, Entry, Layer, LayerWriter

_SMALL = 1 << 20
_ELF = b"\x7fELF"
_State = tuple[str, int, int, int, int, int]
_VERIFIED: set[_State] = set()
"""Wheels whose digest this process has compared: a wheel is opened once for its layer and once to be compiled."""
_TURNS: dict[_State, threading.Lock] = {}
"""Both may be at the same time: the second one waits for the first one's digest and does not make another."""
_TURN = threading.Lock()


@dataclass(frozen=True, kw_only=True, slots=True)
class WheelFile:
    """A wheel on this machine.

    Attributes:
        name: for messages.
        path: the file.
        sha256: which it must have; empty: any.
        changed: digests of members that its RECORD has other hashes for, as ``ChangedFilesError`` has them.
    """

    name: str
    path: Path
    sha256: str = ""
    changed: Mapping[str, str] = field(default_factory=dict)


class ChangedFilesError(Exception):
    """Wheels hold files that their RECORD has other hashes for, which is known when all are read: pack ``wheels``."""

    def __init__(self, wheels: Sequence[WheelFile]) -> None:
        super().__init__(", ".join(wheel.name for wheel in wheels if wheel.changed))
        self.wheels = wheels


@dataclass(frozen=True, kw_only=True, slots=True)
class Made:
    """A file with its content in memory, or a symbolic link (``target``)."""

    data: bytes = b""
    mode: int = 0o644
    target: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Contents:
    """Which wheel installed each path, and the digest of what it installed there.

    Attributes:
        files: digest and wheel name by path relative to ``/``.
        replaced: paths that several wheels install with different content: names of loser and winner.
        objects: ELF objects of one layer by wheel name and member: offset and size in its tar, and path.
        changed: members that a wheel's RECORD has other hashes for, by wheel name.
    """

    files: dict[str, tuple[str, str]] = field(default_factory=dict)
    replaced: dict[str, tuple[str, str]] = field(default_factory=dict)
    objects: dict[str, dict[str, tuple[int, int, str]]] = field(default_factory=dict)
    changed: dict[str, list[str]] = field(default_factory=dict)

    def add(self, other: Contents) -> None:
        """Put another layer's contents on top."""
        self.replaced.update(other.replaced)
        self.changed.update(other.changed)
        for path, (digest, name) in other.files.items():
            self.put(path, digest, name)

    def check(self) -> None:
        """Raise ``BuildError`` if one wheel's file is another one's folder."""
        both = self.files.keys() & folders_above(self.files)
        folders = {above: name for path, (_, name) in self.files.items() for above in parents(path)} if both else {}
        for path in sorted(both):
            raise BuildError(
                f"/{path} is a file in {self.files[path][1]} and a folder in {folders[path]}",
                "leave out one of the two packages",
            )

    def put(self, path: str, digest: str, name: str) -> None:
        """Add one path; the last one wins."""
        before, other = self.files.get(path, (digest, ""))
        if before != digest:
            self.replaced[path] = (other, name)
        self.files[path] = (digest, name)


Content = Made | tuple[Reader, File] | tuple[tarfile.TarFile, tarfile.TarInfo]


@contextmanager
def opened(wheels: Iterable[WheelFile], python: str) -> Iterator[list[Reader]]:
    """Open and check wheels.

    Raises:
        BuildError: one of them is not safe or not well-formed; also for what is found while reading them.
        IntegrityError: a file is missing, or has other bytes than locked.
    """
    wheels = list(wheels)
    for wheel in wheels:
        _verify(wheel)
    try:
        with ExitStack() as stack:
            archives = [
                stack.enter_context(Wheel(str(wheel.path), python, wheel.name, wheel.changed)) for wheel in wheels
            ]
            files = zip(archives, wheels, strict=True)
            yield [stack.enter_context(Reader(archive, wheel.path)) for archive, wheel in files]
    except WheelError as error:
        raise BuildError(str(error), "use another release of this package, or report it to its authors") from None


def _verify(wheel: WheelFile) -> None:
    """Compare a wheel with its digest: it was right when it came, but lay in a writable place since."""
    try:
        state = wheel.path.stat()
        seen = (wheel.sha256, state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
        with _TURN:
            turn = _TURNS.setdefault(seen, threading.Lock())
        with turn:
            if seen not in _VERIFIED:
                _compare(wheel)
                _VERIFIED.add(seen)
    except FileNotFoundError:
        raise IntegrityError(f"{wheel.name} is not in the store", "bring it in: envbuild fetch") from None


def _compare(wheel: WheelFile) -> None:
    found = sha256_file(wheel.path) if wheel.sha256 else ""
    if found != wheel.sha256:
        raise IntegrityError(
            f"{wheel.name}: {wheel.path} is damaged: expected sha256 {wheel.sha256}, found {found}",
            f"remove it and build again: rm -f {shlex.quote(str(wheel.path))}",
        )


def pack_wheels(
    output: BinaryIO, wheels: Sequence[WheelFile], python: str, *, executable: str = "", advance: Advance
) -> tuple[Layer, Contents]:
    """Write the layer of one or more wheels.

    Args:
        output: receives the tar.
        wheels: lowest precedence first.
        python: feature release of the target.
        executable: with it, the layer also holds the empty virtual environment for this interpreter.
        advance: receives packed bytes.

    Raises:
        BuildError, IntegrityError: as ``opened`` does.
        ChangedFilesError: what was written is to be thrown away, since a RECORD in it has wrong hashes.
    """
    label = wheels[0].name if len(wheels) == 1 else "the layer of small wheels"
    folders, links, made = skeleton(python, executable) if executable else ([], {}, {})
    tree: dict[str, Content] = {path: Made(target=target) for path, target in links.items()}
    tree.update({path: Made(data=data) for path, data in made.items()})
    contents = Contents()
    with opened(wheels, python) as archives:
        for archive in archives:
            for file in archive.wheel.files:
                tree[file.path] = (archive, file)
                contents.put(file.path, file.digest, archive.wheel.name)
            contents.objects[archive.wheel.name] = {}
        contents.check()
        with LayerWriter(output, label) as writer:
            add_tree(writer, tree, folders=folders, advance=advance, objects=contents.objects)
        if any(archive.wheel.changed for archive in archives):
            found = [
                {**wheel.changed, **archive.wheel.changed} for wheel, archive in zip(wheels, archives, strict=True)
            ]
            raise ChangedFilesError([replace(wheel, changed=each) for wheel, each in zip(wheels, found, strict=True)])
    contents.changed.update({wheel.name: sorted(wheel.changed) for wheel in wheels if wheel.changed})
    return writer.layer(), contents


def pack_tree(output: BinaryIO, files: Mapping[str, Made], folders: Sequence[str] = (), label: str = "layer") -> Layer:
    """Write a layer of made files, by path relative to ``/``, and empty folders; all owned by root."""
    with LayerWriter(output, label) as writer:
        add_tree(writer, files, folders=folders)
    return writer.layer()


def add_tree(
    writer: LayerWriter,
    tree: Mapping[str, Content],
    *,
    prefix: str = "",
    folders: Iterable[str] = (),
    advance: Advance = lambda amount: None,
    objects: Mapping[str, dict[str, tuple[int, int, str]]] = {},
) -> None:
    """Add files, the folders above them and further folders, below ``prefix``, in order; notes ELF ``objects``."""
    every = {*tree, *folders, *folders_above((*tree, *folders))}
    for path in sorted(every, key=lambda path: path.encode("utf-8", "surrogateescape")):
        content = tree.get(path)
        if content is None:
            writer.add(Entry(path=prefix + path, kind="dir", mode=0o755))
        elif isinstance(content, Made):
            if content.target:
                writer.add(Entry(path=prefix + path, kind="symlink", mode=0o777, target=content.target))
            else:
                entry = Entry(path=prefix + path, kind="file", mode=content.mode, size=len(content.data))
                writer.add(entry, content.data)
        elif isinstance(content[1], File):
            head = _add_wheel_file(writer, prefix, content, advance)
            if head == _ELF and content[1].member is not None and content[0].wheel.name in objects:
                size = content[1].size
                place = (writer.size - size - -size % BLOCK, size, prefix + path)
                objects[content[0].wheel.name][content[1].member.filename] = place
        else:
            tar, member = content
            entry = Entry(path=prefix + path, kind="file", mode=0o644, size=member.size)
            writer.add(entry, _small(tar, member) or cast(BinaryIO, tar.extractfile(member)))


def _small(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    """Read a small file of a tar without the stream that ``extractfile`` makes; empty if it is none."""
    if member.size > _SMALL or member.issparse() or tar.fileobj is None:
        return b""
    tar.fileobj.seek(member.offset_data)
    return tar.fileobj.read(member.size)


def _add_wheel_file(writer: LayerWriter, prefix: str, content: tuple[Reader, File], advance: Advance) -> bytes:
    """Add one file; returns its first bytes."""
    reader, file = content
    entry = Entry(path=prefix + file.path, kind="file", mode=file.mode, size=file.size)
    packed = file.member.compress_size if file.member else 0
    if file.size <= _SMALL:
        data = reader.read(file)
        writer.add(entry, data)
        advance(packed)
        return data[: len(_ELF)]
    watched = _Watched(reader.chunks(file), file.size, packed, advance)
    writer.add(entry, cast(BinaryIO, watched))
    return watched.head


class _Watched:
    """Chunks as a stream that reports packed bytes, by proportion, while unpacked ones are read."""

    def __init__(self, chunks: Iterator[bytes], size: int, packed: int, advance: Advance) -> None:
        self._chunks = chunks
        self._size = size
        self._packed = packed
        self._advance = advance
        self._read = 0
        self.head = b""

    def read(self, size: int = -1) -> bytes:
        """Return the next chunk, which the reader makes no larger than the writer asks for, and report."""
        chunk = next(self._chunks, b"")
        self.head = self.head or chunk[: len(_ELF)]
        before = self._read * self._packed // self._size
        self._read += len(chunk)
        self._advance(self._read * self._packed // self._size - before)
        return chunk
