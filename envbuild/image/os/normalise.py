"""From the file system a container left behind to a layer that depends on its content alone.

Dropped: what engines put there (``/.dockerenv``, mount points), what lives only while a machine runs (``/run``,
``/tmp``, ``/dev``, ``/proc``, ``/sys``), all times, all names of owners, the order of the stream. Kept: modes, numeric
owners, link targets, hard links, file capabilities and user attributes. What differs between two runs of the same
packages' scripts is removed by the install script itself, so that a Dockerfile build removes the same.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, cast

from envbuild.core.fs import atomic_file
from envbuild.engine.protocol import FinishedTree, FoundEntry
from envbuild.errors import BuildError
from envbuild.image.os.tree import Members, Tree
from envbuild.image.tar.layer import Entry, Kind, Layer
from envbuild.image.tar.members import read_members

FOLDERS: Mapping[str, int] = {
    "dev": 0o755,
    "etc": 0o755,
    "proc": 0o755,
    "run": 0o755,
    "run/lock": 0o1777,
    "sys": 0o755,
    "tmp": 0o1777,
    "var": 0o755,
    "var/tmp": 0o1777,
}
"""Folders every image has, with these modes."""

EMPTY = ("dev", "proc", "run", "sys", "tmp", "var/tmp")
"""Folders whose content never enters a layer."""

FILES: Mapping[str, bytes] = {
    "etc/hostname": b"localhost\n",
    "etc/hosts": b"127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n",
    "etc/machine-id": b"",
    "etc/resolv.conf": b"",
}
"""Files that engines bind over or that name a machine: constants, mode 0644."""

LINKS: Mapping[str, str] = {"etc/mtab": "../proc/self/mounts"}
"""Symbolic links every image has; Docker makes this one up if it is missing, other engines do not."""

_DROPPED = (".dockerenv", ".dockerinit", "run/.containerenv")
_XATTR = "SCHILY.xattr."
_CAPABILITY = "security.capability"
_KINDS: Mapping[bytes, Kind] = {
    tarfile.REGTYPE: "file",
    tarfile.AREGTYPE: "file",
    tarfile.CONTTYPE: "file",
    tarfile.DIRTYPE: "dir",
    tarfile.SYMTYPE: "symlink",
    tarfile.LNKTYPE: "hardlink",
    tarfile.CHRTYPE: "char",
    tarfile.BLKTYPE: "block",
    tarfile.FIFOTYPE: "fifo",
}


def add_constants(tree: Tree | Members) -> None:
    """Put the folders, files and links that are the same in every image."""
    for path, mode in FOLDERS.items():
        if path in ("etc", "var") and path in tree:
            continue
        tree.add(Entry(path=path, kind="dir", mode=mode))
    for path, data in FILES.items():
        tree.add(Entry(path=path, kind="file", mode=0o644, size=len(data)), data)
    for path, target in LINKS.items():
        tree.add(Entry(path=path, kind="symlink", mode=0o777, target=target))


def normalise(
    stream: BinaryIO, output: Path, label: str = "root file system", reserved: str = "", into: BinaryIO | None = None
) -> Layer:
    """Turn a file system's tar into a layer file; the output is whole or absent.

    Args:
        stream: tar in any order with members relative to the root; read once, to its end.
        output: the layer, an uncompressed tar.
        label: what it is, for error messages.
        reserved: a path relative to the root that belongs to other layers.
        into: takes the layer instead of ``output``, next to which temporary files are.

    Raises:
        BuildError: the stream is no sound tar, or holds names that cannot be in a layer, or something at ``reserved``.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    with Tree(output.parent, label) as tree:
        try:
            with tarfile.open(fileobj=stream, mode="r|", bufsize=1 << 20) as archive:
                for member in read_members(archive):
                    _take(archive, member, tree, label)
                    _refuse_reserved(_relative(member.name), reserved, label, folder=member.isdir())
        except tarfile.TarError as error:
            raise BuildError(f"{label}: the container engine gave a damaged tar: {error}", "run it again") from None
        while stream.read(1 << 20):  # engines want their stream read to the end
            pass
        add_constants(tree)
        if into is not None:
            return tree.write(into)
        with atomic_file(output, sync=False) as result:
            return tree.write(result)


