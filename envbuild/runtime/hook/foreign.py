"""Python packages that were imported from outside the image's locked folders: version, place and one digest of each.

The lock says what is in the image. A folder mounted for the run, or ``site-packages`` in the project, may hold another
version of a library on each machine, under one name and at one path: then the record is the only place that shows it.
Sources of the project itself are recorded file by file (``observer``), shared objects by ``objects``.
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
_LONGEST = 200


def packages(own: Callable[[str], bool], modules: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return the packages that were imported from elsewhere, by name: ``name``, ``version``, ``path``, ``sha256``.

    Args:
        own: whether a file is the project's own source.
        modules: what was imported; all of this interpreter by default.
    """
    loaded = dict(sys.modules if modules is None else modules)
    locked = _locked()
    files: dict[str, set[str]] = {}
    for name, module in loaded.items():
        path = _file_of(module)
        if path and not path.startswith(locked) and not own(path):
            files.setdefault(name.partition(".")[0], set()).add(path)
    found, left = [], SIZE
    for name in sorted(files)[:COUNT]:
        entry, left = _described(name, loaded.get(name), sorted(files[name]), left)
        found.append(entry)
    return found


def _locked() -> tuple[str, ...]:
    prefixes = {sys.prefix, sys.base_prefix, gate.PREFIX, gate.RUN_DIR}
    return (*SYSTEM, *(f"{path.rstrip('/')}/" for path in prefixes if path != "/"))


def _described(name: str, module: Any, paths: list[str], left: int) -> tuple[dict[str, Any], int]:
    """Describe one package; returns how many bytes may still be digested."""
    place = _common(paths)
    lines, whole = [], True
    for path in paths:
        found = digest_file(path, left)
        left -= (found["size"] or 0) if found["sha256"] else 0
        whole = whole and found["sha256"] is not None
        lines.append(f"{os.path.relpath(path, place)}\0{found['sha256']}\n")
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
    return version[:_LONGEST] if isinstance(version, str) else ""


def _file_of(module: Any) -> str:
    """Return the file that a module came from: its source, or the archive that holds it."""
    try:
        path = object.__getattribute__(module, "__dict__").get("__file__")
    except Exception:
        return ""
    if not isinstance(path, str) or not path.startswith("/"):
        return ""
    path = source_of(path) if path.endswith(".pyc") else path
    while path not in ("", "/") and not os.path.isfile(path):
        path = os.path.dirname(path)
    return "" if path == "/" else path
