"""Image layers: a tar writer whose bytes depend on the entries alone, and that hashes while it writes.

The format is POSIX.1-1988 ustar; a PAX extended header (POSIX.1-2001, ``pax`` interchange format) precedes an entry
only when ustar cannot hold it: a long or non-ASCII name, an extended attribute, a large size or owner. Every entry's
modification time is ``layout.EPOCH``; owners are numeric; PAX headers have one constant name, so that no process
id and no clock enters. GNU tar, Python, umoci, containerd and every Docker Engine read it.

Order: by the bytes of the path, so that a directory comes before what is in it; no path twice; every parent
directory is a separate entry, since an engine would otherwise make it up with today's date.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import BinaryIO, Literal

from envbuild.errors import BuildError
from envbuild.image.tar.sink import Sink
from envbuild.lockfile import layout

Kind = Literal["file", "dir", "symlink", "hardlink", "char", "block", "fifo"]

BLOCK = 512
_CHUNK = 1 << 20
_TYPES: Mapping[str, bytes] = {
    "file": b"0",
    "hardlink": b"1",
    "symlink": b"2",
    "char": b"3",
    "block": b"4",
    "dir": b"5",
    "fifo": b"6",
}
_MAX_OWNER = 0o7777777
_MAX_SIZE = 0o77777777777
_NAME = re.compile(r"[^/\x00\n]+(?:/[^/\x00\n]+)*")
_XATTR = re.compile(r"[A-Za-z0-9_.@:+-]+")
_MTIME = b"%011o\0" % layout.EPOCH
_ZEROS = bytes(BLOCK)
_NO_XATTRS: Mapping[str, bytes] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One member of a layer.

    Attributes:
        path: relative, without a leading ``/`` or ``./``; undecodable bytes as surrogate escapes.
        mode: permission bits with set-user-ID, set-group-ID and sticky.
        target: what a symbolic link holds, or the path of the earlier entry that a hard link names.
        size: bytes of a regular file's content.
        xattrs: extended attributes by full name, such as ``security.capability``.
        major: device number's first part, of ``char`` and ``block``.
        minor: device number's second part.
    """

    path: str
    kind: Kind
    mode: int
    uid: int = 0
    gid: int = 0
    target: str = ""
    size: int = 0
    xattrs: Mapping[str, bytes] = field(default_factory=lambda: _NO_XATTRS)
    major: int = 0
    minor: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Layer:
    """An uncompressed layer: SHA-256 of its tar (hexadecimal) and its size in bytes."""

    diff_id: str
    size: int


