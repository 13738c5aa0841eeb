"""A base image's file system as the OS layer: what it holds that a lock must know, and its way into a build.

Pure functions of the normalised tar that ``rootfs.image_layer_from_export`` writes; nothing of the image is run.
"""

from __future__ import annotations

import os as system
import re
import shlex
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, cast

import msgspec

from envbuild.core.digest import sha256_file
from envbuild.errors import BuildError, IntegrityError
from envbuild.image.tar.layer import Layer
from envbuild.image.tar.members import read_members
from envbuild.lockfile import layout
from envbuild.lockfile.model import Os

_PYTHON = re.compile(r"((?:usr/local/|usr/|opt/[A-Za-z0-9_][A-Za-z0-9._-]*/)?bin)/python(3\.[0-9]{1,2})")
_FOLDERS = ("usr/local/bin", "usr/bin", "bin")
"""Where an interpreter is looked for first: the order of ``PATH`` in an image."""
_LIBC = re.compile(r"(?:usr/)?lib(?:64)?/(?:[a-z0-9_]+-linux-gnu[a-z0-9_]*/)?libc(?:\.so\.6|-2\.[0-9]+\.so)")
_VERSION = re.compile(rb"GNU C Library [^\n]*release version ([0-9]+)\.([0-9]+)")
_RELEASE = ("etc/os-release", "usr/lib/os-release")
_FIELD = re.compile(r"^(ID|VERSION_ID)=[\"']?([a-z0-9._-]+)[\"']?$", re.M)
_OURS = (layout.ENV_PREFIX, layout.RUNTIME_PREFIX)


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What a file system holds.

    Attributes:
        release: identifier and version by os-release(5), such as ``debian-12``; ``linux`` if it reports nothing.
        glibc: version of its C library; (0, 0) if it has none, as Alpine.
        pythons: path of the interpreter by feature release, the first on ``PATH``.
        taken: paths that envbuild wants for itself and the image has already.
    """

    release: str
    glibc: tuple[int, int]
    pythons: dict[str, str]
    taken: tuple[str, ...] = ()


def read_facts(layer: Path) -> Facts:
    """Read what a lock must know of an uncompressed tar of a root file system.

    Raises:
        BuildError: not a readable tar.
    """
    try:
        with tarfile.open(layer, "r:") as archive:
            return _facts(archive)
    except tarfile.TarError as error:
        raise BuildError(f"the base image: {layer} is no readable tar: {error}", "run it again") from None


def base_layer(os: Os, store_path: Callable[[str], Path], output: Path, stream: BinaryIO | None = None) -> Layer:
    """Take the OS layer from the store; its bytes are read and compared.

    Args:
        os: the locked operating system, over a base image.
        store_path: path of a file by its SHA-256.
        output: where the layer goes: another name of the store's file where the file system has such, else a copy.
        stream: takes the layer's bytes instead.

    Raises:
        IntegrityError: the file is missing or does not match the lock.
    """
    source = store_path(os.image_rootfs)
    try:
        found = sha256_file(source)
    except FileNotFoundError:
        raise IntegrityError(
            f"the file system of {os.image} is not in the store", "bring it in: envbuild fetch"
        ) from None
    if found != os.image_rootfs:
        raise IntegrityError(
            f"the file system of {os.image}: {source} is damaged: expected sha256 {os.image_rootfs}, found {found}",
            f"remove it and build again: rm -f {shlex.quote(str(source))}",
        )
    if stream is not None:
        with source.open("rb", buffering=0) as content:
            shutil.copyfileobj(content, stream, 1 << 20)
        return Layer(diff_id=found, size=source.stat().st_size)
    try:
        system.link(source, output)
    except OSError:
        shutil.copyfile(source, output)
    return Layer(diff_id=found, size=output.stat().st_size)


def _facts(archive: tarfile.TarFile) -> Facts:
    texts: dict[str, str] = {}
    pythons: dict[str, dict[str, str]] = {}
    taken = []
    glibc = (0, 0)
    for member in read_members(archive):
        name = member.name
        if f"/{name}" in _OURS:
            taken.append(f"/{name}")
        elif not (member.isfile() or member.issym() or member.islnk()):
            continue
        elif match := _PYTHON.fullmatch(name):
            pythons.setdefault(match[2], {})[match[1]] = f"/{name}"
        elif member.isfile() and name in _RELEASE:
            texts[name] = _content(archive, member).read().decode("utf-8", "replace")
        elif member.isfile() and _LIBC.fullmatch(name):
            glibc = max(glibc, _libc_version(_content(archive, member)))
    return Facts(
        release=_release(next((texts[name] for name in _RELEASE if name in texts), "")),
        glibc=glibc,
        pythons={version: _first(places) for version, places in sorted(pythons.items(), key=_by_number)},
        taken=tuple(taken),
    )


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> BinaryIO:
    return cast(BinaryIO, archive.extractfile(member))


def _libc_version(stream: BinaryIO) -> tuple[int, int]:
    """Read the version that glibc prints when its library is run as a program."""
    match = _VERSION.search(stream.read())
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _release(text: str) -> str:
    fields: dict[str, str] = dict(_FIELD.findall(text))
    name = "-".join(fields[key] for key in ("ID", "VERSION_ID") if key in fields)
    return name if "ID" in fields and re.fullmatch(r"[a-z0-9][a-z0-9.-]*", name) else "linux"


def _first(places: dict[str, str]) -> str:
    return next((places[folder] for folder in _FOLDERS if folder in places), min(places.values()))


def _by_number(item: tuple[str, object]) -> int:
    return int(item[0].partition(".")[2])
