"""Python packages that were imported from outside the image's locked folders: version, place, digests of files.

The lock says what is in the image. A folder mounted for the run, or ``site-packages`` in the project, may hold another
version of a library on each machine, under one name and at one path: then the record is the only place that shows it.
A digest for each file, since two runs may import different parts of one package: what both imported can be compared.
Sources of the project itself are recorded file by file (``observer``), shared objects by ``objects``. What is in
folders for temporary files the program has made itself, under names that are often drawn: it is left out.
"""

from __future__ import annotations

import os
import sys

from ..guard import gate
from .objects import SYSTEM
from .observer import digest_file, source_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

COUNT = 100
FILES = 5000
"""Files that are listed of all packages together."""
SIZE = 1 << 26
"""Bytes that are digested of all packages together; what comes after has no digest."""
_TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 -- nothing is made there
_LONGEST = 200


def packages(own: Callable[[str], bool], modules: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return the packages that were imported from elsewhere, by name: ``name``, ``version``, ``path``, ``files``.

    ``files`` holds the SHA-256 of each imported file by its name below the package's folder, None if it is too large or
    gone. No name depends on what else was imported.

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
    found, left, count = [], SIZE, FILES
    for name in sorted(files)[:COUNT]:
        paths = sorted({path if path in known else _existing(path) for path in files[name]} - {""})
        if paths:
            places = _places(loaded.get(name)) or [_common(paths)]
            listed, left = _digests(paths[: max(0, count)], places, known, left)
            count -= len(listed)
            found.append({"name": name, "version": _version(loaded.get(name)), "path": places[0], "files": listed})
    return found


def temporary() -> set[str]:
    """Return the folders in which this process makes temporary files."""
    chosen = (os.environ.get("TMPDIR"), getattr(sys.modules.get("tempfile"), "tempdir", None))
    return {*_TEMPORARY, *(folder for folder in chosen if isinstance(folder, str) and folder.startswith("/"))}


def _passed() -> tuple[str, ...]:
    """Return the folders of which nothing is listed: locked ones, and those for temporary files."""
    folders = {sys.prefix, sys.base_prefix, gate.PREFIX, gate.RUN_DIR, *temporary()}
    return (*SYSTEM, *(f"{path.rstrip('/')}/" for path in folders if path.strip("/")))


def _places(module: Any) -> list[str]:
    """Return the folders of a package: its own, then those where parts of it are looked for."""
    file = _existing(_file_of(module))
    places = [os.path.dirname(file)] if file else []
    try:
        more = [os.path.abspath(path) for path in object.__getattribute__(module, "__dict__").get("__path__") or ()]
    except Exception:
        more = []
    return places + [path for path in more if path not in places and os.path.isdir(path)]


def _digests(
    paths: list[str], places: list[str], known: Mapping[str, str], left: int
) -> tuple[dict[str, str | None], int]:
    """Digest files by their names below the first folder that holds them; returns how many bytes may still be read."""
    found: dict[str, str | None] = {}
    for path in paths:
        content = known.get(path)
        if content is None:
            read = digest_file(path, left)
            content = read["sha256"]
            left -= (read["size"] or 0) if content else 0
        starts = (len(place.rstrip("/")) + 1 for place in places if path.startswith(f"{place.rstrip('/')}/"))
        found.setdefault(path[next(starts, 0) :], content)
    return found, left


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
