"""The ELF objects in a wheel: read once, kept by the wheel's SHA-256."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, cast

import msgspec

from envbuild.core.damaged_zip import DAMAGED_ZIP
from envbuild.core.fs import atomic_write
from envbuild.core.types import Value, prepare_types
from envbuild.errors import IntegrityError
from envbuild.resolve.libraries.elf import MAGIC, NotElfError, read_dynamic
from envbuild.resolve.libraries.numpy_abi import may_use_numpy, numpy_of

_FORMAT = 4
_IN_MEMORY = 8 << 20
"""Objects up to this many bytes are inflated at once; larger ones are streamed, twice or so."""
_WHOLE = 128 << 20
"""Modules, and libraries that they share, up to this many bytes are read as a whole, for what they ask NumPy for."""


class Object(Value, frozen=True, kw_only=True, rename=None, omit_defaults=True):
    """One ELF object of a wheel; ``file`` is its path in the wheel, the rest as in ``elf.Dynamic``.

    Attributes:
        numpy_1: an extension module, or a library of such, that was compiled with the headers of NumPy 1, which NumPy 2
            refuses to serve.
    """

    file: str
    machine: str
    soname: str = ""
    needed: tuple[str, ...] = ()
    runpath: str = ""
    program: bool = False
    numpy_1: bool = False


class WheelLibraries(Value, frozen=True, kw_only=True, rename=None, dict=True):
    """All ELF objects of one wheel, sorted by file."""

    wheel: str
    objects: tuple[Object, ...]
    format: int = _FORMAT

    @cached_property
    def provides(self) -> frozenset[str]:
        """Every name under which an object of this wheel can be asked for."""
        names = {item.file.rsplit("/", 1)[-1] for item in self.objects}
        return frozenset(names | {item.soname for item in self.objects if item.soname})

    @cached_property
    def needs(self) -> dict[str, str]:
        """Every name that objects of this wheel ask for, each with the first file that does."""
        found: dict[str, str] = {}
        for item in self.objects:
            for name in item.needed:
                found.setdefault(name, item.file)
        return found


def known_libraries(sha256: str, cache_dir: Path) -> WheelLibraries | None:
    """Return what an earlier ``scan_wheel`` found, or None; reads no wheel."""
    with suppress(OSError, ValueError):
        found = msgspec.json.decode(_kept(sha256, cache_dir).read_bytes(), type=WheelLibraries)
        if found.format == _FORMAT:
            return found
    return None


def scan_wheel(path: Path, sha256: str, cache_dir: Path, name: str = "") -> WheelLibraries:
    """Read the dynamic section of every ELF object in a wheel.

    Args:
        path: the wheel, of any file name.
        sha256: its digest, the key of what is kept.
        cache_dir: folder that keeps what was found.
        name: file name of the wheel, if ``path`` is named otherwise.

    Raises:
        IntegrityError: the file is not a readable wheel.
    """
    if (found := known_libraries(sha256, cache_dir)) is not None:
        return found
    name = name or path.name
    try:
        with zipfile.ZipFile(path) as archive:
            objects = tuple(_objects(archive))
    except DAMAGED_ZIP as err:
        raise IntegrityError(f"{name}: not a readable wheel: {err}", "fetch it again: envbuild fetch") from None
    return _keep(WheelLibraries(wheel=name, objects=objects), sha256, cache_dir)


def scan_unpacked(
    places: Mapping[str, tuple[Path, int, int]], sha256: str, cache_dir: Path, name: str
) -> WheelLibraries:
    """Do what ``scan_wheel`` does, with objects that are unpacked in other files.

    Args:
        places: file, offset and size of each ELF object, by its path in the wheel.
        sha256: the wheel's digest.
        cache_dir: as for ``scan_wheel``.
        name: the wheel's file name.
    """
    if (found := known_libraries(sha256, cache_dir)) is not None:
        return found
    objects = []
    for file, (path, offset, size) in sorted(places.items()):
        with path.open("rb", buffering=0) as stream, suppress(NotElfError):
            objects.append(_object(file, cast(BinaryIO, _Part(stream, offset, size)), size))
    return _keep(WheelLibraries(wheel=name, objects=tuple(objects)), sha256, cache_dir)


def _keep(libraries: WheelLibraries, sha256: str, cache_dir: Path) -> WheelLibraries:
    with suppress(OSError):  # a read-only cache costs time, no more
        atomic_write(_kept(sha256, cache_dir), msgspec.json.encode(libraries))
    return libraries


class _Part:
    """Reads and seeks within a part of a file."""

    def __init__(self, stream: BinaryIO, offset: int, size: int) -> None:
        self._stream, self._offset, self._size, self._place = stream, offset, size, 0

    def seek(self, place: int) -> int:
        """Move to a place counted from the part's start."""
        self._place = place
        return place

    def tell(self) -> int:
        """Return the place."""
        return self._place

    def read(self, size: int = -1) -> bytes:
        """Return up to ``size`` bytes, none beyond the part's end."""
        left = max(self._size - self._place, 0)
        self._stream.seek(self._offset + self._place)
        data = self._stream.read(left if size < 0 else min(size, left))
        self._place += len(data)
        return data


def _kept(sha256: str, cache_dir: Path) -> Path:
    """Return the file that keeps what was found in a wheel."""
    return cache_dir / "wheel-libraries" / f"{sha256}.json"


def _objects(archive: zipfile.ZipFile) -> Iterator[Object]:
    """Yield the ELF objects of a wheel, by path."""
    for info in sorted(archive.infolist(), key=lambda info: info.filename):
        if info.filename.endswith("/") or info.file_size < 64:  # a name may be empty
            continue
        with archive.open(info) as member:
            if member.read(4) != MAGIC:
                continue
            source: BinaryIO = member  # type: ignore[assignment]
            if info.file_size <= (_WHOLE if may_use_numpy(info.filename) else _IN_MEMORY):
                source = io.BytesIO(MAGIC + member.read())
            with suppress(NotElfError):  # test data and the like: nothing that a loader could load
                yield _object(info.filename, source, info.file_size)


def _object(file: str, source: BinaryIO, size: int) -> Object:
    found = read_dynamic(source)
    data = b""
    if may_use_numpy(file) and size <= _WHOLE:
        source.seek(0)
        data = source.read()
    return Object(
        file=file,
        machine=found.machine,
        soname=found.soname,
        needed=found.needed,
        runpath=found.runpath,
        program=found.program,
        numpy_1=numpy_of(data) == 1,
    )


prepare_types(WheelLibraries)
