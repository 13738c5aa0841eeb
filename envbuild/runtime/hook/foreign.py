"""Python packages that were imported from outside the image's locked folders: version, place and one digest of each.

The lock says what is in the image. A folder mounted for the run, or ``site-packages`` in the project, may hold another
version of a library on each machine, under one name and at one path: then the record is the only place that shows it.
Sources of the project itself are recorded file by file (``observer``), shared objects by ``objects``. What is in
folders for temporary files the program has made itself, under names that are often drawn: it is left out.
"""

from __future__ import annotations

import os
import sys

from ..digest import sha256
from ..guard import gate
from .objects import SYSTEM
from .observer import digest_file, source_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

COUNT = 100
SIZE = 1 << 26
"""Bytes that are digested of all packages together; what comes after has no digest."""
_TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 -- nothing is made there
_LONGEST = 200


def packages(own: Callable[[str], bool], modules: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return the packages that were imported from elsewhere, by name: ``name``, ``version``, ``path``, ``sha256``.

    Args:
        own: whether a file is the project's own source.
        modules: what was imported; all of this interpreter by default.
    """
    loaded = dict(sys.modules if modules is None else modules)
    passed = _passed()
    files: dict[str, set[str]] = {}
    for name, module in loaded.items():
        path = _file_of(module)
        if path and name != "__mp_main__" and not path.startswith(passed) and not own(path):
            files.setdefault(name.partition(".")[0], set()).add(path)
    if not files:
        return []
    from .installed import digests

    known = digests(path for each in files.values() for path in each)
    found, left = [], SIZE
    for name in sorted(files)[:COUNT]:
        paths = sorted({path if path in known else _existing(path) for path in files[name]} - {""})
        if paths:
            entry, left = _described(name, loaded.get(name), paths, known, left)
            found.append(entry)
    return found


def temporary() -> set[str]:
    """Return the folders in which this process makes temporary files."""
    chosen = (os.environ.get("TMPDIR"), getattr(sys.modules.get("tempfile"), "tempdir", None))
    return {*_TEMPORARY, *(folder for folder in chosen if isinstance(folder, str) and folder.startswith("/"))}


def _passed() -> tuple[str, ...]:
    """Return the folders of which nothing is listed: locked ones, and those for temporary files."""
    folders = {sys.prefix, sys.base_prefix, gate.PREFIX, gate.RUN_DIR, *temporary()}
    return (*SYSTEM, *(f"{path.rstrip('/')}/" for path in folders if path.strip("/")))


def _described(
    name: str, module: Any, paths: list[str], known: Mapping[str, str], left: int
) -> tuple[dict[str, Any], int]:
    """Describe one package; returns how many bytes may still be digested."""
    place = _common(paths)
    start = len(place.rstrip("/")) + 1
    lines, whole = [], True
    for path in paths:
        content = known.get(path)
        if content is None:
            read = digest_file(path, left)
            content = read["sha256"]
            left -= (read["size"] or 0) if content else 0
        whole = whole and content is not None
        lines.append(f"{path[start:]}\0{content}\n")
    digest = sha256("".join(lines).encode("utf-8", "surrogateescape")) if whole else None
    return {"name": name, "version": _version(module), "path": place, "sha256": digest}, left


def _common(paths: Iterable[str]) -> str:
    return os.path.commonpath([os.path.dirname(path) for path in paths])


def _version(module: Any) -> str:
    """Return what a package calls its version, without waking a lazy one."""
    try:
        version = object.__getattribute__(module, "__dict__").get("__version__")
    except Exception:
        return ""
    return str(version[:_LONGEST]) if isinstance(version, str) else ""


def _file_of(module: Any) -> str:
    """Return the path that a module has as its file; the source for bytecode."""
    try:
        path = object.__getattribute__(module, "__dict__").get("__file__")
    except Exception:
        return ""
    if not isinstance(path, str) or not path.startswith("/"):
        return ""
    if "/." in path or "//" in path:
        path = os.path.abspath(path)
    return source_of(path) if path.endswith(".pyc") else path


def _existing(path: str) -> str:
    """Return a file, or the archive that holds it; empty if there is neither."""
    while path not in ("", "/") and not os.path.isfile(path):
        path = os.path.dirname(path)
    return "" if path == "/" else path
