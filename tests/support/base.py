"""File systems of base images, as tars."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping

GLIBC = b"\x7fELF\0GNU C Library (Debian GLIBC 2.36-9+deb12u13) stable release version 2.36.\n\0"
"""What glibc's shared library reports about itself."""


def base_tar(files: Mapping[str, bytes | str], links: Mapping[str, str] | None = None) -> bytes:
    """Return a tar of these files, symbolic links and the folders above them, sorted."""
    members: dict[str, tuple[tarfile.TarInfo, bytes]] = {}
    for path, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        for depth in range(1, path.count("/") + 1):
            folder = "/".join(path.split("/")[:depth])
            members[folder] = (_member(folder, tarfile.DIRTYPE), b"")
        members[path] = (_member(path, tarfile.REGTYPE, size=len(data)), data)
    for path, target in (links or {}).items():
        members[path] = (_member(path, tarfile.SYMTYPE, target=target), b"")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for _, (member, data) in sorted(members.items()):
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def _member(name: str, kind: bytes, *, size: int = 0, target: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.size, member.linkname = kind, size, target
    member.mode = 0o644 if kind == tarfile.REGTYPE else 0o755
    return member
