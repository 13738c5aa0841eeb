"""A maker of tiny Debian packages in pure Python: the same arguments give the same bytes, hostile members included.

Source of the format: deb(5), deb-control(5).
"""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import sys
import tarfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MTIME = 1_580_601_600  # 2020-02-02


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """One member of the data archive as it is: nothing about ``name`` or ``target`` is checked.

    Attributes:
        name: as in the tar, so usually with a leading ``./``.
        kind: ``file``, ``dir``, ``symlink``, ``hardlink``, ``char``, ``block`` or ``fifo``.
        xattrs: extended attributes, kept as PAX ``SCHILY.xattr.`` records.
    """

    name: str
    kind: str = "file"
    data: bytes = b""
    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    target: str = ""
    major: int = 0
    minor: int = 0
    xattrs: Mapping[str, bytes] | None = None


_TYPES = {
    "file": tarfile.REGTYPE,
    "dir": tarfile.DIRTYPE,
    "symlink": tarfile.SYMTYPE,
    "hardlink": tarfile.LNKTYPE,
    "char": tarfile.CHRTYPE,
    "block": tarfile.BLKTYPE,
    "fifo": tarfile.FIFOTYPE,
}


def deb_name(name: str, version: str, architecture: str = "all") -> str:
    """Return the base name of a package file as Debian pools write it: without the epoch."""
    return f"{name}_{version.split(':', 1)[-1]}_{architecture}.deb"


def make_deb(
    directory: Path,
    name: str,
    version: str = "1.0",
    files: Mapping[str, bytes | str] | None = None,
    *,
    architecture: str = "all",
    depends: str = "",
    fields: Mapping[str, str] | None = None,
    scripts: Mapping[str, str] | None = None,
    members: Iterable[Member] = (),
    control_members: Iterable[Member] = (),
    compression: str = "xz",
) -> Path:
    """Write a package into ``directory`` (made if need be) and return its path.

    Args:
        files: content by absolute path, such as ``/usr/share/x``; parent folders are added; ``/usr/bin`` files
            and the like are executable.
        depends: the Depends field.
        fields: further control fields, such as ``{"Essential": "yes", "Provides": "x"}``; they win over the usual ones.
        scripts: content by name: ``preinst``, ``postinst``, ``prerm``, ``postrm``, ``triggers``, ``conffiles``.
        members: further members of the data archive, taken as they are.
        control_members: further members of the control archive, taken as they are.
        compression: ``xz``, ``gz``, ``zst``, ``none``.
    """
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / deb_name(name, version, architecture)
    control = deb_control(name, version, architecture=architecture, depends=depends, fields=fields)
    path.write_bytes(
        deb_bytes(
            control,
            files,
            scripts=scripts,
            members=members,
            control_members=control_members,
            compression=compression,
        )
    )
    return path


def deb_control(
    name: str,
    version: str = "1.0",
    *,
    architecture: str = "all",
    depends: str = "",
    fields: Mapping[str, str] | None = None,
) -> str:
    """Return a package's control paragraph, also of use in a Packages index."""
    paragraph = {
        "Package": name,
        "Version": version,
        "Architecture": architecture,
        "Maintainer": "Tests <tests@example.invalid>",
    }
    if depends:
        paragraph["Depends"] = depends
    paragraph |= {"Description": f"{name} for tests"} | dict(fields or {})
    return "".join(f"{key}: {value}\n" for key, value in paragraph.items())


def deb_bytes(
    control: str,
    files: Mapping[str, bytes | str] | None = None,
    *,
    scripts: Mapping[str, str] | None = None,
    members: Iterable[Member] = (),
    control_members: Iterable[Member] = (),
    compression: str = "xz",
) -> bytes:
    """Return the bytes of a package with this control paragraph; other arguments as for ``make_deb``."""
    contents = [*_tree(files or {}), *members]
    sums = "".join(
        f"{hashlib.md5(member.data).hexdigest()}  {member.name.removeprefix('./')}\n"
        for member in contents
        if member.kind == "file"
    )
    parts = [Member(name="./", kind="dir", mode=0o755), Member(name="./control", data=control.encode())]
    if sums:
        parts.append(Member(name="./md5sums", data=sums.encode()))
    for script, content in sorted((scripts or {}).items()):
        mode = 0o755 if script in ("preinst", "postinst", "prerm", "postrm", "config") else 0o644
        parts.append(Member(name=f"./{script}", data=content.encode(), mode=mode))
    suffix, pack = _COMPRESSORS[compression]
    return ar_bytes(
        {
            "debian-binary": b"2.0\n",
            f"control.tar{suffix}": pack(tar_bytes([*parts, *control_members])),
            f"data.tar{suffix}": pack(tar_bytes(contents)),
        }
    )


def ar_bytes(members: Mapping[str, bytes]) -> bytes:
    """Return a Unix ar archive, as deb(5) wants it."""
    out = [b"!<arch>\n"]
    for name, data in members.items():
        header = f"{name:<16}{MTIME:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n"
        out += [header.encode(), data, b"\n" * (len(data) % 2)]
    return b"".join(out)


def tar_bytes(members: Iterable[Member]) -> bytes:
    """Return a tar of the members in their order, as they are."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member in members:
            info = tarfile.TarInfo(member.name)
            info.type = _TYPES[member.kind]
            info.mode, info.mtime = 0o777 if member.kind == "symlink" else member.mode, MTIME
            info.uid, info.gid, info.uname, info.gname = member.uid, member.gid, "", ""
            info.linkname, info.devmajor, info.devminor = member.target, member.major, member.minor
            info.size = len(member.data) if member.kind == "file" else 0
            headers = {}
            for key, value in (member.xattrs or {}).items():
                headers[f"SCHILY.xattr.{key}"] = value.decode("utf-8", "surrogateescape")
            info.pax_headers = headers
            archive.addfile(info, io.BytesIO(member.data) if member.kind == "file" else None)
    return buffer.getvalue()


def _tree(files: Mapping[str, bytes | str]) -> list[Member]:
    """Turn files by absolute path into members, each folder once and before what it holds."""
    members: dict[str, Member] = {}
    for path, content in sorted(files.items()):
        parts = path.strip("/").split("/")
        for depth in range(len(parts)):
            folder = "./" + "".join(f"{part}/" for part in parts[:depth])
            members.setdefault(folder, Member(name=folder, kind="dir", mode=0o755))
        data = content.encode() if isinstance(content, str) else content
        mode = 0o755 if parts[-2:-1] in (["bin"], ["sbin"]) else 0o644
        members["./" + "/".join(parts)] = Member(name="./" + "/".join(parts), data=data, mode=mode)
    return list(members.values())


def _xz(data: bytes) -> bytes:
    return lzma.compress(data, preset=0)


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


_COMPRESSORS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "xz": (".xz", _xz),
    "gz": (".gz", _gzip),
    "zst": (".zst", zstd.compress),
    "none": ("", bytes),
}
