"""Archives (zip, tar) and compressed files. Nothing is extracted; times of members are left out."""

from __future__ import annotations

import bz2
import io
import lzma
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from functools import partial
from typing import Any, Protocol

from envbuild.core.damaged_zip import DAMAGED_ZIP
from envbuild.core.digest import sha256_bytes
from envbuild.core.patterns import lazy
from envbuild.runtime.tensors.beside import beside_members
from envbuild.verification.content.canonical import Canonical, TooMuchError, UnreadableError, below
from envbuild.verification.content.members import counted_name, place_of
from envbuild.verification.content.names import masked_path
from envbuild.verification.content.skops import SCHEMA, Numbered, numbered
from envbuild.verification.content.trackers import OF_COMET, experiment_of, read_comet
from envbuild.verification.content.workbooks import SHARED, SHEET, WORKBOOK, strings_of, without_measurements

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Nested = Callable[[Canonical, str, bytes], None]
"""Opens what is in an archive."""

_MEMBERS = 100_000
_DIGESTED = 64 << 20
"""Bytes of members whose digests are known."""
_TYPES = {tarfile.REGTYPE: "file", tarfile.DIRTYPE: "folder", tarfile.SYMTYPE: "link", tarfile.LNKTYPE: "hard link"}
_BLOCK, _RESERVED = 512, 500
"""Bytes of a block of a tar archive, and where the unused end of a header begins: POSIX, pax, ustar."""
_SCHEMA = 16 << 20
"""Bytes of the largest schema of a model that is read."""
_STRUCTURE = "/data.pkl"
_STORAGES = "data/"
"""Folder of the numbers of tensors in PyTorch's files, whatever they look like."""
_OF_WRITING = (".data/serialization_id",)
"""Members of PyTorch's files that describe how they were written."""


def read_zip(out: Canonical, path: str, data: bytes, nested: Nested) -> None:
    """Read a zip archive: names, modes and contents of members, in their order."""
    if data.count(b"PK\x01\x02") > _MEMBERS:
        raise TooMuchError(f"more than {_MEMBERS} members")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            names = [member.filename for member in members]
            if len({*names}) != len(names):
                raise UnreadableError("members that hide others")
            for extra in beside_members(data, archive):
                if extra == archive.comment and (text := _text_of(extra)):
                    out.text(below(path, "comment", " "), counted_name(out, path, text, "the comment"))
                else:
                    out.add(path, extra)
            if {*names} >= OF_COMET and _of_comet(out, path, archive, members, nested):
                return
            prefix = next((name[: -len(_STRUCTURE)] for name in names if name.endswith(_STRUCTURE)), None)
            model = numbered(archive.read(SCHEMA), names) if _has_schema(members) else None
            opened = _in_workbook(archive, members, nested) if WORKBOOK in names else nested
            with _knowing(out, partial(_digests_of_zip, archive, members)):
                for member in members:
                    _member(out, path, archive, member, opened, prefix, model)
    except DAMAGED_ZIP as error:
        raise UnreadableError(f"a damaged zip archive: {error}") from None


@contextmanager
def _knowing(out: Canonical, members: Callable[[], Iterator[tuple[str, bytes]]]) -> Iterator[None]:
    """Know members by their digests while an archive is read: a list of these, in one of them, has their names then.

    Args:
        out: what collects.
        members: yields the names and contents of members that are not too large altogether.
    """
    masks = out.masks

    def digests() -> dict[str, str]:
        try:
            found = [(sha256_bytes(data), place_of(masks.without_names(name))) for name, data in members()]
        except (*DAMAGED_ZIP, tarfile.TarError, OSError, EOFError):
            return {}
        return dict(reversed(found))  # of equal ones the first

    out.masks = masks.with_members(digests)
    try:
        yield
    finally:
        out.masks = masks


def _digests_of_zip(archive: zipfile.ZipFile, members: list[zipfile.ZipInfo]) -> Iterator[tuple[str, bytes]]:
    left = _DIGESTED
    for member in members:
        left -= member.file_size
        if left < 0:
            return
        if not member.is_dir():
            yield member.filename, archive.read(member)


def _digests_of_tar(data: bytes) -> Iterator[tuple[str, bytes]]:
    left = _DIGESTED
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        for member in archive:
            left -= member.size
            if left < 0:
                return
            if member.isfile() and (stream := archive.extractfile(member)) is not None:
                yield member.name, stream.read()


def _text_of(comment: bytes) -> str:
    """Return a comment of one line; empty if it is something else."""
    try:
        text = comment.decode()
    except UnicodeDecodeError:
        return ""
    return text if text.isprintable() else ""


def _in_workbook(archive: zipfile.ZipFile, members: list[zipfile.ZipInfo], nested: Nested) -> Nested:
    """Return what opens a workbook's members: measurements in its sheets are left out by the names of their columns."""
    shared = next((each for each in members if each.filename == SHARED and each.file_size <= _SCHEMA), None)
    strings = strings_of(archive.read(shared).decode("utf-8", "replace")) if shared is not None else []

    def opened(out: Canonical, path: str, data: bytes) -> None:
        if SHEET.search(path) is not None and len(data) <= _SCHEMA:
            with suppress(UnicodeDecodeError):
                data = without_measurements(out, path, data.decode(), strings).encode()
        nested(out, path, data)

    return opened


