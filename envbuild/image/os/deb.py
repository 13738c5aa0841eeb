"""Debian package files, read without dpkg and without trust.

Source of the format: deb(5), deb-control(5), ar(5). Nothing is unpacked to the host's disk here: members of the data
archive come out one by one, each checked, so that what a package may write is known before any of it is used.
"""

from __future__ import annotations

import bz2
import io
import lzma
import re
import sys
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, Protocol, cast

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

from envbuild.errors import BuildError
from envbuild.image.tar.layer import Entry, Kind
from envbuild.image.tar.members import read_members

_MAGIC = b"!<arch>\n"
_HEADER = 60
_CHUNK = 64 << 10
"""Packed bytes per step: what one step unpacks to stays small even for a package of zeros."""
_CONTROL_LIMIT = 16 << 20
_SMALL_CHUNK = 512
"""Compressed bytes that are unpacked at once where the result is limited: a byte becomes 32 KiB at most (zstd)."""
"""Bytes of an unpacked control archive; the largest in Debian 13 is below 2 MiB."""
_FIELD = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]*):[ \t]*(.*)")
_ESCAPES = ("..", ".", "")
_HINT = (
    "delete the file from the store and fetch it again: envbuild fetch; if it comes back so, do not use this package"
)

_KINDS: Mapping[bytes, Kind] = {
    tarfile.REGTYPE: "file",
    tarfile.AREGTYPE: "file",
    tarfile.DIRTYPE: "dir",
    tarfile.SYMTYPE: "symlink",
    tarfile.LNKTYPE: "hardlink",
    tarfile.CHRTYPE: "char",
    tarfile.BLKTYPE: "block",
    tarfile.FIFOTYPE: "fifo",
}


class _Decompressor(Protocol):
    def decompress(self, data: bytes, /) -> bytes: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """Where one member of a package's ar archive is: name, offset and size in bytes."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Deb:
    """A package file, opened far enough to know its parts.

    Attributes:
        path: the file.
        label: how errors name it.
        control: the control archive.
        data: the data archive.
    """

    path: Path
    label: str
    control: Part
    data: Part

    def fields(self) -> dict[str, str]:
        """Return the control paragraph's fields; raises ``BuildError`` if there is none or it is malformed."""
        with _reading(self), self.path.open("rb") as stream:
            packed = io.BytesIO()
            for chunk in _unpacked(stream, self.control, self.label, _SMALL_CHUNK):
                packed.write(chunk)
                if packed.tell() > _CONTROL_LIMIT:
                    raise _bad(self.label, f"control archive is larger than {_CONTROL_LIMIT} bytes")
            packed.seek(0)
            with tarfile.open(fileobj=packed, mode="r:") as archive:
                for member in archive:
                    if member.name in ("control", "./control") and member.isreg():
                        if member.issparse() or member.size > _CONTROL_LIMIT:
                            raise _bad(self.label, "its control file is larger than its control archive")
                        content = cast(IO[bytes], archive.extractfile(member)).read()
                        return parse_control(content.decode("utf-8", "replace"), self.label)
        raise _bad(self.label, "there is no control file in its control archive")

    def unpack_data(self, output: BinaryIO) -> None:
        """Write the data archive, uncompressed, to ``output``; raises ``BuildError`` if it cannot be decompressed."""
        with _reading(self), self.path.open("rb") as stream:
            for chunk in _unpacked(stream, self.data, self.label):
                output.write(chunk)

    def members(self, data: BinaryIO) -> Iterator[tuple[Entry, BinaryIO | None]]:
        """Yield the checked members of the data archive in its order, regular files with their content.

        Args:
            data: what ``unpack_data`` wrote, at its start; read once, and to its end if all is taken.

        Raises:
            BuildError: a member that has no place in a package, named with the package: an absolute path, ``..``, a
                newline, a path through a symbolic link, a link that climbs above the root, a device outside ``/dev``.
        """
        links: set[str] = set()
        seen: set[str] = set()
        with _reading(self), tarfile.open(fileobj=data, mode="r|", bufsize=1 << 16) as archive:
            for member in read_members(archive):
                entry = _entry(member, self.label)
                if entry is None:
                    continue
                _check_links(entry, links, seen, self.label)
                seen.add(entry.path)
                (links.add if entry.kind == "symlink" else links.discard)(entry.path)
                content = archive.extractfile(member) if entry.kind == "file" else None
                yield entry, cast("BinaryIO | None", content)


