"""Source archives (PEP 625 and its forerunners): which build system they name (PEP 518). Nothing in them is run."""

from __future__ import annotations

import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from envbuild.core.damaged_zip import DAMAGED_ZIP
from envbuild.core.toml import parse_toml
from envbuild.errors import BuildError

_LIMIT = 1 << 20
"""Most bytes of a pyproject.toml."""
_LEGACY = ("setuptools>=40.8.0",)
_LEGACY_BACKEND = "setuptools.build_meta:__legacy__"
"""What PEP 517 has for projects that name no build system."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildSystem:
    """What builds a project.

    Attributes:
        requires: PEP 508 lines.
        backend: object that has the hooks, as ``module:object``.
        path: folders of the project that hold the backend itself.
    """

    requires: tuple[str, ...] = _LEGACY
    backend: str = _LEGACY_BACKEND
    path: tuple[str, ...] = ()


def build_system(archive: Path, name: str, subdirectory: str = "") -> BuildSystem:
    """Return the build system that a source archive names.

    Args:
        archive: the file, whatever it is called here.
        name: what it is called.
        subdirectory: folder of the project in it.

    Raises:
        BuildError: it is no sound archive of sources.
    """
    try:
        return _read(metadata(archive, name, subdirectory))
    except (tarfile.TarError, *DAMAGED_ZIP) as why:
        raise BuildError(f"{name} is no source archive that can be built: {why}", "use another release of it") from None


def metadata(archive: Path, name: str, subdirectory: str = "") -> bytes:
    """Return the ``pyproject.toml`` of a source archive, empty if it has none; errors are those of the formats."""
    file = f"{subdirectory}/pyproject.toml" if subdirectory not in ("", ".") else "pyproject.toml"
    return (
        _from_zip(archive, file)
        if name.endswith(".zip")
        else _from_tar(archive, file, "r:" if name.endswith(".tar") else "r:gz")
    )


def _from_tar(archive: Path, file: str, mode: Literal["r:", "r:gz"]) -> bytes:
    with tarfile.open(archive, mode) as tar:
        for member in tar:
            if _is_wanted(member.name, file) and member.isreg() and member.size <= _LIMIT:
                content = tar.extractfile(member)
                return content.read(_LIMIT) if content else b""
    return b""


def _from_zip(archive: Path, file: str) -> bytes:
    with zipfile.ZipFile(archive) as found:
        for member in found.infolist():
            if _is_wanted(member.filename, file) and member.file_size <= _LIMIT:
                with found.open(member) as content:
                    return content.read(_LIMIT)
    return b""


def _is_wanted(member: str, file: str) -> bool:
    top, _, inner = member.removeprefix("./").partition("/")
    return bool(top) and inner == file


def _read(data: bytes) -> BuildSystem:
    table: Any = parse_toml(data.decode("utf-8")).get("build-system")
    if not isinstance(table, dict):
        return BuildSystem()
    backend = table.get("build-backend") or _LEGACY_BACKEND
    if not isinstance(backend, str):
        raise ValueError("build-system.build-backend in its pyproject.toml is no text")
    return BuildSystem(
        requires=_texts(table, "requires"), backend=backend, path=_texts({"backend-path": [], **table}, "backend-path")
    )


def _texts(table: dict[str, Any], key: str) -> tuple[str, ...]:
    found = table.get(key)
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise ValueError(f"build-system.{key} in its pyproject.toml is no list of texts")
    return tuple(found)
