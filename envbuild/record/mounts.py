"""Which file of the host a path in the container was, by the mounts that a record lists."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from envbuild.lockfile import layout


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


def _parts(mount: str) -> tuple[str, str]:
    """Split a mount of a record into its target and its source."""
    source, _, rest = mount.rpartition(":")[0].rpartition(":")
    return rest.rstrip("/"), source