class LayerWriter:
    """Writes entries to a binary stream as one tar, hashing in the same pass.

    Use as a context manager; the stream stays open. ``digest`` and ``size`` are final after the block.

    Args:
        output: where the tar goes; it is written in chunks of about one MiB.
        name: what is being written, for error messages.
    """

    def __init__(self, output: BinaryIO, name: str = "layer") -> None:
        self._name = name
        self._sink = Sink(output)
        self._pending = bytearray()
        self._last = b""
        self._kinds: dict[str, bool] = {}
        self._closed = False
        self.size = 0

    def __enter__(self) -> LayerWriter:
        """Return the writer."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Finish the tar unless the block failed."""
        try:
            if kind is None:
                self.close()
        finally:
            self._sink.stop()

    @property
    def digest(self) -> str:
        """SHA-256 (hexadecimal) of the whole tar; final once it is closed."""
        return self._sink.hash.hexdigest()

    def layer(self) -> Layer:
        """The finished layer's identity; call after the block."""
        if not self._closed:
            raise RuntimeError("the layer is not finished")
        return Layer(diff_id=self.digest, size=self.size)

    def add(self, entry: Entry, data: BinaryIO | bytes | Path | None = None) -> None:
        """Append one entry.

        Args:
            entry: what it is; paths must come in order (see the module's description).
            data: content of a regular file, exactly ``entry.size`` bytes; a path: of the file there, which is the
                output's to move away if that takes files (``Adopter``).

        Raises:
            BuildError: an unsafe or unrepresentable name, a path out of order or twice, a missing parent directory,
                a hard link before its target, or content of another size.
        """
        self._check_place(entry)
        if isinstance(data, Path) and entry.kind == "file":
            self._add_file(entry, data)
            return
        self._put(header(entry, self._name))
        if entry.kind != "file":
            if entry.size or data:
                raise self._wrong(entry, f"a {entry.kind} has no content")
            return
        if data is None:
            data = b""
        assert not isinstance(data, Path)  # noqa: S101 - only files have one
        if isinstance(data, bytes):
            if len(data) != entry.size:
                raise self._wrong(entry, f"expected {entry.size} bytes of content, found {len(data)}")
            self._put(data)
        else:
            self._copy(entry, data)
        if padding := -entry.size % BLOCK:
            self._put(_ZEROS[:padding])

    def close(self) -> None:
        """Write the end-of-archive marker, two zero blocks."""
        if not self._closed:
            self._put(bytes(2 * BLOCK))
            self._flush()
            self._sink.finish()
            self._closed = True

    def _check_place(self, entry: Entry) -> None:
        path = entry.path
        key = path.encode("utf-8", "surrogateescape")
        if key <= self._last:
            raise self._wrong(entry, f"it must come before {self._last.decode(errors='replace')!r}, and once only")
        parent = path.rpartition("/")[0]
        if parent and not self._kinds.get(parent, False):
            raise self._wrong(entry, f"its parent {parent!r} is not a directory of this layer")
        if entry.kind == "hardlink" and self._kinds.get(entry.target, True):
            raise self._wrong(entry, f"it links to {entry.target!r}, which is no earlier file of this layer")
        self._kinds[path] = entry.kind == "dir"
        self._last = key

    def _add_file(self, entry: Entry, path: Path) -> None:
        self._flush()
        head = header(entry, self._name)
        padding = _ZEROS[: -entry.size % BLOCK]
        self.size += len(head) + entry.size + len(padding)
        self._sink.put_file(head, path, entry.size, padding)

    def _copy(self, entry: Entry, data: BinaryIO) -> None:
        left = entry.size
        while left:
            chunk = data.read(min(_CHUNK, left))
            if not chunk:
                raise self._wrong(entry, f"expected {entry.size} bytes of content, found {entry.size - left}")
            left -= len(chunk)
            self._put(chunk)
        if data.read(1):
            raise self._wrong(entry, f"expected {entry.size} bytes of content, found more")

    def _put(self, chunk: bytes) -> None:
        self.size += len(chunk)
        if len(chunk) < _CHUNK // 4:
            self._pending += chunk
            if len(self._pending) >= _CHUNK:
                self._flush()
            return
        self._flush()
        self._sink.put(chunk)

    def _flush(self) -> None:
        if self._pending:
            self._sink.put(self._pending)
            self._pending = bytearray()

    def _wrong(self, entry: Entry, message: str) -> BuildError:
        return BuildError(f"{self._name}: {entry.path!r}: {message}")


def check_path(path: str, where: str = "layer") -> str:
    """Return ``path`` if it is safe in a layer.

    Raises:
        BuildError: absolute, empty, with ``.`` or ``..`` or empty components, NUL or newline, or a name that image
            formats read as a deletion (``.wh.``, OCI image specification, layer.md, "Whiteouts").
    """
    if not _NAME.fullmatch(path):
        raise BuildError(f"{where}: {path!r}: not a relative path of plain components")
    if part := _refused_part(path):
        raise BuildError(f"{where}: {path!r}: a component must not be {part!r}")
    return path


def _refused_part(path: str) -> str:
    """Return the first component of a path that no layer may hold; empty if there is none."""
    if path[0] != "." and "/." not in path:
        return ""
    return next((part for part in path.split("/") if part in (".", "..") or part.startswith(".wh.")), "")


def header(entry: Entry, where: str = "layer") -> bytes:
    """Return the header blocks of one entry; raises ``BuildError`` as ``LayerWriter.add`` does."""
    check_path(entry.path, where)
    if entry.kind not in _TYPES:
        raise BuildError(f"{where}: {entry.path!r}: unknown kind {entry.kind!r}")
    _check_numbers(entry, where)
    if entry.kind == "hardlink":
        check_path(entry.target, where)
    elif (entry.kind == "symlink") != bool(entry.target) or "\0" in entry.target or "\n" in entry.target:
        raise BuildError(f"{where}: {entry.path!r}: {entry.target!r} is not a link target for a {entry.kind}")
    name = (entry.path + "/" * (entry.kind == "dir")).encode("utf-8", "surrogateescape")
    link = entry.target.encode("utf-8", "surrogateescape")
    prefix, short = _split(name)
    records = _records(entry, name, link, fits=bool(short))
    if records:
        body = b"".join(_record(key, value) for key, value in sorted(records.items()))
        extended = _block(b"././@PaxHeader", b"", b"x", 0o644, size=len(body))
        return (
            extended
            + body
            + _ZEROS[: -len(body) % BLOCK]
            + _entry_block(entry, _ascii(short or name), prefix, _ascii(link))
        )
    return _entry_block(entry, short, prefix, link)


