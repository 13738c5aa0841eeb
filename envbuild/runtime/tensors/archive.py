"""Zip archives as NumPy, PyTorch and Keras write them: members as buffers, nothing is ever extracted."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib

from .beside import beside_members
from .contents import UnreadableError
from .mapping import spilled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MEMBERS = 100_000
PACKED = 1 << 30
"""Bytes of a compressed member once it is unpacked."""
HELD = 1 << 24
"""Bytes of one that is unpacked in memory; a larger one goes into a file."""
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Others, whose memory the file itself chooses (LZMA), nobody writes models with."""
_LOCAL = b"PK\x03\x04"
_HEADER = 30


class Archive:
    """A zip archive in a buffer.

    Args:
        view: the archive.
        folder: for large members while they are unpacked; without one they are not.

    Raises:
        UnreadableError: it is damaged, or two members have one name.
    """

    def __init__(self, view: memoryview, folder: str = "") -> None:
        self.view = view
        self.folder = folder
        try:
            self._zip = zipfile.ZipFile(Window(view))
        except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, UnicodeDecodeError) as error:
            raise UnreadableError(f"a damaged zip archive: {error}") from None
        found = [each for each in self._zip.infolist() if not each.filename.endswith("/")]  # a name may be empty
        self.members = {each.filename: each for each in found}
        if len(found) > MEMBERS or len(found) != len(self.members):
            raise UnreadableError("a zip archive with members that hide others")

    def beside(self) -> Iterator[bytes]:
        """Yield what is in the archive beside its members' contents: ``beside_members``.

        Raises:
            UnreadableError: it is damaged.
        """
        try:
            yield from beside_members(self.view, self._zip)
        except (ValueError, struct.error) as error:
            raise UnreadableError(f"a damaged zip archive: {error}") from None

    def text(self, name: str, limit: int) -> bytes:
        """Return a member that is parsed as a whole.

        Raises:
            UnreadableError: there is none, it is damaged, or above ``limit`` bytes.
        """
        member = self.members.get(name)
        if member is not None and member.file_size > limit:
            raise UnreadableError(f"{name} has {member.file_size} bytes, more than {limit}")
        return bytes(self.read(name))

    def read(self, name: str) -> memoryview:
        """Return a member: part of the file if it is not compressed, else unpacked.

        Raises:
            UnreadableError: there is none, it is damaged, or above ``PACKED`` bytes and to be unpacked.
        """
        member = self.members.get(name)
        if member is None:
            raise UnreadableError(f"a zip archive without {name}")
        if member.flag_bits & 1:
            raise UnreadableError(f"{name} is encrypted")
        if member.compress_type == zipfile.ZIP_STORED and member.compress_size == member.file_size:
            return self._stored(member)
        if member.compress_type not in _METHODS:
            raise UnreadableError(f"{name} is compressed by a method that is not read")
        limit = PACKED if self.folder else HELD
        if member.file_size > limit:
            raise UnreadableError(f"{name} is compressed and has {member.file_size} bytes, more than {limit}")
        try:
            with self._zip.open(member) as stream:
                if member.file_size > HELD:
                    return spilled(stream, member.file_size, self.folder)
                data = stream.read(member.file_size + 1)
        # ValueError: a member before the start of the file, or a name that is no UTF-8
        except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, RuntimeError, ValueError) as error:
            raise UnreadableError(f"{name} is damaged: {error}") from None
        return memoryview(data)

    def _stored(self, member: Any) -> memoryview:
        start = member.header_offset
        header = bytes(self.view[start : start + _HEADER])
        if len(header) != _HEADER or header[:4] != _LOCAL:
            raise UnreadableError(f"{member.filename} is not where the archive states")
        start += _HEADER + int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
        data = self.view[start : start + member.file_size]
        if len(data) != member.file_size:
            raise UnreadableError(f"{member.filename} is beyond the end of the file")
        return data


class Window(io.RawIOBase):
    """A file in a buffer, which copies nothing but what is read."""

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self._place = 0

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer."""
        part = self._view[self._place : self._place + len(buffer)]
        buffer[: len(part)] = part
        self._place += len(part)
        return len(part)

    def seek(self, place: int, whence: int = 0) -> int:
        """Move."""
        start = (0, self._place, len(self._view))[whence]
        if start + place < 0:
            raise ValueError("a place before the start")
        self._place = start + place
        return self._place

    def tell(self) -> int:
        """Return the place."""
        return self._place
