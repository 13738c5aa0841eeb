"""What is kept of a run next to its record, by content, so that runs can be compared and run again later.

    .envbuild/locks/<sha256>      each lock that a run was made with
    .envbuild/sources/<sha256>    script, modules and configuration files as the program read them

Both may be deleted at any time: comparisons then show less. A file is kept once, whatever reads it. Files above 1 MiB
are not kept, nor those that hold what looks like a secret: the record masks such values, so nothing next to it may
have them.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from envbuild.core.digest import sha256_bytes
from envbuild.core.fs import atomic_file, folder_below, read_regular
from envbuild.core.patterns import lazy
from envbuild.core.redact import holds_secret
from envbuild.lockfile.discovery import STATE_FOLDER
from envbuild.record.model import Record
from envbuild.record.mounts import host_place

LIMIT = 1 << 20
"""Bytes of the largest source that is kept."""

_LARGEST_LOCK = 16 << 20
_LOCKS, _SOURCES = "locks", "sources"
_DIGEST = lazy(r"[0-9a-f]{64}")


def keep_lock(project: Path, lock_path: Path) -> None:
    """Keep a lock; a project that takes no files is no error."""
    with suppress(OSError):
        data = lock_path.read_bytes()
        _keep(project, _LOCKS, sha256_bytes(data), data)


def keep_sources(project: Path, record: Record, workspace: Path | None = None) -> None:
    """Keep what a program read of its project and of mounted folders, as far as it still is what the program read.

    Args:
        project: where to keep it.
        record: of the run: at its end, or at its start for the script.
        workspace: the copy of the project that the program works in, if it does.
    """
    code = [(file.path, file.sha256) for file in record.modules]
    code += [(record.script.path, record.script.sha256)] if record.script else []
    settings = [(file.path, file.sha256) for file in record.configs]
    for files, names_count in ((code, False), (settings, True)):
        for path, digest in files:
            if digest is not None and not _place(project, _SOURCES, digest).exists():
                found = host_place(record.options.mounts, path, workspace or project)
                if found is not None:
                    _keep_source(*found, project, digest, names_count=names_count)


def lock_file(project: Path, sha256: str) -> Path | None:
    """Return the file of a kept lock; None if it was not kept, or does not match its name."""
    return _place(project, _LOCKS, sha256) if _read(project, _LOCKS, sha256) is not None else None


def source(project: Path, sha256: str) -> bytes | None:
    """Return a kept source; None if it was not kept."""
    return _read(project, _SOURCES, sha256)


def _keep_source(folder: Path, path: str, project: Path, digest: str, *, names_count: bool) -> None:
    """Keep a file that a program reports to have read; without following links, which the program may have made."""
    *above, name = path.split("/")
    with suppress(OSError, ValueError), folder_below(folder, *above) as place:
        data = read_regular(place / name, LIMIT, follow=False)
        if sha256_bytes(data) == digest and not holds_secret(data.decode("utf-8", "replace"), names=names_count):
            _keep(project, _SOURCES, digest, data)


def _keep(project: Path, kind: str, digest: str, data: bytes) -> None:
    name = _place(project, kind, digest).name
    with folder_below(project, STATE_FOLDER, kind, make=True) as folder:
        if os.path.lexists(folder / name):
            return
        mode = 0o600 if kind == _SOURCES else 0o644
        with atomic_file(folder / name, mode=mode, sync=False, hand_over=True) as stream:
            stream.write(data)


def _read(project: Path, kind: str, digest: str) -> bytes | None:
    name = _place(project, kind, digest).name
    try:
        with folder_below(project, STATE_FOLDER, kind) as folder:
            data = read_regular(folder / name, _LARGEST_LOCK if kind == _LOCKS else LIMIT, follow=False)
    except OSError:
        return None
    return data if sha256_bytes(data) == digest else None


def _place(project: Path, kind: str, digest: str) -> Path:
    if not _DIGEST.fullmatch(digest):
        raise ValueError(f"not a SHA-256: {digest!r}")
    return project / STATE_FOLDER / kind / digest
