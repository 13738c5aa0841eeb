"""Images and printed pages: PNG, JPEG and PDF. Pixels and pages count, dates do not."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable

from envbuild.verification.content.canonical import Canonical, UnreadableError, day

_PNG = b"\x89PNG\r\n\x1a\n"
_DATES = re.compile(
    rb"/(?P<name>CreationDate|ModDate)\s*\((?P<date>D:(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)[0-9Z+'\-]*)\)"
)
_IDENTITY = re.compile(rb"/ID\s*\[\s*<[0-9A-Fa-f]*>\s*<[0-9A-Fa-f]*>\s*\]")
_XMP = re.compile(
    rb"<xmp:(?P<name>CreateDate|ModifyDate|MetadataDate)>[^<]{4,40}</xmp:(?P=name)>"
    rb"|<xmpMM:(?:DocumentID|InstanceID)>[^<]{4,80}<"
)
_EXIF = re.compile(
    rb"(?<!\d)(?P<year>\d{4}):(?P<month>\d\d):(?P<day>\d\d) \d\d:\d\d:\d\d(?=\0)"  # DateTime, DateTimeOriginal, …
)
_SCAN, _COMMENT = b"\xda", 0xFE
"""Markers of segments: the pixels begin, a text."""


def read_png(out: Canonical, path: str, data: bytes) -> None:
    """Read a PNG image: its pixels unpacked, its texts masked, without the time of the last change."""
    place, packed = len(_PNG), []
    while place < len(data):
        size = int.from_bytes(data[place : place + 4], "big")
        kind, body = data[place + 4 : place + 8], data[place + 8 : place + 8 + size]
        if len(body) != size or len(kind) != 4:
            raise UnreadableError("an image that ends too early")
        if zlib.crc32(kind + body).to_bytes(4, "big") != data[place + 8 + size : place + 12 + size]:
            raise UnreadableError("an image with a wrong sum, which others do not open")
        place += 12 + size
        if kind == b"IDAT":
            packed.append(body)
        elif kind == b"tIME":
            out.time_of_writing(body)
        elif kind in (b"tEXt", b"iTXt"):
            out.text(f"{path} {kind.decode()}".strip(), body.replace(b"\0", b" ").decode("latin-1"))
        else:
            out.add(f"{path} {kind.decode('latin-1')}".strip(), body)
    out.add(f"{path} pixels".strip(), _inflate(out, b"".join(packed)))


def _inflate(out: Canonical, data: bytes) -> bytes:
    stream = zlib.decompressobj()
    try:
        found = stream.decompress(data, max(1, out.left))
    except zlib.error as error:
        raise UnreadableError(f"a damaged image: {error}") from None
    out.spend(len(found))
    if not stream.eof:
        raise UnreadableError("an image that ends too early")
    return found


def read_jpeg(out: Canonical, path: str, data: bytes) -> None:
    """Read a JPEG image segment by segment: comments masked, dates of Exif and XMP about when the run was left out."""
    place = 2
    while data[place : place + 1] == b"\xff" and data[place + 1 : place + 2] != _SCAN:
        if len(data) < place + 4:
            raise UnreadableError("an image that ends too early")
        kind, size = data[place + 1], int.from_bytes(data[place + 2 : place + 4], "big")
        body = data[place + 4 : place + 2 + size]
        if size < 2 or len(body) != size - 2:
            raise UnreadableError("an image that ends too early")
        place += 2 + size
        name = f"{path} segment {kind:x}".strip()
        if kind == _COMMENT:
            out.text(name, body.decode("latin-1"))
        else:
            pattern = _EXIF if body.startswith(b"Exif\0\0") else _XMP if body.startswith(b"http:") else None
            out.add(name, pattern.sub(_note(out), body) if pattern is not None else body)
    out.add(f"{path} pixels".strip(), data[place:])


def read_pdf(out: Canonical, path: str, data: bytes) -> None:
    """Read a PDF: all of its bytes but for dates about when the run was, and identities."""
    for pattern in (_XMP, _IDENTITY, _DATES):
        data = pattern.sub(_note(out), data)
    out.add(path, data)


def _note(out: Canonical) -> Callable[[re.Match[bytes]], bytes]:
    def note(found: re.Match[bytes]) -> bytes:
        parts = found.groupdict()
        if parts.get("year"):
            moment = day(*(int(parts[name]) for name in ("year", "month", "day")))
            if moment is None or not out.is_moment(moment):
                return found[0]
        out.time_of_writing(found[0])
        return b"/masked"

    return note
