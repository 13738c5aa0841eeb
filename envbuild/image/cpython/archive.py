"""A standalone build of CPython: what of its archive is in an image, and the layer made of it.

The archive is a gzip-compressed tar with one top folder, ``python/``, which becomes ``PREFIX``. Source of the form:
https://gregoryszorc.com/docs/python-build-standalone/main/distributions.html ("install only").

Decisions, all of them part of the layout version:

- Modes are 0755 for folders and for files with any execute bit, else 0644; the owner is root.
- Left out: bytecode, since that of all modules is made in the build like that of wheels; ``site-packages`` and
  programs other than Python itself, since pip and what it brings are no part of the environment.
- Names and links that leave the top folder are refused, as is a build without the global interpreter lock.
"""

from __future__ import annotations

import gzip
import posixpath
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from envbuild.core.digest import sha256_file
from envbuild.errors import BuildError, IntegrityError
from envbuild.image.tar.layer import Entry, Layer, LayerWriter, check_path
from envbuild.lockfile.model import PythonBuild
from envbuild.lockfile.pylock import STANDALONE_PREFIX

PREFIX = STANDALONE_PREFIX.lstrip("/")
_TOP = "python"
_LIMIT = 2 << 30
"""Most bytes of an unpacked archive; those of today have 120 MB."""
_MOST_MEMBERS = 100_000
_TEXT_LIMIT = 4 << 20
_LICENCE = "LICENSE.txt"
_WAY = "use another release in the spec's python, or another mirror"


def pack_python(output: BinaryIO, build: PythonBuild, archive: Path) -> Layer:
    """Write the layer of a build.

    Args:
        output: receives the tar.
        build: what the lock has.
        archive: the file; another, uncompressed one is next to it for a moment.

    Raises:
        IntegrityError: the file is missing, or has other bytes than locked.
        BuildError: it is no sound archive of that build.
    """
    with _opened(build, archive) as tar:
        members = _members(build, tar)
        folders = {f"{PREFIX}/{above}" for path in members for above in _above(path)} | set(_above(f"{PREFIX}/x"))
        tree: dict[str, tarfile.TarInfo | None] = {**dict.fromkeys(folders), **_placed(members)}
        with LayerWriter(output, build.file) as writer:
            for path in sorted(tree, key=lambda path: path.encode("utf-8", "surrogateescape")):
                _add(writer, tar, path, tree[path])
    return writer.layer()


def python_modules(build: PythonBuild, archive: Path) -> dict[str, bytes]:
    """Return the sources of a build's modules by path relative to ``/``; raises as ``pack_python`` does."""
    with _opened(build, archive) as tar:
        return {
            f"{PREFIX}/{path}": _read(tar, member)
            for path, member in sorted(_members(build, tar).items())
            if path.endswith(".py") and path.startswith("lib/") and member.isreg()
        }


def licence_text(build: PythonBuild, archive: Path) -> str:
    """Return the text of the licence that a build states; empty if there is none. Raises as ``pack_python`` does."""
    feature = build.version.rpartition(".")[0]
    with _opened(build, archive) as tar:
        member = _members(build, tar).get(f"lib/python{feature}/{_LICENCE}")
        if member is None or not member.isreg() or member.size > _TEXT_LIMIT:
            return ""
        return _read(tar, member).decode("utf-8", "replace")


@contextmanager
def _opened(build: PythonBuild, archive: Path) -> Iterator[tarfile.TarFile]:
    """Check an archive's digest and open it, uncompressed, so that its members can be read in any order."""
    try:
        found = sha256_file(archive)
    except FileNotFoundError:
        raise IntegrityError(f"{build.file} is not in the store", "bring it in: envbuild fetch") from None
    if found != build.sha256:
        raise IntegrityError(
            f"{build.file}: {archive} is damaged: expected sha256 {build.sha256}, found {found}",
            "bring it in again: envbuild fetch",
        )
    try:
        with _uncompressed(archive) as plain, tarfile.open(fileobj=plain, mode="r:") as tar:
            yield tar
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, ValueError, OverflowError) as error:
        raise BuildError(f"{build.file}: not a readable archive: {error}", _WAY) from None


@contextmanager
def _uncompressed(archive: Path) -> Iterator[BinaryIO]:
    """Give the uncompressed content of a gzip file as a temporary file at its start."""
    import tempfile

    with tempfile.TemporaryFile() as plain, gzip.open(archive, "rb") as packed:
        size = 0
        while chunk := packed.read(1 << 20):
            size += len(chunk)
            if size > _LIMIT:
                raise BuildError(f"{archive.name}: more than {_LIMIT} bytes unpacked", _WAY)
            plain.write(chunk)
        plain.seek(0)
        yield cast(BinaryIO, plain)


