"""The file system that an image's layers make together, as one tar.

A layer adds, replaces, and removes: a file ``.wh.NAME`` stands for the removal of NAME from the layers below, and
``.wh..wh..opq`` for that of everything in its folder. Source: OCI image specification 1.1, layer.md.
"""

from __future__ import annotations

import copy
import io
import os
import tarfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import BinaryIO

from envbuild.errors import BuildError
from envbuild.lockfile import layout

_REMOVED, _OPAQUE = ".wh.", ".wh..wh..opq"
_UNSOUND = (tarfile.TarError, OSError, EOFError, KeyError)
"""What reading a damaged tar raises."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A member of a layer."""

    layer: int
    member: tarfile.TarInfo


@contextmanager
def flattened(
    layers: Sequence[Path], added: Mapping[str, tuple[bytes, int]] = MappingProxyType({})
) -> Iterator[BinaryIO]:
    """Give the file system of uncompressed layers, bottom first, as a tar stream; names are relative to the root.

    Args:
        layers: their tars.
        added: files to add, content and mode by path; they take the place of the image's, and folders are made.

    Raises:
        BuildError: a layer is no sound tar.
    """
    with ExitStack() as stack:
        try:
            tars = [stack.enter_context(tarfile.open(path, "r:")) for path in layers]
            members = _merged(tars)
        except _UNSOUND as error:
            raise BuildError(f"a layer of the base image is no sound tar: {error}") from error
        reader, writer = os.pipe()
        failed: list[Exception] = []
        thread = threading.Thread(
            target=_write, args=(tars, members, added, writer, failed), name="flatten", daemon=True
        )
        thread.start()
        try:
            with open(reader, "rb", buffering=1 << 20) as stream:
                yield stream
        finally:
            thread.join()
        if failed and not isinstance(failed[0], _UNSOUND):
            raise failed[0]
        if failed:
            raise BuildError(f"a layer of the base image is no sound tar: {failed[0]}") from failed[0]


def _merged(tars: Sequence[tarfile.TarFile]) -> list[_Found]:
    """Return the members that are left, hard links after all others."""
    left: dict[str, _Found] = {}
    for number, tar in enumerate(tars):
        fresh: dict[str, _Found] = {}
        for member in tar:
            name = _name(member.name)
            folder, _, last = name.rpartition("/")
            if last == _OPAQUE:
                _remove(left, folder, keep=True)
            elif last.startswith(_REMOVED):
                gone = last[len(_REMOVED) :]
                _remove(left, f"{folder}/{gone}" if folder else gone)
            elif name:
                before = left.get(name)
                if before is not None and before.member.isdir() and not member.isdir():
                    _remove(left, name)
                fresh[name] = _Found(number, member)
        left |= fresh
    return [each for _, each in sorted(left.items(), key=lambda pair: (pair[1].member.islnk(), pair[0]))]


def _remove(left: dict[str, _Found], name: str, *, keep: bool = False) -> None:
    """Remove a path and all below it; with ``keep`` only what is below."""
    if not keep:
        left.pop(name, None)
    below = f"{name}/" if name else ""
    for each in [path for path in left if path.startswith(below)]:
        del left[each]


def _name(name: str) -> str:
    return "/".join(part for part in name.split("/") if part not in ("", "."))


def _write(
    tars: Sequence[tarfile.TarFile],
    members: Sequence[_Found],
    added: Mapping[str, tuple[bytes, int]],
    writer: int,
    failed: list[Exception],
) -> None:
    """Write the members as a tar to a pipe; the reader's early end is its wish."""
    kept = {(each.layer, _name(each.member.name)) for each in members}
    try:
        with (
            open(writer, "wb") as stream,
            tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as out,
        ):
            for each in members:
                if _name(each.member.name) in added:
                    continue
                member = each.member
                source = tars[each.layer]
                if member.islnk() and (each.layer, _name(member.linkname)) not in kept:
                    member = _file_of(source, member)
                elif member.islnk():
                    member = copy.copy(member)  # TarInfo.replace came with Python 3.11.4 and 3.10.12
                    member.linkname = _name(member.linkname)
                member = copy.copy(member)
                member.name = _name(each.member.name)
                content = source.extractfile(member) if member.isreg() else None
                out.addfile(member, content)
                out.members = []  # type: ignore[attr-defined]  # tarfile keeps all it met
            _add(out, added, {_name(each.member.name) for each in members})
    except BrokenPipeError:
        return
    except Exception as error:  # whatever it is: a stream that ends early is no file system
        failed.append(error)


def _add(out: tarfile.TarFile, added: Mapping[str, tuple[bytes, int]], there: set[str]) -> None:
    """Write files, and the folders that they need."""
    for path, (data, mode) in sorted(added.items()):
        for above in reversed(PurePosixPath(path).parents[:-1]):
            if str(above) not in there:
                there.add(str(above))
                out.addfile(_member(str(above), tarfile.DIRTYPE, 0o755, 0))
        out.addfile(_member(path, tarfile.REGTYPE, mode, len(data)), io.BytesIO(data))


def _member(name: str, kind: bytes, mode: int, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.mode, member.size, member.mtime = kind, mode, size, layout.EPOCH
    return member


def _file_of(source: tarfile.TarFile, member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return the file that a hard link names, in the same layer, where its first name is gone above."""
    with suppress(KeyError):
        return source.getmember(member.linkname)
    return source.getmember(f"./{_name(member.linkname)}")
