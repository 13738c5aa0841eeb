"""Which file of the host a path in the container was, by the mounts that a record lists."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path, PurePosixPath

from envbuild.core.fs import folder_below, open_regular
from envbuild.lockfile import layout

_LINKED = (errno.ELOOP, errno.ENOTDIR, errno.EINVAL)
"""What opening a path refuses that leads through a link, or up: where it leads is found out level by level."""


def host_place(mounts: Sequence[str], path: str, project: Path) -> tuple[Path, str] | None:
    """Return the folder of the host and the path below it of a file that a run read; None if it is in neither.

    Args:
        mounts: ``source:target:ro`` as records have them (``Options.mounts``).
        path: relative to the project, or absolute in the container.
        project: the folder that the run had as its project.

    Returns:
        The project or a mount's source, and the path below it; of a file that is mounted itself folder and name.
    """
    inside = path if path.startswith("/") else f"{layout.WORKSPACE}/{path}"
    found: tuple[Path, str] | None = None
    longest = 0
    for place, source in ((layout.WORKSPACE, str(project)), *map(_parts, mounts)):
        below = inside == place or inside.startswith(f"{place}/")
        if place and below and len(place) >= longest:
            found, longest = (Path(source), inside[len(place) + 1 :]), len(place)
    if found is not None and not found[1]:
        found = found[0].parent, found[0].name
    return found


def places_in_project(mounts: Sequence[str]) -> tuple[str, ...]:
    """Return the folders and files of the project, relative to it, in whose place something else was mounted.

    Args:
        mounts: as ``host_place`` takes them. One that has the project's own folder in its place is none.
    """
    return tuple(
        place.removeprefix(f"{layout.WORKSPACE}/")
        for place, source in map(_parts, mounts)
        if place.startswith(f"{layout.WORKSPACE}/") and not source.endswith(place.removeprefix(layout.WORKSPACE))
    )


@contextmanager
def open_read(mounts: Sequence[str], path: str, project: Path) -> Iterator[BufferedReader]:
    """Open a file that a run read, as ``host_place`` finds it.

    Raises:
        OSError: it is not there, or no regular file.
        ValueError: it is neither in the project nor in what was mounted, or a link leads out of it.
        RuntimeError: a circle of links.
    """
    found = host_place(mounts, path, project)
    if found is None:
        raise ValueError(f"neither in the project nor mounted: {path}")
    root, below = found
    try:
        stream = _open(root, PurePosixPath(below).parts)
    except OSError as error:
        if error.errno not in _LINKED:
            raise
        root = root.resolve()
        file = (root / below).resolve()
        if file == root or not file.is_relative_to(root):
            raise ValueError(f"leads elsewhere: {path}") from None
        stream = _open(root, file.relative_to(root).parts)
    with stream:
        yield stream


def _open(root: Path, parts: Sequence[str]) -> BufferedReader:
    """Open a regular file below a folder; raises ``OSError`` for a link on the way."""
    *above, name = parts
    with folder_below(root, *above) as folder:
        return open_regular(folder / name, follow=False)


def _parts(mount: str) -> tuple[str, str]:
    """Split a mount of a record into its target and its source."""
    source, _, rest = mount.rpartition(":")[0].rpartition(":")
    return rest.rstrip("/"), source