def _of_comet(
    out: Canonical, path: str, archive: zipfile.ZipFile, members: list[zipfile.ZipInfo], nested: Nested
) -> bool:
    """Read an archive of Comet; False, and nothing is counted, if it is none."""
    found = {each.filename: (each.external_attr >> 16, _content(out, archive, each)) for each in members}
    experiment = experiment_of(found)
    if experiment is None:
        return False
    for member in sorted(members, key=lambda each: each.filename):
        _time_of(out, member.filename, member)
    read_comet(out, path, experiment, nested)
    return True


def _content(out: Canonical, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    out.spend(member.file_size + 100)
    with archive.open(member) as stream:
        data = stream.read(member.file_size + 1)
    if len(data) != member.file_size:
        raise UnreadableError("a member of another size")
    return data


def _has_schema(members: list[zipfile.ZipInfo]) -> bool:
    """Whether the last member is a schema that may be read as a whole; what is read is counted with the members."""
    return bool(members) and members[-1].filename == SCHEMA and members[-1].file_size <= _SCHEMA


def _time_of(out: Canonical, name: str, member: zipfile.ZipInfo) -> None:
    """Note the time of a member; one of no day that there is has been made up."""
    text = repr(member.date_time)
    try:
        moment = datetime(*member.date_time, tzinfo=timezone.utc).timestamp()
    except ValueError:
        out.note_strange(name, text)
        moment = None
    out.time_of_writing(text, name=name, moment=moment)


def _member(
    out: Canonical,
    path: str,
    archive: zipfile.ZipFile,
    member: zipfile.ZipInfo,
    nested: Nested,
    prefix: str | None,
    model: Numbered | None,
) -> None:
    data = _content(out, archive, member)
    name = member.filename
    if model is not None:
        data = model.schema if name == SCHEMA else data
        name = model.members.get(name, name)
    prefixed = prefix is not None and name.startswith(f"{prefix}/")
    name = name[len(f"{prefix}/") :] if prefixed else name
    counted = name if prefixed else counted_name(out, path, name)
    place = below(path, place_of(counted), ": ")
    _time_of(out, place, member)
    if prefixed and name in _OF_WRITING:
        out.time_of_writing(data)
        return
    out.add(path, f"{counted} {member.external_attr >> 16:o}")
    if prefix is not None and name.startswith(_STORAGES):
        out.add(place, data)
    else:
        nested(out, place, data)


def read_tar(out: Canonical, path: str, data: bytes, nested: Nested) -> None:
    """Read a tar archive: kinds, names, modes, owners, targets of links and contents of members, in their order."""
    end = 0
    try:
        with (
            tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive,
            _knowing(out, partial(_digests_of_tar, data)),
        ):
            for count, member in enumerate(archive):
                if count > _MEMBERS or member.issparse():
                    raise UnreadableError("too many members, or holes in them")
                name, target = (counted_name(out, path, each) for each in (member.name, member.linkname))
                place = below(path, place_of(name), ": ")
                out.time_of_writing(f"{member.mtime}", name=place, moment=float(member.mtime))
                kind = _TYPES.get(member.type, repr(member.type))
                out.add(
                    path,
                    f"{name} {kind} {member.mode:o} {member.uid}:{member.gid} {member.uname}:"
                    f"{member.gname} {target} {member.devmajor}:{member.devminor} {_headers(member)}",
                )
                if member.isfile():
                    out.spend(member.size + 100)
                    stream = archive.extractfile(member)
                    body = stream.read(member.size) if stream is not None else b""
                    if len(body) != member.size:
                        raise UnreadableError("a member beyond the end")
                    nested(out, place, body)
                    behind = member.offset_data + member.size
                    if padding := data[behind : behind + -member.size % _BLOCK].strip(b"\0"):
                        out.add(place, padding)
                if reserved := data[member.offset_data - _BLOCK + _RESERVED : member.offset_data].strip(b"\0"):
                    out.add(place, reserved)
                end = member.offset_data + (-(-member.size // _BLOCK) * _BLOCK if member.isfile() else 0)
        if rest := data[end:].strip(b"\0"):
            out.add(path, rest)
    except (tarfile.TarError, OSError, ValueError, EOFError, RecursionError, MemoryError, OverflowError) as error:
        raise UnreadableError(f"a damaged tar archive: {error}") from None


def _headers(member: tarfile.TarInfo) -> str:
    """Return the extended headers of a member but for times, and for names that count by themselves."""
    known = {"path": member.name, "linkpath": member.linkname}
    found = {
        name: value
        for name, value in member.pax_headers.items()
        if name not in ("mtime", "atime", "ctime") and known.get(name) != value
    }
    return repr(sorted(found.items())) if found else ""


class _Decompressor(Protocol):
    eof: bool
    needs_input: bool
    unused_data: bytes

    def decompress(self, data: bytes | memoryview, max_length: int) -> bytes: ...


class _Gzip:
    """``zlib``'s object with the interface of the others.

    Args:
        bits: 31 for gzip's frame, 15 for zlib's own.
    """

    def __init__(self, bits: int = 31) -> None:
        self._object = zlib.decompressobj(bits)

    @property
    def eof(self) -> bool:
        return self._object.eof

    @property
    def needs_input(self) -> bool:
        return not self._object.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._object.unused_data

    def decompress(self, data: bytes | memoryview, max_length: int) -> bytes:
        return self._object.decompress(self._object.unconsumed_tail or data, max_length)


_MAKERS: dict[str, Callable[[], Any]] = {
    "gz": _Gzip,
    "bz2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(memlimit=256 << 20),
    "lzma": lambda: lzma.LZMADecompressor(lzma.FORMAT_ALONE, memlimit=256 << 20),
    "zlib": lambda: _Gzip(15),
    "zst": lambda: zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _WINDOW}),
}
_WINDOW = 27
"""Binary logarithm of the most bytes that zst may look back."""
_FIRST, _PIECE = 1 << 10, 1 << 20
"""Packed bytes of a part that are read at first, and most bytes that are read or unpacked at a time."""
_ZEROS = lazy(rb"\0*")


_SKIPPED, _HEAD = range(0x184D2A50, 0x184D2A60), 8
"""How frames begin that decoders of Zstandard and LZ4 pass over (RFC 8878, 3.1.2), and bytes before what is in one."""


def _behind_notes(out: Canonical, data: bytes, at: int) -> int:
    """Count the frames at a place in data that decoders pass over, and return where the last of them ends."""
    while len(data) - at >= _HEAD and int.from_bytes(data[at : at + 4], "little") in _SKIPPED:
        end = at + _HEAD + int.from_bytes(data[at + 4 : at + _HEAD], "little")
        if end > len(data):
            raise UnreadableError("compressed data that end too early")
        out.spend(end - at)
        out.add("", data[at:end])
        at = end
    return at


def _noted(data: bytes, at: int) -> tuple[bytes, bytes]:
    """Return the extra field and the comment in the head of a gzip file, and the name; the time is of its writing.

    The layout is that of RFC 1952, 2.3.
    """
    flags, at, found, name = data[at + 3] if len(data) > at + 3 else 0, at + 10, b"", b""
    if flags & 4:
        size = int.from_bytes(data[at : at + 2], "little")
        found, at = data[at + 2 : at + 2 + size], at + 2 + size
    for flag in (8, 16):
        if flags & flag:
            end = data.find(b"\0", at)
            end = len(data) if end < 0 else end
            found, name = (found + data[at:end], name) if flag == 16 else (found, data[at:end])
            at = end + 1
    return found, name


def unpack(out: Canonical, data: bytes, kind: str) -> bytes:
    """Return what compressed data hold; raises ``UnreadableError`` if they are damaged or hold more than may be.

    They may be hundreds of thousands of parts with nothing in them, so that none takes time by what is behind it.
    """
    found: list[bytes] = []
    at = 0
    try:
        while at < len(data):
            if kind == "gz":
                moment = float(int.from_bytes(data[at + 4 : at + 8], "little"))
                out.time_of_writing(data[at + 4 : at + 8], name="the compressed data", moment=moment)
                noted, name = _noted(data, at)
                if noted:
                    out.add("", noted)
                if name:  # that of the file, which may be one that was drawn, and renamed since
                    out.note_strange("the compressed data's name", masked_path(name.decode("latin-1"), out.masks))
            at = _unpack_part(out, data, at, _MAKERS[kind](), found)
            if kind in ("gz", "bz2"):
                at = _ZEROS.match(data, at).end()  # type: ignore[union-attr]  # both allow zeros behind the end
            elif kind == "zst":
                at = _behind_notes(out, data, at)
            elif kind in ("zlib", "lzma") and at < len(data):
                raise UnreadableError("something behind the end of compressed data")
    except (zlib.error, lzma.LZMAError, zstd.ZstdError, OSError, EOFError, ValueError, MemoryError) as error:
        raise UnreadableError(f"damaged compressed data: {error}") from None
    return b"".join(found)


def _unpack_part(out: Canonical, data: bytes, at: int, stream: _Decompressor, found: list[bytes]) -> int:
    """Unpack one stream that begins at a place in data, and return where it ends."""
    size = _FIRST
    with memoryview(data) as view:
        while not stream.eof:
            packed = view[at : at + size] if stream.needs_input else view[:0]
            piece = stream.decompress(packed, _PIECE)
            if not piece and not packed and not stream.eof:
                raise UnreadableError("compressed data that end too early")
            at, size = at + len(packed), min(2 * size, _PIECE)
            out.spend(len(piece))
            found.append(piece)
    return at - len(stream.unused_data)