def open_deb(path: Path, label: str = "") -> Deb:
    """Read the outer structure of a package file (deb(5)).

    Args:
        path: the file.
        label: what errors call it; the file's name if empty.

    Raises:
        BuildError: not a package file of format 2, or truncated.
    """
    label = label or path.name
    try:
        with path.open("rb") as stream:
            parts = _parts(stream, label)
            first = next(parts, None)
            if first is None or first.name != "debian-binary":
                raise _bad(label, "its first member is not debian-binary")
            stream.seek(first.offset)
            version = stream.read(min(first.size, 64))
            if not version.startswith(b"2."):
                raise _bad(label, f"expected format 2.x, found {version.strip()!r}")
            # deb(5): members whose names begin with an underscore may be between and are to be skipped.
            rest = [part for part in parts if not part.name.startswith("_")]
    except OSError as error:
        raise BuildError(f"cannot read the package file {label}: {error.strerror}", "envbuild fetch") from None
    if len(rest) < 2 or not rest[0].name.startswith("control.tar") or not rest[1].name.startswith("data.tar"):
        raise _bad(label, "expected control.tar and data.tar after debian-binary")
    return Deb(path=path, label=label, control=rest[0], data=rest[1])


def parse_control(text: str, label: str) -> dict[str, str]:
    """Parse one control paragraph (deb-control(5)); continuation lines stay in the value.

    Raises:
        BuildError: a line that is neither a field nor a continuation, or a field given twice.
    """
    fields: dict[str, str] = {}
    name = ""
    for line in text.strip("\n").split("\n"):
        if line[:1] in (" ", "\t") and name:
            fields[name] += "\n" + line
            continue
        match = _FIELD.fullmatch(line.rstrip())
        if match is None or match[1] in fields:
            raise _bad(label, f"its control file has a malformed line: {line[:80]!r}")
        name = match[1]
        fields[name] = match[2]
    return fields


def _parts(stream: BinaryIO, label: str) -> Iterator[Part]:
    """Yield the members of an ar archive; leaves the stream at any position."""
    end = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    if stream.read(len(_MAGIC)) != _MAGIC:
        raise _bad(label, "it is not an ar archive")
    offset = len(_MAGIC)
    while offset < end:
        stream.seek(offset)
        header = stream.read(_HEADER)
        size = header[48:58].strip()
        if len(header) != _HEADER or header[58:] != b"`\n" or not size.isdigit():
            raise _bad(label, f"its ar header at byte {offset} is malformed")
        name = header[:16].decode("ascii", "replace").strip().rstrip("/")
        part = Part(name=name, offset=offset + _HEADER, size=int(size))
        if part.offset + part.size > end:
            raise _bad(label, f"{name} is cut short: expected {part.size} bytes, found {end - part.offset}")
        yield part
        offset = part.offset + part.size + part.size % 2


def _unpacked(stream: BinaryIO, part: Part, label: str, size: int | None = None) -> Iterator[bytes]:
    """Yield the decompressed bytes of one part, of ``size`` compressed bytes at a time."""
    suffix = part.name.partition(".tar")[2]
    make = _DECOMPRESSORS.get(suffix)
    if make is None:
        raise _bad(label, f"{part.name}: unknown compression {suffix!r}")
    decompressor = make(f"{label}: {part.name}")
    stream.seek(part.offset)
    left = part.size
    while left:
        chunk = stream.read(min(size or _CHUNK, left))
        left -= len(chunk)
        yield decompressor.decompress(chunk)
    if not getattr(decompressor, "eof", True):
        raise _bad(label, f"{part.name} is cut short")


