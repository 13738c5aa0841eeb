"""The files of a project as a run found them, kept next to its record: ``diff`` names those that changed since.

    .envbuild/runs/<id>/files    names, sizes, times of change and permissions, compressed

What a program reads by other means than Python's ``open`` no record shows, nor the names that it only lists, nor
whether a file may be run. The listing may be deleted at any time: comparisons then show less.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from envbuild.core.fs import atomic_file, folder_below, read_regular
from envbuild.core.text import encodable
from envbuild.lockfile.discovery import STATE_FOLDER

MOST = 20_000
"""Files and folders of the largest project whose listing is kept."""
MOST_MOUNTED = 5_000
"""Those of the largest mounted folder: it may be on a slow network, and is looked at for this alone."""
_LIMIT = 4 << 20
_UNPACKED = 64 << 20
_NAME = "files"


class FoundFile(msgspec.Struct, frozen=True, array_like=True):
    """One file, or a folder with ``/`` at the end, of which only the permissions are known.

    Attributes:
        path: relative to the project; of what was mounted the absolute one inside.
        size: bytes.
        changed: time of change in nanoseconds.
        mode: permission bits; 0 for symbolic links and what nobody may read.
    """

    path: str
    size: int
    changed: int
    mode: int


def folders_above(path: str) -> Iterator[str]:
    """Yield the folders above a relative path, each with ``/`` at the end; of a folder's own path not itself."""
    return (path[: place + 1] for place, letter in enumerate(path[:-1]) if letter == "/")


def keep(project: Path, identity: str, states: Mapping[str, tuple[int, int, int, int, int]]) -> None:
    """Write what a run found in its project; what is too much, or cannot be written, is not kept.

    Args:
        project: where the record is.
        identity: of the run.
        states: by path, as ``envbuild.runs.workspace.scan`` returns them.
    """
    if len(states) > MOST:
        return
    files = [FoundFile(encodable(path), size, time, mode) for path, (size, time, _, _, mode) in sorted(states.items())]
    data = zlib.compress(msgspec.json.encode(files), 1)
    with (
        suppress(OSError),
        folder_below(project, STATE_FOLDER, "runs", identity) as folder,
        atomic_file(folder / _NAME, mode=0o600, sync=False, hand_over=True) as stream,
    ):
        stream.write(data)


def kept(project: Path, identity: str) -> dict[str, FoundFile] | None:
    """Return what a run found by path; None if it was not kept, or is damaged."""
    with suppress(OSError, zlib.error, ValueError, RecursionError):
        with folder_below(project, STATE_FOLDER, "runs", identity) as folder:
            data = read_regular(folder / _NAME, _LIMIT, follow=False)
        text = zlib.decompressobj().decompress(data, _UNPACKED)
        return {file.path: file for file in msgspec.json.decode(text, type=tuple[FoundFile, ...])}
    return None
