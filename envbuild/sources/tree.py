"""The files of a project as one archive: the same files give the same bytes, whenever and wherever they are packed."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass

from envbuild.lockfile import layout

TOP = "project"
"""The folder in the archive that holds everything."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeFile:
    """A file: path in POSIX form, content, whether it is executable, whether it is a symbolic link to its content."""

    path: str
    data: bytes
    executable: bool = False
    link: bool = False


def pack(files: Sequence[TreeFile]) -> bytes:
    """Return an uncompressed tar of files: sorted, with one time, one owner and one of two modes."""
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for file in sorted(files, key=lambda file: file.path):
            member = tarfile.TarInfo(f"{TOP}/{file.path}")
            member.mtime, member.mode = layout.EPOCH, 0o755 if file.executable else 0o644
            if file.link:
                member.type, member.linkname = tarfile.SYMTYPE, file.data.decode("utf-8", "surrogateescape")
                tar.addfile(member)
            else:
                member.size = len(file.data)
                tar.addfile(member, io.BytesIO(file.data))
    return output.getvalue()


def unpack(archive: bytes) -> list[TreeFile]:
    """Return the files of an archive that ``pack`` made, without its links."""
    found = []
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isreg() else None
            if content is not None:
                found.append(TreeFile(path=member.name.removeprefix(f"{TOP}/"), data=content.read()))
    return found