def _entry(member: tarfile.TarInfo, label: str) -> Entry | None:
    """Turn a tar member into a checked entry; None for the root folder itself."""
    path = _clean(member.name, label)
    kind = _KINDS.get(member.type)
    if kind is None:
        raise _member(label, member.name, f"unknown type {member.type!r}")
    if not path:
        if kind != "dir":
            raise _member(label, member.name, f"the root is a {kind}")
        return None
    if kind in ("char", "block") and not path.startswith("dev/"):
        raise _member(label, member.name, "a device outside /dev")
    target = _clean(member.linkname, label) if kind == "hardlink" else member.linkname if kind == "symlink" else ""
    if kind == "symlink" and (not target or any(character in target for character in "\0\n")):
        raise _member(label, member.name, f"it links to {target!r}")
    prefix = "SCHILY.xattr."
    xattrs = {
        key.removeprefix(prefix): value.encode("utf-8", "surrogateescape")
        for key, value in member.pax_headers.items()
        if key.startswith(prefix)
    }
    return Entry(
        path=path,
        kind=kind,
        mode=0o777 if kind == "symlink" else member.mode & 0o7777,
        uid=member.uid,
        gid=member.gid,
        target=target,
        size=member.size if kind == "file" else 0,
        xattrs=xattrs,
        major=member.devmajor if kind in ("char", "block") else 0,
        minor=member.devminor if kind in ("char", "block") else 0,
    )


def _clean(name: str, label: str) -> str:
    """Strip the leading ``./``; raises ``BuildError`` for what is not a plain relative path."""
    path = name.removeprefix("./").rstrip("/") if name not in (".", "./") else ""
    if name.startswith("/"):
        raise _member(label, name, "an absolute path")
    if any(character in name for character in "\0\n"):
        raise _member(label, name, "a control character in its name")
    if path and any(part in _ESCAPES for part in path.split("/")):
        raise _member(label, name, "not a path of plain components")
    return path


def _check_links(entry: Entry, links: set[str], seen: set[str], label: str) -> None:
    """Refuse paths through a symbolic link of the same package, and links that leave the tree."""
    parts = entry.path.split("/")
    through = next((path for path in ("/".join(parts[:n]) for n in range(1, len(parts))) if path in links), None)
    if through is not None:
        raise _member(label, entry.path, f"its path goes through the symbolic link {through!r}")
    if entry.kind == "hardlink" and (entry.target not in seen or entry.target in links):
        raise _member(label, entry.path, f"it is a hard link to {entry.target!r}, which is no earlier file")
    if entry.kind == "symlink" and not entry.target.startswith("/"):
        depth = len(parts) - 1
        for part in entry.target.split("/"):
            depth += -1 if part == ".." else part not in (".", "")
            if depth < 0:
                raise _member(label, entry.path, f"its target {entry.target!r} climbs above the root")


@contextmanager
def _reading(deb: Deb) -> Iterator[None]:
    """Turn what libraries raise over damaged archives into ``BuildError``."""
    try:
        yield
    except (tarfile.TarError, lzma.LZMAError, zlib.error, zstd.ZstdError, EOFError, UnicodeError, ValueError) as error:
        raise _bad(deb.label, f"it is damaged: {error}") from None
    except OSError as error:
        if error.errno is not None:
            raise
        raise _bad(deb.label, f"it is damaged: {error}") from None


def _zstd(label: str) -> _Decompressor:
    """Return Python 3.14's decompressor (PEP 784), or the same of an older Python; Ubuntu's packages need it."""
    return cast(_Decompressor, zstd.ZstdDecompressor())


class _Stored:
    """The decompressor of what is not compressed."""

    def decompress(self, data: bytes, /) -> bytes:
        """Return the data."""
        return data


def _gzip(label: str) -> _Decompressor:
    return zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)


def _bad(label: str, message: str) -> BuildError:
    return BuildError(f"{label} is not a sound Debian package: {message}", _HINT)


def _member(label: str, name: str, message: str) -> BuildError:
    return BuildError(f"{label}: its member {name!r} is refused: {message}; nothing was written", _HINT)


_DECOMPRESSORS: Mapping[str, Callable[[str], _Decompressor]] = {
    "": lambda label: _Stored(),
    ".gz": _gzip,
    ".xz": lambda label: lzma.LZMADecompressor(lzma.FORMAT_XZ),
    ".lzma": lambda label: lzma.LZMADecompressor(lzma.FORMAT_ALONE),
    ".bz2": lambda label: bz2.BZ2Decompressor(),
    ".zst": _zstd,
}