def _check_numbers(entry: Entry, where: str) -> None:
    device = entry.kind in ("char", "block")
    for label, value, limit in (
        ("mode", entry.mode, 0o7777),
        ("uid", entry.uid, 2**32 - 2),
        ("gid", entry.gid, 2**32 - 2),
        ("size", entry.size, 2**63 - 1 if entry.kind == "file" else 0),
        ("major", entry.major, _MAX_OWNER if device else 0),
        ("minor", entry.minor, _MAX_OWNER if device else 0),
    ):
        if not 0 <= value <= limit:
            raise BuildError(f"{where}: {entry.path!r}: {label} must be between 0 and {limit}, found {value}")
    for key in entry.xattrs:
        if not _XATTR.fullmatch(key):
            raise BuildError(f"{where}: {entry.path!r}: {key!r} is not the name of an extended attribute")


def _records(entry: Entry, name: bytes, link: bytes, *, fits: bool) -> dict[bytes, bytes]:
    """PAX records for what does not fit into ustar."""
    small = entry.uid <= _MAX_OWNER and entry.gid <= _MAX_OWNER and entry.size <= _MAX_SIZE
    if fits and small and name.isascii() and link.isascii() and len(link) <= 100 and not entry.xattrs:
        return {}
    records = {b"SCHILY.xattr." + key.encode(): value for key, value in entry.xattrs.items()}
    if not fits or not name.isascii():
        records[b"path"] = name
    if len(link) > 100 or not link.isascii():
        records[b"linkpath"] = link
    for key, value, limit in (
        (b"uid", entry.uid, _MAX_OWNER),
        (b"gid", entry.gid, _MAX_OWNER),
        (b"size", entry.size, _MAX_SIZE),
    ):
        if value > limit:
            records[key] = b"%d" % value
    for key in (b"path", b"linkpath"):
        try:
            records.get(key, b"").decode()
        except UnicodeDecodeError:
            records[b"hdrcharset"] = b"BINARY"
    return records


def _record(key: bytes, value: bytes) -> bytes:
    """One PAX record, ``"%d %s=%s\\n"``, whose number counts its own digits too."""
    body = len(key) + len(value) + 3
    size = body + len(str(body))
    size = body + len(str(size))
    return b"%d %s=%s\n" % (size, key, value)


def _split(name: bytes) -> tuple[bytes, bytes]:
    """Split a name into ustar's prefix (at most 155 bytes) and name (at most 100); empty name if it cannot be."""
    if len(name) <= 100:
        return b"", name
    cut = name.rfind(b"/", 0, min(156, len(name) - 1))
    if cut <= 0 or len(name) - cut - 1 > 100:
        return b"", b""
    return name[:cut], name[cut + 1 :]


def _ascii(text: bytes) -> bytes:
    """What a reader without PAX sees of a name: shortened, with question marks."""
    return text.decode("ascii", "replace").replace("\ufffd", "?").encode()[:100]


def _entry_block(entry: Entry, name: bytes, prefix: bytes, link: bytes) -> bytes:
    return _block(
        name,
        prefix if prefix.isascii() else b"",
        _TYPES[entry.kind],
        entry.mode,
        uid=entry.uid if entry.uid <= _MAX_OWNER else 0,
        gid=entry.gid if entry.gid <= _MAX_OWNER else 0,
        size=entry.size if entry.size <= _MAX_SIZE else 0,
        link=link[:100],
        major=entry.major,
        minor=entry.minor,
    )


def _sum(piece: bytes) -> int:
    """Add the numbers of 256 bytes at most: the lower half of their Adler-32 less 1, modulo 65521 (RFC 1950, 8.2)."""
    return (zlib.adler32(piece) & 0xFFFF) - 1


def _block(
    name: bytes,
    prefix: bytes,
    kind: bytes,
    mode: int,
    *,
    uid: int = 0,
    gid: int = 0,
    size: int = 0,
    link: bytes = b"",
    major: int = 0,
    minor: int = 0,
) -> bytes:
    """One ustar header block (POSIX.1-1988, section 10.1.1)."""
    head = b"%b%07o\0%07o\0%07o\0%011o\0%b" % (name.ljust(100, b"\0"), mode, uid, gid, size, _MTIME)
    tail = b"%b%bustar\00000%b%07o\0%07o\0%b%b" % (
        kind,
        link.ljust(100, b"\0"),
        bytes(64),
        major,
        minor,
        prefix.ljust(155, b"\0"),
        bytes(12),
    )
    checksum = _sum(head) + _sum(tail[:178]) + _sum(tail[178:]) + 8 * 0x20
    return b"%b%06o\0 %b" % (head, checksum, tail)
