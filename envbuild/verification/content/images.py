"""Images and printed pages: PNG, JPEG and PDF. Pixels and pages count, dates do not."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from datetime import datetime

from envbuild.core.patterns import lazy
from envbuild.verification.content.canonical import Canonical, UnreadableError, day

_PNG = b"\x89PNG\r\n\x1a\n"
_DATES = lazy(
    rb"/(?P<name>CreationDate|ModDate)\s*\((?P<date>D:(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)[0-9Z+'\-]*)\)"
)
_IDENTITY = lazy(rb"/ID\s*\[\s*<[0-9A-Fa-f]*>\s*<[0-9A-Fa-f]*>\s*\]")
_XMP = lazy(
    rb"<xmp:(?P<name>CreateDate|ModifyDate|MetadataDate)>[^<]{4,40}</xmp:(?P=name)>"
    rb"|<xmpMM:(?:DocumentID|InstanceID)>[^<]{4,80}<"
)
_EXIF = lazy(
    rb"(?<!\d)(?P<year>\d{4}):(?P<month>\d\d):(?P<day>\d\d) \d\d:\d\d:\d\d(?=\0)"  # DateTime, DateTimeOriginal, …
)
_FULL = lazy(r"(\d{4})[-:]?(\d\d)[-:]?(\d\d)[ T]?(\d\d):?(\d\d):?(\d\d)")
_TIME_OF_PNG = 7
"""Bytes of it."""
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
            year, *others = _parts(body)
            text = f"{year:04}-{others[0]:02}-{others[1]:02} {others[2]:02}:{others[3]:02}:{others[4]:02}"
            _dated(out, f"{path} tIME".strip(), body, text)
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
            out.add(name, pattern.sub(_note(out, pattern), body) if pattern is not None else body)
    out.add(f"{path} pixels".strip(), data[place:])


def read_pdf(out: Canonical, path: str, data: bytes) -> None:
    """Read a PDF: all of its bytes but for dates about when the run was, and identities."""
    for pattern in (_XMP, _IDENTITY, _DATES):
        data = pattern.sub(_note(out, pattern), data)
    out.add(path, data)


def _note(out: Canonical, pattern: re.Pattern[bytes]) -> Callable[[re.Match[bytes]], bytes]:
    def note(found: re.Match[bytes]) -> bytes:
        parts = found.groupdict()
        if parts.get("year"):
            moment = day(*(int(parts[name]) for name in ("year", "month", "day")))
            if moment is None or not out.is_moment(moment):
                return found[0]
        name = parts.get("name") or b"a date"
        if pattern is _IDENTITY or found[0].startswith(b"<xmpMM:"):
            out.time_of_writing(found[0])
        else:
            _dated(out, name.decode(), found[0], found[0].decode("latin-1"))
        return b"/masked"

    return note


def _parts(body: bytes) -> tuple[int, ...]:
    """Return year, month, day, hour, minute and second of a PNG's time; Portable Network Graphics, 11.3.6.1."""
    if len(body) != _TIME_OF_PNG:
        raise UnreadableError("an image with a time of another form")
    return int.from_bytes(body[:2], "big"), *body[2:]


def _dated(out: Canonical, name: str, value: bytes, text: str) -> None:
    """Note a date; what is no date with a time of day, by UTC, is compared to be quoted, as one that no run had is."""
    found = _FULL.search(text)
    try:
        moment = datetime.strptime("".join(found.groups()) + "Z", "%Y%m%d%H%M%S%z").timestamp() if found else None
    except ValueError:
        moment = None
    if moment is None:
        out.note_strange(name, text)
    out.time_of_writing(value, name=name, moment=moment)
