"""Fast reading of wheels: members inflated straight from the file, in chunks, each compared with its digest.

What zipfile does in addition is left out: its CRC, unless RECORD's SHA-2 differs, and its layers of buffers. Only
the uncompressed bytes have identity, so the inflating library does not matter: ISA-L where it is installed, else zlib.
Source of the format: PKWARE's APPNOTE.TXT 6.3, sections 4.3.7 and 4.4.5.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from envbuild.image.python.wheel import File, Wheel, record_digest

_library: Any
try:
    from isal import isal_zlib

    _library = isal_zlib
except ImportError:  # no wheel of it for this machine
    _library = zlib
_DAMAGE: tuple[type[Exception], ...] = (ValueError, struct.error, zlib.error, _library.error)

_HEADER = struct.Struct("<4s22xHH")
_PACKED = 128 << 10
"""Packed bytes read at a time."""
_NAMES = 512
"""Bytes of a member's name and extra field that are read with its header."""
_HASHES = {"sha256": hashlib.sha256, "sha384": hashlib.sha384, "sha512": hashlib.sha512}
_CHUNK = 1 << 20
"""Unpacked bytes that come out at a time, at most: memory stays small even for a file of zeros."""


class Reader:
    """Reads what a wheel installs; use as a context manager.

    Args:
        wheel: opened and checked.
        path: its file.
    """

    def __init__(self, wheel: Wheel, path: Path) -> None:
        self.wheel = wheel
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __enter__(self) -> Reader:
        """Return the reader."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def read(self, file: File) -> bytes:
        """Return a file's whole content; raises ``WheelError`` as ``chunks`` does."""
        if file.member is None:
            return file.data
        found = self._small(file, file.member) if file.member.compress_size <= _PACKED else None
        return b"".join(self.chunks(file)) if found is None else found

    def _small(self, file: File, member: zipfile.ZipInfo) -> bytes | None:
        """Return a small member's content, read and unpacked at once; None where something is special or wrong."""
        algorithm, _, expected = file.digest.partition("=")
        make = _HASHES.get(algorithm)
        head = os.pread(self._descriptor, _HEADER.size + _NAMES + member.compress_size, member.header_offset)
        if make is None or len(head) < _HEADER.size:
            return None
        signature, name, extra = _HEADER.unpack_from(head)
        start = _HEADER.size + name + extra
        data = head[start : start + member.compress_size]
        if signature != b"PK\3\4" or len(data) != member.compress_size:
            return None
        if member.compress_type == zipfile.ZIP_DEFLATED:
            inflate = _library.decompressobj(-zlib.MAX_WBITS)
            try:
                data = inflate.decompress(data, file.size + 1)
            except _DAMAGE:
                return None
            if not inflate.eof:
                return None
        elif member.compress_type != zipfile.ZIP_STORED:
            return None
        if len(data) != file.size or record_digest(make(data).digest()) != expected:
            return None
        return data

    def chunks(self, file: File) -> Iterator[bytes]:
        """Yield a file's content in parts of at most one MiB, and after the last one compare size and digest.

        Raises:
            WheelError: the member is damaged.
        """
        if file.member is None:
            yield file.data
            return
        name = file.member.filename
        if file.member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            with self.wheel.open(file) as stream:
                yield from iter(lambda: stream.read(_CHUNK), b"")
            return
        algorithm, _, expected = file.digest.partition("=")
        digest = hashlib.new(algorithm)
        left = file.size
        with self._faults(name):
            for chunk in self._unpacked(file.member):
                left -= len(chunk)
                if left < 0:
                    break
                digest.update(chunk)
                yield chunk
        if left:
            raise self.wheel.wrong(name, f"cannot be unpacked: expected {file.size} bytes, found {file.size - left}")
        if record_digest(digest.digest()) != expected:
            self.wheel.note_changed(file.member)

    def _unpacked(self, member: zipfile.ZipInfo) -> Iterator[bytes]:
        """Yield the unpacked bytes; deflated data must end where it declares it does."""
        signature, name, extra = _HEADER.unpack(os.pread(self._descriptor, _HEADER.size, member.header_offset))
        if signature != b"PK\3\4":
            raise ValueError("there is no member at the offset in the directory")
        offset = member.header_offset + _HEADER.size + name + extra
        stored = member.compress_type == zipfile.ZIP_STORED
        inflate = None if stored else _library.decompressobj(-zlib.MAX_WBITS)
        end = offset + member.compress_size
        while offset < end:
            packed = os.pread(self._descriptor, min(_PACKED, end - offset), offset)
            if not packed:
                raise ValueError("the archive is cut short")
            offset += len(packed)
            yield from (packed,) if inflate is None else _inflated(inflate, packed)
        while inflate is not None and not inflate.eof and (chunk := inflate.decompress(b"", _CHUNK)):
            yield chunk
        if inflate is not None and not inflate.eof:
            raise ValueError("its packed data has no end")

    @contextmanager
    def _faults(self, name: str) -> Iterator[None]:
        """Turn what is raised over damaged data into ``WheelError``."""
        try:
            yield
        except _DAMAGE as error:
            raise self.wheel.wrong(name, f"cannot be unpacked: {error}") from None


def _inflated(inflate: Any, packed: bytes) -> Iterator[bytes]:
    while packed:
        chunk = inflate.decompress(packed, _CHUNK)
        packed = inflate.unconsumed_tail
        if not chunk:
            return
        yield chunk