def normalise_tree(
    found: FinishedTree, output: Path, label: str, reserved: str = "", into: BinaryIO | None = None
) -> Layer:
    """Turn a file system that a step has left into a layer, whose files are moved if what takes it can take files.

    Args:
        found: the file system.
        output, label, reserved, into: as for ``normalise``.

    Raises:
        BuildError: as for ``normalise``.
    """
    with Tree(output.parent, label) as tree:
        for each in found.entries:
            _refuse_reserved(each.path, reserved, label, folder=each.kind == "dir")
            if not _is_dropped(each.path):
                tree.add(_entry(each), found.root / _here(each.path) if each.kind == "file" else None)
        add_constants(tree)
        if into is not None:
            return tree.write(into)
        with atomic_file(output, sync=False) as result:
            return tree.write(result)


def _here(path: str) -> str:
    """Return a path as this process names it, whatever its locale: in the image names are UTF-8."""
    return os.fsdecode(path.encode("utf-8", "surrogateescape"))


def _entry(found: FoundEntry) -> Entry:
    return Entry(
        path=found.path,
        kind=cast(Kind, found.kind),
        mode=0o777 if found.kind == "symlink" else found.mode,
        uid=found.uid,
        gid=found.gid,
        target=found.target,
        size=found.size,
        xattrs={_CAPABILITY: found.capability} if found.capability and found.kind == "file" else {},
        major=found.device[0],
        minor=found.device[1],
    )


def _is_dropped(path: str) -> bool:
    return path in _DROPPED or path.startswith(tuple(f"{folder}/" for folder in EMPTY))


def _take(archive: tarfile.TarFile, member: tarfile.TarInfo, tree: Tree, label: str) -> None:
    """Add one member, unless it never enters a layer."""
    path = _relative(member.name)
    if not path or _is_dropped(path):
        return
    kind = _KINDS.get(member.type)
    if kind is None:
        raise BuildError(f"{label}: {path!r} has the unknown type {member.type!r}")
    entry = Entry(
        path=path,
        kind=kind,
        mode=0o777 if kind == "symlink" else member.mode & 0o7777,
        uid=member.uid,
        gid=member.gid,
        target=_relative(member.linkname) if kind == "hardlink" else member.linkname if kind == "symlink" else "",
        size=member.size if kind == "file" else 0,
        xattrs=_xattrs(member),
        major=member.devmajor if kind in ("char", "block") else 0,
        minor=member.devminor if kind in ("char", "block") else 0,
    )
    tree.add(entry, cast("BinaryIO | None", archive.extractfile(member)) if kind == "file" else None)


def _refuse_reserved(path: str, reserved: str, label: str, *, folder: bool) -> None:
    """Refuse what would hide files of other layers, or replace a folder above them."""
    inside = path == reserved or path.startswith(f"{reserved}/")
    if reserved and path and (inside or (reserved.startswith(f"{path}/") and not folder)):
        raise BuildError(
            f"{label}: a package installs /{path}, which belongs to the Python environment",
            "leave this package out of the spec's os.packages",
        )


def _relative(name: str) -> str:
    return name.strip("/").removeprefix("./") if name not in (".", "./", "/") else ""


def _xattrs(member: tarfile.TarInfo) -> dict[str, bytes]:
    """Keep file capabilities and users' attributes; labels of a security module or a storage driver are the host's."""
    return {
        key.removeprefix(_XATTR): value.encode("utf-8", "surrogateescape")
        for key, value in member.pax_headers.items()
        if key.startswith((f"{_XATTR}user.", f"{_XATTR}security.capability"))
    }