def _members(build: PythonBuild, tar: tarfile.TarFile) -> dict[str, tarfile.TarInfo]:
    """Return files and links that are taken, by path below the top folder, after checking every name and kind."""
    feature = build.version.rpartition(".")[0]
    found: dict[str, tarfile.TarInfo] = {}
    for count, member in enumerate(tar, 1):
        if count > _MOST_MEMBERS:
            raise BuildError(f"{build.file}: more than {_MOST_MEMBERS} files", _WAY)
        top, _, path = check_path(member.name.removeprefix("./").rstrip("/"), build.file).partition("/")
        if top != _TOP:
            raise _wrong(build, member.name, f"expected everything below {_TOP}/")
        if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
            raise _wrong(build, member.name, "expected a file, a folder or a link")
        if path.startswith(f"lib/python{feature}t/"):
            raise _wrong(build, member.name, "this build has no global interpreter lock (free-threaded)")
        if path and not member.isdir() and _taken(path, feature):
            if path in found:
                raise _wrong(build, member.name, "the archive holds this name twice")
            found[path] = member
    if (size := sum(member.size for member in found.values())) > _LIMIT:
        raise BuildError(f"{build.file}: {size} bytes in it, expected at most {_LIMIT}", _WAY)
    for path, member in found.items():
        if target := _target(path, member):
            _check_target(build, path, member, target)
    for needed in (f"bin/python{feature}", f"lib/python{feature}/os.py"):
        if needed not in found:
            raise BuildError(f"{build.file}: expected {_TOP}/{needed} in it", _WAY)
    _check_folders(build, found)
    return found


def _taken(path: str, feature: str) -> bool:
    """Whether a file is in the image; see the module's description."""
    if path.endswith(".pyc") or path.startswith(f"lib/python{feature}/site-packages/"):
        return False
    return not path.startswith("bin/") or path.startswith("bin/python")


def _target(path: str, member: tarfile.TarInfo) -> str:
    """Return what a link leads to, below the top folder or ``..`` for outside; empty for a file."""
    if member.issym():
        return posixpath.normpath(posixpath.join(posixpath.dirname(path), member.linkname))
    if member.islnk():
        return posixpath.relpath(member.linkname.removeprefix("./"), _TOP)
    return ""


def _check_target(build: PythonBuild, path: str, member: tarfile.TarInfo, target: str) -> None:
    if target == ".." or target.startswith(("/", "../")):
        raise _wrong(build, member.name, f"it leads out of {_TOP}/, to {member.linkname!r}")
    if member.islnk() and target == path:
        raise _wrong(build, member.name, "it leads to itself")


def _check_folders(build: PythonBuild, members: Mapping[str, tarfile.TarInfo]) -> None:
    """Refuse a file where another one needs a folder."""
    for path, member in members.items():
        for above in _above(path):
            if above in members:
                raise _wrong(build, member.name, f"{above} is no folder")


def _placed(members: Mapping[str, tarfile.TarInfo]) -> dict[str, tarfile.TarInfo]:
    return {f"{PREFIX}/{path}": member for path, member in members.items()}


def _add(writer: LayerWriter, tar: tarfile.TarFile, path: str, member: tarfile.TarInfo | None) -> None:
    """Add one entry; a hard link becomes the file, since what it leads to may come later or be left out."""
    if member is None:
        writer.add(Entry(path=path, kind="dir", mode=0o755))
    elif member.issym():
        writer.add(Entry(path=path, kind="symlink", mode=0o777, target=member.linkname))
    else:
        names = tar.getnames() if member.islnk() else ()
        source = tar.getmember(member.linkname) if member.linkname in names else member
        stream = tar.extractfile(source) if source.isreg() else None
        if stream is None:
            raise BuildError(f"{path}: a link to no file: {member.linkname!r}", _WAY)
        mode = 0o755 if source.mode & 0o111 else 0o644
        with stream:
            writer.add(Entry(path=path, kind="file", mode=mode, size=source.size), cast(BinaryIO, stream))


def _read(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    stream = tar.extractfile(member)
    assert stream is not None  # noqa: S101 - a regular file
    with stream:
        return stream.read()


def _above(path: str) -> list[str]:
    """Return the folders above a relative path, outermost first."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _wrong(build: PythonBuild, name: str, why: str) -> BuildError:
    return BuildError(f"{build.file}: {name!r}: {why}", _WAY)
